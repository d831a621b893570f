"""Loops that only add up, multiply or compare are reductions, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ir.program import Fold, Program, walk_statements
from pullback.memory.table import MemoryTable
from pullback.rewrite.normal_form import normalize

N = 37
RNG = np.random.default_rng(3)
X, Y = RNG.uniform(0.5, 1.5, N), RNG.uniform(0.5, 1.5, N)
INF = float("inf")

# name: (initial state, step, the loop's outputs that are left in it)
LOOPS: dict[str, tuple[Any, Callable[..., Any], int]] = {
    "sum": (0.0, lambda s, i, x, y: s + x[i] * y[i], 0),
    "difference": (2.0, lambda s, i, x, y: s - x[i] / y[i], 0),
    "product": (1.0, lambda s, i, x, y: s * (x[i] - y[i]), 0),
    "product from another start": (0.5, lambda s, i, x, y: s * (x[i] - y[i]), 1),
    "maximum": (-INF, lambda s, i, x, y: pb.maximum(s, x[i] * y[i]), 0),
    "minimum": (0.6, lambda s, i, x, y: pb.minimum(s, x[i] + y[i]), 0),
    "the other one first": (-INF, lambda s, i, x, y: pb.maximum(x[i] * y[i], s), 1),
    "maximum from an element": (lambda x: 2 * x[5], lambda s, i, x, y: pb.maximum(s, x[i]), 0),
    "minimum from an element": (lambda x: 0.3 * x[0], lambda s, i, x, y: pb.minimum(s, x[i]), 0),
    "sum from an element": (lambda x: x[1] ** 2, lambda s, i, x, y: s + x[i] * y[i], 0),
    "under a condition": (1.0, lambda s, i, x, y: pb.where(x[i] > y[i], s + pb.exp(x[i]), s), 0),
    "condition on the state": (1.0, lambda s, i, x, y: pb.where(s < 9.0, s + x[i], s), 1),
    "shared part": ((0.0, 1.0), lambda s, i, x, y: shared(s, pb.exp(x[i] * y[i])), 0),
    "one of two": ((0.0, 1.0), lambda s, i, x, y: (s[0] + x[i], pb.sin(s[1] * y[i])), 1),
    "one reads the other": ((0.0, 1.0), lambda s, i, x, y: (s[0] + s[1], s[1] * y[i]), 2),
    "both read": ((0.0, 1.0), lambda s, i, x, y: (s[0] + x[i], s[1] * s[0]), 2),
    "twice": (1.0, lambda s, i, x, y: s + s + x[i], 1),
    "swapped": ((0.0, 1.0), lambda s, i, x, y: (s[1] + x[i], s[0] + y[i]), 2),
    "squared": (0.5, lambda s, i, x, y: 0.1 * s * s + x[i], 1),
    "a vector": (np.zeros(N), lambda s, i, x, y: s + x[i] * y, 0),
    "mirrored": (np.ones(N), lambda s, i, x, y: s[::-1] + x[i] * y, 1),
}


def shared(s: Any, e: Any) -> Any:
    return s[0] + e, s[1] * e


def looped(name: str, **policies: Any) -> Any:
    init, step, _ = LOOPS[name]

    def f(x: Any, y: Any) -> Any:
        start = pb.asarray(init) if isinstance(init, np.ndarray) else init(x) if callable(init) else init
        found = pb.fold(N, start, lambda s, i: step(s, i, x, y))
        return sum(pb.sum(part) for part in (found if isinstance(found, tuple) else (found,)))

    return pb.function(f, **policies)


def left(program: Program) -> int:
    return sum(len(s.outs) for s in walk_statements(normalize(program).body) if isinstance(s, Fold))


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    """What becomes of each; its values and derivatives are those of the loop."""
    f = looped(name)
    assert left(f.program(X, Y)) == LOOPS[name][2]
    with pb.exact():
        loop = looped(name)
        expected, slopes = loop.interpret(X, Y), pb.grad(loop, wrt=(0, 1)).interpret(X, Y)
        assert left(loop.program(X, Y)) > 0
    np.testing.assert_allclose([f(X, Y), f.interpret(X, Y)], [expected] * 2, rtol=1e-13)
    for mode in ("forward", "reverse"):
        found = pb.jacobian(f, wrt=(0, 1), mode=mode)(X, Y)
        for got, want in zip(found, slopes, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_the_gradient_of_a_sum_stores_nothing() -> None:
    @pb.function
    def dot(x: Float64[Array, "N"], y: Float64[Array, "N"]) -> Any:
        return pb.fold(x.shape[0], 0.0, lambda s, i: s + x[i] * y[i])

    table = pb.grad(dot).memory(N=1000)
    assert isinstance(table, MemoryTable)
    assert not table.buffers


def test_a_sum_that_another_state_adds_up_stays_a_loop() -> None:
    def step(s: Any, i: Any, x: Any, y: Any) -> Any:
        so_far = s[0] + x[i] * y
        return so_far, pb.sin(s[1] + 1 / pb.sum(so_far))

    f = pb.function(lambda x, y: pb.fold(N, (pb.zeros(N), 1.0), lambda s, i: step(s, i, x, y)))
    assert left(f.program(X, Y)) == 2


def test_loops_of_any_and_all() -> None:
    step = lambda x: lambda s, i: (s[0] | (x[i] > 1.4), s[1] & (x[i] > 0.6))
    f = pb.function(lambda x: pb.fold(N, (x[0] > 9.0, x[0] > 0.0), step(x)))
    assert left(f.program(X)) == 0
    assert tuple(map(bool, f(X))) == ((X > 1.4).any(), (X > 0.6).all())


def test_a_maximum_over_steps_of_which_there_may_be_none_stays_a_loop() -> None:
    @pb.function
    def largest(x: Float64[Array, "N"], start: Float64[Array, ""]) -> Any:
        return pb.fold(x.shape[0], start, lambda s, i: pb.maximum(s, x[i]))

    assert any(isinstance(s, Fold) for s in walk_statements(normalize(largest.program()).body))
    assert [largest.interpret(np.array(v), 2.0) for v in ([], [1.0], [1.0, 5.0])] == [2.0, 2.0, 5.0]
