"""Shaikhha et al., Efficient Differentiable Programming in a Functional Array-Processing Language: derivatives."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array

Mode = Literal["forward", "reverse"]
MODES: list[Mode] = ["forward", "reverse"]
RNG = np.random.default_rng(3)

# D06: scalar, vector and matrix in and out --------------------------------------------------------------------------


def scalar_to_scalar(x: Float64[Array, ""]) -> Any:
    return pb.sin(x) * x


def scalar_to_vector(x: Float64[Array, ""]) -> Any:
    return pb.build(4, lambda i: pb.exp(x * i) + x)


def scalar_to_matrix(x: Float64[Array, ""]) -> Any:
    return pb.build((2, 3), lambda i, j: pb.cos(x * i) * x**j)


def vector_to_scalar(x: Float64[Array, "N"]) -> Any:
    return pb.log(pb.sum(pb.exp(x)))


def vector_to_vector(x: Float64[Array, "N"]) -> Any:
    return pb.tanh(x) * pb.sum(x)


def vector_to_matrix(x: Float64[Array, "N"]) -> Any:
    return pb.outer(x, pb.sin(x))


def matrix_to_scalar(x: Float64[Array, "N M"]) -> Any:
    return pb.sum(pb.sqrt(1 + x * x))


def matrix_to_vector(x: Float64[Array, "N M"]) -> Any:
    return pb.sum(pb.exp(x), axis=1) * x[:, 0]


def matrix_to_matrix(x: Float64[Array, "N M"]) -> Any:
    return x @ pb.matrix_transpose(x)


KINDS = {"scalar": RNG.standard_normal(()), "vector": RNG.standard_normal(3), "matrix": RNG.standard_normal((3, 2))}


def differences(f: Callable[..., Any], x: Any) -> Any:
    """The Jacobian by central differences, axes of the result first."""
    x = np.array(x)
    columns = []
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += 1e-6
        down[at] -= 1e-6
        columns.append((np.asarray(f(up)) - np.asarray(f(down))) / 2e-6)
    return np.moveaxis(np.array(columns).reshape(x.shape + columns[0].shape), range(x.ndim), range(-x.ndim, 0))


@pytest.mark.parametrize("mode", [*MODES, "auto"])
@pytest.mark.parametrize(("into", "out"), list(product(KINDS, KINDS)))
def test_d06_every_kind_in_and_out(into: str, out: str, mode: Any) -> None:
    f = pb.function(globals()[f"{into}_to_{out}"])
    x = KINDS[into]
    found = pb.jacobian(f, mode=mode)
    assert np.shape(found(x)) == np.shape(f(x)) + np.shape(x)
    expected = differences(f, x)
    np.testing.assert_allclose(found(x), expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.interpret(x), expected, rtol=1e-7, atol=1e-8)


# D08: perturbation confusion ----------------------------------------------------------------------------------------


def slope(f: Callable[..., Any], mode: Mode) -> Callable[[Any], Any]:
    """The derivative of a function of one number, in a mode."""
    if mode == "reverse":
        return lambda x: pb.vjp(f)(x, cotangent=1.0)[1][0]
    return lambda x: pb.jvp(f)((x,), (1.0,))[1]


@pytest.mark.parametrize(("outer", "inner"), list(product(MODES, MODES)))
def test_d08_perturbations_are_not_confused(outer: Mode, inner: Mode) -> None:
    def f(x: Float64[Array, ""]) -> Any:
        return x * slope(lambda y: x + y, inner)(x)

    def derivative(x: Float64[Array, ""]) -> Any:
        return slope(f, outer)(x)

    assert pb.function(derivative)(3.0) == 1.0


@pytest.mark.parametrize(("outer", "inner"), list(product(["forward", "reverse", "auto"], repeat=2)))
def test_d08_jacobians_of_jacobians(outer: Any, inner: Any) -> None:
    @pb.function
    def f(x: Float64[Array, "N"]) -> Any:
        return pb.sin(x) * x[0]

    x = np.array([0.3, -0.4, 0.9])
    second = pb.jacobian(pb.jacobian(f, mode=inner), mode=outer)
    expected = differences(lambda x: differences(f, x), x)
    assert second(x).shape == (3, 3, 3)
    np.testing.assert_allclose(second(x), expected, atol=1e-3)
    exact = np.zeros((3, 3, 3))
    for i in range(3):
        exact[i, i, i] += -np.sin(x[i]) * x[0]
        exact[i, i, 0] += np.cos(x[i])
        exact[i, 0, i] += np.cos(x[i])
    np.testing.assert_allclose(second(x), exact, atol=1e-14)


@pytest.mark.parametrize("modes", list(product(MODES, repeat=3)))
def test_d08_three_deep(modes: tuple[Mode, Mode, Mode]) -> None:
    def f(x: Float64[Array, ""]) -> Any:
        return pb.exp(2 * x) * x

    g: Callable[..., Any] = f
    for mode in modes:
        g = slope(g, mode)
    x = 0.7
    np.testing.assert_allclose(pb.function(g)(x), np.exp(2 * x) * (8 * x + 12), rtol=1e-13)


# D11: matrix identities ---------------------------------------------------------------------------------------------


def dot(u: Float64[Array, "N"], v: Float64[Array, "N"]) -> Any:
    return pb.sum(u * v)


def trace(m: Float64[Array, "N N"]) -> Any:
    return pb.sum_over(m.shape[0], lambda i: m[i, i])


def trace_of_product(m: Float64[Array, "N K"], a: Float64[Array, "K N"]) -> Any:
    p = m @ a
    return pb.sum_over(p.shape[0], lambda i: p[i, i])


def bilinear(u: Float64[Array, "N"], m: Float64[Array, "N K"], v: Float64[Array, "K"]) -> Any:
    return (u @ m) @ v


def bilinear_from_the_right(u: Float64[Array, "N"], m: Float64[Array, "N K"], v: Float64[Array, "K"]) -> Any:
    return u @ (m @ v)


def dot_by_a_loop(u: Float64[Array, "N"], v: Float64[Array, "N"]) -> Any:
    return pb.fold(u.shape[0], 0.0, lambda s, i: s + u[i] * v[i])


def trace_by_a_loop(m: Float64[Array, "N N"]) -> Any:
    return pb.fold(m.shape[0], 0.0, lambda s, i: s + m[i, i])


def bilinear_by_loops(u: Float64[Array, "N"], m: Float64[Array, "N K"], v: Float64[Array, "K"]) -> Any:
    row = lambda i: pb.fold(v.shape[0], 0.0, lambda s, k: s + m[i, k] * v[k])
    return pb.fold(u.shape[0], 0.0, lambda s, i: s + u[i] * row(i))


IDENTITIES: list[tuple[Callable[..., Any], str, str]] = [
    (dot, "u", "build {0} < N {{ v[{0}] }}"),
    (trace, "m", "build {0} < N, {1} < N {{ [{0} == {1}] f64(1.0) }}"),
    (trace_of_product, "m", "build {0} < N, {1} < K {{ a[{1}, {0}] }}"),
    (bilinear, "m", "build {0} < N, {1} < K {{ v[{1}] * u[{0}] }}"),
    (bilinear_from_the_right, "m", "build {0} < N, {1} < K {{ u[{0}] * v[{1}] }}"),
    (dot_by_a_loop, "u", "build {0} < N {{ v[{0}] }}"),
    (trace_by_a_loop, "m", "build {0} < N, {1} < N {{ [{0} == {1}] f64(1.0) }}"),
    (bilinear_by_loops, "m", "build {0} < N, {1} < K {{ u[{0}] * v[{1}] }}"),
]


def only_statement(text: str) -> str:
    """The one statement of a program, after its name."""
    lines = text.strip().splitlines()
    assert len(lines) == 3, text
    return lines[1].split(" = ", 1)[1]


def holds(text: str, identity: str) -> None:
    found = only_statement(text)
    names = [part.split(" <")[0].split()[-1] for part in found.split("{")[0].split(",")]
    assert found == identity.format(*names)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("f", "wrt", "identity"), IDENTITIES)
def test_d11_the_derivative_is_the_right_hand_side(f: Callable[..., Any], wrt: str, identity: str, mode: Mode) -> None:
    holds(pb.jacobian(f, wrt=wrt, mode=mode).ir, identity)


@pytest.mark.parametrize(("f", "wrt", "identity"), IDENTITIES)
def test_d11_the_gradient_is_the_right_hand_side(f: Callable[..., Any], wrt: str, identity: str) -> None:
    holds(pb.grad(f, wrt=wrt).ir, identity)
