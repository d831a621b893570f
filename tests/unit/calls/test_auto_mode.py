"""`mode="auto"`: what sizes decide while tracing, and what operation counts decide for numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array

RNG = np.random.default_rng(1)


@pb.function
def layers(x: Float64[Array, "N"], a: Float64[Array, "K N"], b: Float64[Array, "M K"]) -> Any:
    return pb.tanh(b @ pb.tanh(a @ x))


@pb.function
def repeated(x: Float64[Array, "N"]) -> Any:
    return pb.while_loop(lambda s: s[0] < 9.0, lambda s: s + pb.sum(s) * s, pb.exp(x))


@pytest.mark.parametrize(
    ("dims", "mode"),
    [
        ({"N": 1, "K": 20, "M": 20}, "forward"),
        ({"N": 20, "K": 20, "M": 1}, "reverse"),
        ({"N": 50, "K": 2, "M": 50}, "mixed"),
    ],
)
def test_sizes_decide_at_specialization(dims: dict[str, int], mode: Any) -> None:
    shown = pb.jacobian(layers).c_source(comments=False, **dims)
    assert shown == pb.jacobian(layers, mode=mode).c_source(comments=False, **dims)
    n, k, m = dims["N"], dims["K"], dims["M"]
    x, a, b = RNG.standard_normal(n), RNG.standard_normal((k, n)), RNG.standard_normal((m, k))
    hidden = np.tanh(a @ x)
    expected = (1 - np.tanh(b @ hidden) ** 2)[:, None] * b @ ((1 - hidden**2)[:, None] * a)
    np.testing.assert_allclose(pb.jacobian(layers)(x, a, b), expected, rtol=1e-9, atol=1e-12)


def test_the_text_shows_what_symbolic_sizes_decide() -> None:
    assert pb.jacobian(layers).ir == pb.jacobian(layers, mode="forward").ir


def test_modes_that_cannot_go_through_are_left_out() -> None:
    x = np.array([0.1, 0.2])
    np.testing.assert_allclose(pb.jacobian(repeated)(x), pb.jacobian(repeated, mode="forward")(x))
    np.testing.assert_allclose(pb.jacobian(repeated, mode="mixed")(x), pb.jacobian(repeated, mode="forward")(x))


def test_mixed_mode_takes_trees_of_parameters_at_once() -> None:
    x, a, b = RNG.standard_normal(4), RNG.standard_normal((2, 4)), RNG.standard_normal((3, 2))
    found = pb.jacobian(layers, wrt=("x", "b", "a"), mode="mixed")(x, a, b)
    expected = pb.jacobian(layers, wrt=("x", "b", "a"), mode="reverse")(x, a, b)
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-12, atol=1e-15)
