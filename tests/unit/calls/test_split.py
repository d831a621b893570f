"""forward_backward (D13): together they are vjp, whatever the function is made of."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array

RNG = np.random.default_rng(3)
TABLE = RNG.normal(size=(4,))


def plain(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return pb.exp(x) * y, pb.sum(pb.tanh(y))


def loops(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    h, rows = pb.scan(5, x, lambda h, t: (pb.sin(h * y) + h, h[0]))
    return h, pb.sum(rows)


def chosen(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return pb.cond(x[0] > 0.0, lambda: pb.exp(x * y), lambda: x - y), pb.max(x)


def captured(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return x * pb.sum(pb.asarray(TABLE) ** 2) + y**3, pb.sum(x)


def repeated(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    step = pb.checkpoint(lambda a: pb.exp(pb.sin(a)) * y)
    return step(step(x)), pb.sum(x)


@pytest.mark.parametrize("f", [plain, loops, chosen, captured, repeated])
@pytest.mark.parametrize("wrt", [None, "y", ("x", "y")])
def test_both_parts_together_are_vjp(f, wrt):
    x, y, c = RNG.normal(size=(3, 6))
    out, expected = pb.vjp(f, wrt)(x, y, cotangent=(c, 0.5))
    forward, backward = pb.forward_backward(f, wrt)
    ours, residuals = forward(x, y)
    found = backward(residuals, (c, 0.5))
    for a, b in (*zip(ours, out, strict=True), (np.asarray(found), np.asarray(expected))):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(np.asarray(backward.interpret(residuals, (c, 0.5))), np.asarray(found), rtol=1e-12)


def test_the_parts_are_types_before_anything_runs():
    forward, backward = pb.forward_backward(loops, "y")
    kept = "Residuals(y: f64[N], state_steps: f64[5, N], multiply_bar_cos_steps: f64[5, N])"
    assert forward.type == f"(x: f64[N], y: f64[N]) -> ((f64[N], f64), {kept})"
    assert backward.type == f"(residuals: {kept}, cotangent: (f64[N], f64)) -> f64[N]"


def test_a_dim_that_no_residual_has_is_carried():
    @pb.function
    def mean(x: Float64[Array, "N"]):
        return pb.sum(x) / x.shape[0]

    forward, backward = pb.forward_backward(mean)
    _out, residuals = forward(np.arange(4.0))
    assert residuals._fields == ("extent_N",)
    np.testing.assert_array_equal(backward(residuals, 1.0)[0], np.full(4, 0.25))


def test_parts_inside_another_function():
    forward, backward = pb.forward_backward(plain)

    @pb.function
    def step(x: Float64[Array, "N"], y: Float64[Array, "N"]):
        (a, b), residuals = forward(x, y)
        return backward(residuals, (a, b))

    x, y = RNG.normal(size=(2, 3))
    _out, expected = pb.vjp(plain)(x, y, cotangent=(np.exp(x) * y, np.tanh(y).sum()))
    for a, b in zip(step(x, y), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_integers_and_none():
    def f(x: Float64[Array, "N"], k: Int64[Array, "M"]):
        return pb.take(x, k), k + 1

    forward, backward = pb.forward_backward(f)
    (_, n), residuals = forward(np.arange(3.0), np.array([2, 0, 2]))
    x_bar, none = backward(residuals, (np.ones(3), None))
    assert none is None and n.tolist() == [3, 1, 3]
    assert x_bar.tolist() == [1.0, 0.0, 2.0]
