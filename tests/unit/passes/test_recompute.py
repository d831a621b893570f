"""Rows that a backward loop reads, computed again in blocks: the same numbers in less memory."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ir.interpret import interpret
from pullback.ir.program import Fold, walk_statements
from pullback.ir.traverse import specialize
from pullback.ir.verify import verify
from pullback.passes.recompute import recompute_rows


def recurrent(limit: int | None = None):
    @pb.function(memory_limit=limit)
    def loss(x: Float64[Array, "T N"], w: Float64[Array, "N N"], h0: Float64[Array, "N"]):
        def step(state, t):
            h, c = state
            c = pb.tanh(w @ h + x[t]) + 0.5 * c
            return (pb.sin(c), c), h * c  # a row that is used elsewhere too

        (h, _), rows = pb.scan(x.shape[0], (h0, h0), step)
        return pb.sum(h * h) + pb.sum(rows)

    return loss


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("trips", [12, 13, 47])
def test_every_number_of_levels_gives_the_same(trips, levels):
    rng = np.random.default_rng(trips)
    x, w, h = rng.normal(size=(trips, 3)), rng.normal(size=(3, 3)) / 3, rng.normal(size=3)
    program = specialize(pb.grad(recurrent(), wrt=("x", "w", "h0")).program(), {"T": trips, "N": 3})
    made = recompute_rows(program, levels)
    verify(made)
    for ours, expected in zip(interpret(made, [x, w, h]), interpret(program, [x, w, h]), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-14, atol=1e-14)
    folds = sum(isinstance(s, Fold) for s in walk_statements(made.body))
    assert (folds == 2) == (levels == 1)


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("trips", [12, 13])
def test_rows_that_are_read_elsewhere_are_put_together(trips, levels):
    """Of blocks, and of the steps that are left: the value needs rows that the gradient does not."""
    rng = np.random.default_rng(trips)
    x, w, h = rng.normal(size=(trips, 3)), rng.normal(size=(3, 3)) / 3, rng.normal(size=3)
    program = specialize(pb.value_and_grad(recurrent(), wrt="x").program(), {"T": trips, "N": 3})
    made = recompute_rows(program, levels)
    verify(made)
    for ours, expected in zip(interpret(made, [x, w, h]), interpret(program, [x, w, h]), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("levels", "size", "wanted"), [(2, 3, 8), (2, 30, 8), (3, 3, 4)])
def test_blocks_balance_the_memory_of_starts_and_rows(levels, size, wanted):
    """32 steps with four rows and two states are divided into (32 * 4 / 2)^(1 / levels) blocks."""
    program = specialize(pb.grad(recurrent(), wrt="x").program(), {"T": 32, "N": size})
    forward = next(s for s in program.body.statements if isinstance(s, Fold))
    assert (len(forward.states), len(forward.outs)) == (2, 2 + 4)
    blocks = next(s for s in recompute_rows(program, levels).body.statements if isinstance(s, Fold))
    assert blocks.var.extent.constant == wanted


@pytest.mark.slow
def test_ten_thousand_steps_in_a_mebibyte():
    def make(limit):
        @pb.function(memory_limit=limit)
        def loss(x: Float64[Array, "N"], w: Float64[Array, "N"]):
            h = pb.fold(10_000, x, lambda h, t: pb.sin(h * w) + 0.5 * h)
            return pb.sum(h * h)

        return pb.grad(loss, wrt="w")

    stored, limited = make(None), make(2**20)
    assert stored.memory(N=1000).peak_bytes > 80_000_000
    assert limited.memory(N=1000).peak_bytes <= 2**20
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=1000), rng.normal(size=1000) / 10
    np.testing.assert_array_equal(limited(x, w), stored(x, w))


def test_compiled_agrees_within_the_limit():
    rng = np.random.default_rng(1)
    x, w, h = rng.normal(size=(200, 8)), rng.normal(size=(8, 8)) / 3, rng.normal(size=8)
    stored = pb.grad(recurrent(), wrt=("x", "w"))
    limited = pb.grad(recurrent(20_000), wrt=("x", "w"))
    assert stored.memory(T=200, N=8).peak_bytes > 20_000 >= limited.memory(T=200, N=8).peak_bytes
    for ours, expected in zip(limited(x, w, h), stored(x, w, h), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)


def test_a_limit_is_a_number_of_bytes():
    with pytest.raises(ValueError, match="memory_limit='1MB': a number of bytes"):
        pb.function(lambda x: x, memory_limit="1MB")  # type: ignore[call-overload]
