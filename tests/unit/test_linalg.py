"""The functions of linear algebra: values against NumPy, derivatives against differences. Ids d03 are M̃'s functions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array, linalg
from pullback.testing import check_grads

V, W = np.array([1.5, -2.0, 0.5, 3.0]), np.array([0.3, 1.2, -0.7, 2.0])
M = np.arange(1.0, 13.0).reshape(3, 4) / 5
Q = np.array([[2.0, -1.0, 0.5], [0.3, 1.0, 2.0], [-1.0, 0.7, 1.5]])

Vector = Float64[Array, "N"]
Matrix = Float64[Array, "R C"]


def unary(f: Any, annotation: Any) -> Any:
    def g(x: Any) -> Any:
        return f(x)

    g.__annotations__ = {"x": annotation}
    return pb.function(g)


def binary(f: Any, left: Any, right: Any) -> Any:
    def g(x: Any, y: Any) -> Any:
        return f(x, y)

    g.__annotations__ = {"x": left, "y": right}
    return pb.function(g)


def pair_difference(p: Any) -> Any:
    a, b = p
    return a - b * b


# paper's name: function, arguments, expected
M_TILDE: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "vectorRange": (unary(lambda v: linalg.arange(linalg.rows(v)).astype(v.dtype) * v, Vector), (V,), np.arange(4) * V),
    "vectorFill": (
        binary(lambda v, s: linalg.full(linalg.rows(v), s), Vector, Float64[Array, ""]),
        (V, np.array(2.5)),
        np.full(4, 2.5),
    ),
    "vectorHot": (unary(lambda v: linalg.hot(linalg.rows(v), 2) * v, Vector), (V,), np.eye(4)[2] * V),
    "vectorMap": (unary(lambda v: linalg.map(lambda a: pb.sin(a) * a, v), Vector), (V,), np.sin(V) * V),
    "vectorMap2": (binary(lambda v, w: linalg.map2(lambda a, b: a * b + a, v, w), Vector, Vector), (V, W), V * W + V),
    "vectorZip": (
        binary(
            lambda v, w: (lambda z: pb.build(v.shape, lambda i: pair_difference((z[0][i], z[1][i]))))(linalg.zip(v, w)),
            Vector,
            Vector,
        ),
        (V, W),
        V - W * W,
    ),
    "vectorAdd": (binary(linalg.add, Vector, Vector), (V, W), V + W),
    "vectorEMul": (binary(linalg.multiply, Vector, Vector), (V, W), V * W),
    "vectorSMul": (binary(linalg.multiply, Vector, Float64[Array, ""]), (V, np.array(0.5)), V * 0.5),
    "vectorSum": (unary(linalg.sum, Vector), (V,), V.sum()),
    "vectorDot": (binary(linalg.vecdot, Vector, Vector), (V, W), V @ W),
    "vectorNorm": (unary(linalg.vector_norm, Vector), (V,), np.linalg.norm(V)),
    "vectorSlice": (unary(lambda v: linalg.slice(v, 1, 2), Float64[Array, "4"]), (V,), V[1:3]),
    "vectorToMatrix": (unary(linalg.row, Vector), (V,), V[None]),
    "vectorOutProd": (
        binary(linalg.outer, Vector, Float64[Array, "K"]),
        (V, np.array([2.0, -1.0])),
        np.outer(V, [2.0, -1.0]),
    ),
    "matrixRows": (unary(lambda m: pb.sum(m) * linalg.rows(m), Matrix), (M,), M.sum() * 3),
    "matrixCols": (unary(lambda m: pb.sum(m) * linalg.columns(m), Matrix), (M,), M.sum() * 4),
    "matrixZeros": (unary(lambda m: m * m + linalg.zeros(m.shape), Matrix), (M,), M * M),
    "matrixOnes": (unary(lambda m: m * m + linalg.ones(m.shape), Matrix), (M,), M * M + 1),
    "matrixEye": (unary(lambda m: m * linalg.eye(linalg.rows(m)), Float64[Array, "N N"]), (Q,), Q * np.eye(3)),
    "matrixHot": (unary(lambda m: m * linalg.hot(m.shape, (1, 2)), Matrix), (M,), M * ([[0], [1], [0]] * np.eye(4)[2])),
    "matrixMap": (
        unary(lambda m: linalg.map(lambda r: r * pb.sum(r), m), Matrix),
        (M,),
        M * M.sum(axis=1, keepdims=True),
    ),
    "matrixMap2": (
        binary(lambda a, b: linalg.map2(linalg.vecdot, a, b), Matrix, Matrix),
        (M, np.cos(M)),
        (M * np.cos(M)).sum(axis=1),
    ),
    "matrixZip": (
        binary(lambda a, b: pair_difference(linalg.zip(a, b)), Matrix, Matrix),
        (M, np.cos(M)),
        M - np.cos(M) ** 2,
    ),
    "matrixAdd": (binary(linalg.add, Matrix, Matrix), (M, np.cos(M)), M + np.cos(M)),
    "matrixTranspose": (unary(linalg.matrix_transpose, Matrix), (M,), M.T),
    "matrixMul": (binary(linalg.matmul, Matrix, Float64[Array, "C K"]), (M, np.sin(M.T)), M @ np.sin(M.T)),
    "matrixTrace": (unary(linalg.trace, Float64[Array, "N N"]), (Q,), np.trace(Q)),
}


def test_d03_there_are_28() -> None:
    assert len(M_TILDE) == 28


@pytest.mark.parametrize("name", M_TILDE)
def test_d03_value(name: str) -> None:
    f, arguments, expected = M_TILDE[name]
    for route in (f, f.interpret):
        found = route(*arguments)
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", M_TILDE)
def test_d03_gradient(name: str) -> None:
    f, arguments, _ = M_TILDE[name]
    check_grads(f, arguments, order=1)


def test_d03_the_table_of_the_reference_is_complete() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/reference/linalg.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)", text, re.MULTILINE)) >= set(M_TILDE)
    for name in re.findall(r"`linalg\.(\w+)", text):
        assert name in linalg.__all__


@pb.function
def uniform(x: Float64[Array, "R C"]) -> Any:
    norms = [linalg.vector_norm(x, ord=o) for o in (2, 1, 3, pb.inf, -pb.inf, 0)]
    return pb.stack([*norms, linalg.matrix_norm(x), *(linalg.matrix_norm(x, ord=o) for o in (1, -1, np.inf, -np.inf))])


def test_norms() -> None:
    x = M - 1.03
    norms = [np.linalg.norm(x.ravel(), o) for o in (2, 1, 3, np.inf, -np.inf, 0)]
    wanted = [*norms, *(np.linalg.norm(x, o) for o in ("fro", 1, -1, np.inf, -np.inf))]
    np.testing.assert_allclose(uniform(x), wanted, rtol=1e-12)
    check_grads(uniform, (x,), order=1)


def test_norms_along_axes() -> None:
    @pb.function
    def f(x: Float64[Array, "R C"]) -> Any:
        return linalg.vector_norm(x, axis=0), linalg.vector_norm(x, axis=1, keepdims=True)

    down, across = f(M)
    np.testing.assert_allclose(down, np.linalg.norm(M, axis=0))
    np.testing.assert_allclose(across, np.linalg.norm(M, axis=1, keepdims=True))


def test_the_norm_has_gradient_0_at_0_and_keeps_nan() -> None:
    f = M_TILDE["vectorNorm"][0]
    np.testing.assert_array_equal(pb.grad(f)(np.zeros(3)), np.zeros(3))
    assert np.isnan(f(np.array([1.0, np.nan])))


def test_hot_at_a_position_of_data() -> None:
    @pb.function
    def f(k: Int64[Array, ""], x: Float64[Array, "N"]) -> Any:
        return linalg.hot(x.shape, k) * x

    np.testing.assert_array_equal(f(np.int64(1), V), [0, -2, 0, 0])


def test_matrix_power() -> None:
    @pb.function
    def f(x: Float64[Array, "N N"], n: pb.Static) -> Any:
        return linalg.matrix_power(x, n)

    for n in (0, 1, 2, 5):
        np.testing.assert_allclose(f(Q, n), np.linalg.matrix_power(Q, n), rtol=1e-12)
    check_grads(lambda x: linalg.matrix_power(x, 3), (Q,), order=1)


def test_cross() -> None:
    @pb.function
    def f(x: Float64[Array, "N 3"], y: Float64[Array, "N 3"]) -> Any:
        return linalg.cross(x, y)

    np.testing.assert_allclose(f(Q, Q[::-1].copy()), np.cross(Q, Q[::-1]), atol=1e-12)
    check_grads(f, (Q, np.sin(Q)), order=1)


@pytest.mark.parametrize(
    ("f", "code"),
    [
        (lambda x: linalg.hot((3, 3), 1), "E104"),
        (lambda x: linalg.map2(pb.add, x, x[0]), "E101"),
        (lambda x: linalg.matrix_norm(x[0]), "E104"),
        (lambda x: linalg.matrix_norm(x, ord=3), "E104"),
        (lambda x: linalg.matrix_power(x, 2), "E104"),
        (lambda x: linalg.cross(x, x), "E104"),
        (lambda x: linalg.columns(x[0]) * x, "E104"),
        (lambda x: linalg.slice(x[0], 2, 4), "E103"),
    ],
)
def test_errors(f: Any, code: str) -> None:
    with pytest.raises(pb.PullbackError, match=code):
        unary(f, Float64[Array, "3 4"])
