"""odeint, root, minimize and trees: held to closed forms; derivatives to theirs and to differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback import Array
from pullback.testing import check_grads

pytestmark = pytest.mark.slow

TIMES = np.array([0.0, 0.3, 1.0, 2.5])


def oscillator(y: Any, t: Any, w: Any) -> Any:
    return {"x": y["v"], "v": -w * w * y["x"]}


@pytest.mark.parametrize(("method", "tolerance"), [("rk4", 2e-5), ("dopri5", 1e-6)])
def test_odeint_of_a_tree(method: Any, tolerance: float) -> None:
    @pb.function
    def swing(x0: Float64[Array, ""], w: Float64[Array, ""]):
        out = pb.odeint(oscillator, {"x": x0, "v": x0 * 0}, TIMES, w, method=method, steps=20, rtol=1e-8)
        return out["x"], out["v"]

    x, v = swing(1.5, 2.0)
    np.testing.assert_allclose(x, 1.5 * np.cos(2 * TIMES), atol=tolerance)
    np.testing.assert_allclose(v, -3 * np.sin(2 * TIMES), atol=tolerance)
    for a, b in zip(swing.interpret(1.5, 2.0), (x, v), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)

    @pb.function
    def last(x0: Float64[Array, ""], w: Float64[Array, ""]):
        return swing(x0, w)[0][-1]

    by_x0, by_w = pb.grad(last, wrt=("x0", "w"))(1.5, 2.0)
    np.testing.assert_allclose([by_x0, by_w], [np.cos(5.0), -1.5 * 2.5 * np.sin(5.0)], atol=20 * tolerance)
    tangent = pb.jvp(last)((np.float64(1.5), np.float64(2.0)), (np.float64(1.0), np.float64(0.0)))[1]
    np.testing.assert_allclose(tangent, np.cos(5.0), atol=20 * tolerance)


def test_odeint_of_vectors_backward_and_by_its_times() -> None:
    a = np.array([[-1.0, 0.5], [0.2, -0.3]])

    @pb.function
    def f(y0: Float64[Array, "2"], t: Float64[Array, "T"], a: Float64[Array, "2 2"]):
        return pb.odeint(lambda y, t, a: a @ y, y0, t, a, rtol=1e-9)

    y0, w, v = np.array([1.0, -2.0]), *np.linalg.eig(a)
    exact = lambda t: (v * np.exp(w * t)) @ np.linalg.solve(v, y0)
    for times in (TIMES, -TIMES):
        np.testing.assert_allclose(f(y0, times, a), [exact(t) for t in times], rtol=1e-7)

    @pb.function
    def end(t: Float64[Array, "T"], y0: Float64[Array, "2"], a: Float64[Array, "2 2"]):
        return pb.sum(f(y0, t, a)[-1])

    np.testing.assert_allclose(pb.grad(end)(TIMES, y0, a)[-1], (a @ exact(TIMES[-1])).sum(), rtol=1e-5)


def test_odeint_takes_short_steps_where_it_must() -> None:
    """Near 1 the solution of y' = y² grows without bound: 1 / (1 - t)."""

    @pb.function
    def f(t: Float64[Array, "T"]):
        return pb.odeint(lambda y, t: y * y, 1.0, t, rtol=1e-8, max_steps=300)

    times = np.array([0.0, 0.5, 0.99, 0.999])
    np.testing.assert_allclose(f(times), 1 / (1 - times), rtol=1e-5)
    with pytest.raises(pb.UnfinishedError, match="E404"):
        f(np.array([0.0, 1.1]))


def test_odeint_in_single_precision() -> None:
    @pb.function
    def f(y: Float32[Array, "N"], t: Float32[Array, "T"]):
        return pb.odeint(lambda y, t: -y, y, t, rtol=1e-5)

    y = f(np.ones(2, np.float32), TIMES.astype(np.float32))
    assert y.dtype == np.float32
    np.testing.assert_allclose(y[:, 0], np.exp(-TIMES), rtol=1e-4)


def test_root_of_a_system() -> None:
    @pb.function
    def solved(a: Float64[Array, "2"], x0: Float64[Array, "2"]):
        return pb.root(lambda x, a: pb.stack([x[0] ** 2 + x[1] - a[0], x[0] - x[1] ** 3 - a[1]]), x0, a)

    a, x0 = np.array([3.0, 0.5]), np.array([1.0, 1.0])
    x = solved(a, x0)
    np.testing.assert_allclose([x[0] ** 2 + x[1], x[0] - x[1] ** 3], a, atol=1e-9)
    jacobian = np.array([[2 * x[0], 1], [1, -3 * x[1] ** 2]])
    np.testing.assert_allclose(pb.jacobian(solved)(a, x0), np.linalg.inv(jacobian), rtol=1e-8)
    np.testing.assert_array_equal(pb.jacobian(solved, wrt="x0")(a, x0), 0)


def test_root_of_trees_and_its_second_derivative() -> None:
    @pb.function
    def f(a: Float64[Array, ""]):
        return pb.root(lambda x, a: {"u": x["u"] ** 2 - a, "w": x["w"] - x["u"]}, {"u": 1.0, "w": 0.0}, a)["w"]

    np.testing.assert_allclose(f(2.0), 2**0.5, rtol=1e-10)
    np.testing.assert_allclose(pb.grad(pb.grad(f))(2.0), -(2**-1.5) / 4, rtol=1e-7)
    with pytest.raises(pb.UnfinishedError, match="E404"):
        f(-1.0)


def test_root_scalar() -> None:
    @pb.function
    def f(a: Float64[Array, ""]):
        return pb.root_scalar(lambda x, a: pb.cos(x) - a * x, 0.0, 2.0, a)

    x = float(f(1.0))
    np.testing.assert_allclose(np.cos(x), x, atol=1e-14)
    check_grads(f, (np.float64(1.3),), order=2)


def test_minimize() -> None:
    @pb.function
    def lowest(a: Float64[Array, ""], start: Float64[Array, "N"]):
        def valley(x, a):
            return pb.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (a - x[:-1]) ** 2)

        return pb.minimize(valley, start, a)

    start = np.array([-1.2, 1.0, 0.5])
    np.testing.assert_allclose(lowest(1.0, start), 1.0, rtol=1e-6)

    @pb.function
    def quadratic(a: Float64[Array, "N N"], b: Float64[Array, "N"]):
        return pb.minimize(lambda x, a, b: x @ (a @ x) / 2 - b @ x, b * 0, a, b)

    a, b = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([1.0, -1.0])
    np.testing.assert_allclose(quadratic(a, b), np.linalg.solve(a, b), atol=1e-8)
    np.testing.assert_allclose(pb.jacobian(quadratic, wrt="b")(a, b), np.linalg.inv(a), atol=1e-7)


def test_trees() -> None:
    @pb.function
    def f(w: Float64[Array, "N M"], b: Float64[Array, "M"], s: Float64[Array, ""]):
        tree = {"w": w, "b": [b, s]}
        vector, back = pb.ravel(tree)
        again = back(vector * 2.0)
        return vector, again["w"], again["b"][1], pb.tree_dot(tree, tree), pb.tree_map(pb.exp, tree)["b"][0]

    w, b, s = np.arange(6.0).reshape(2, 3), np.array([1.0, -1.0, 2.0]), np.float64(7.0)
    wanted = (np.concatenate([b, [s], w.ravel()]), 2 * w, 2 * s, (w**2).sum() + (b**2).sum() + s**2, np.exp(b))
    for found in (f(w, b, s), f.interpret(w, b, s)):
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y)
    with pytest.raises(pb.ShapeError, match=r"E139.*tree_map: trees of different structure: \[\*\] and \(\*,\)"):
        pb.tree_map(lambda x, y: x, [1], (1,))


def test_jacobians_by_name() -> None:
    def f(x: Float64[Array, "N"]):
        return pb.sin(x) * x[0]

    x = np.array([0.3, 0.5])
    np.testing.assert_allclose(pb.jacfwd(f)(x), pb.jacrev(f)(x))
    np.testing.assert_allclose(pb.jacfwd(f)(x), np.diag(np.cos(x) * x[0]) + np.outer(np.sin(x), [1, 0]))


def test_errors() -> None:
    with pytest.raises(pb.TraceError, match="odeint: there is no method 'euler'"):
        pb.function(lambda y: pb.odeint(lambda y, t: y, y, TIMES, method="euler"))(1.0)  # type: ignore[arg-type]
