"""Maps: <y, op x> = <op.T y, x> on every operator and on random expressions of them; inverses; wrong shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.errors import DerivativeError, ShapeError
from pullback.operators import (
    Diagonal,
    Hadamard,
    I,
    InnerProduct,
    Kronecker,
    LeftMultiply,
    Multiples,
    Operator,
    RightMultiply,
    inverse,
)

N = 3


def dot(a: Any, b: Any) -> Any:
    return np.sum(np.conj(a) * b)


@st.composite
def arrays(draw: st.DrawFn, *shape: int) -> np.ndarray:
    """Whole numbers, sometimes complex: products stay exact."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    real = rng.integers(-3, 4, shape).astype(float)
    return real + 1j * rng.integers(-3, 4, shape) if draw(st.booleans()) else real


def square_maps() -> st.SearchStrategy[Operator]:
    """Operators on matrices of N by N."""
    matrix = arrays(N, N)
    return st.one_of(
        st.just(I),
        matrix.map(LeftMultiply),
        matrix.map(RightMultiply),
        matrix.map(Hadamard),
        arrays(N).map(Diagonal),
        st.builds(Kronecker, matrix, matrix),
        matrix.map(lambda g: Multiples(g) @ InnerProduct(g + 1)),
    )


def expressions() -> st.SearchStrategy[Operator]:
    return st.recursive(
        square_maps(),
        lambda inner: st.one_of(
            st.builds(lambda a, b: a @ b, inner, inner),
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, b: a - b, inner, inner),
            st.builds(lambda s, a: s * a, st.sampled_from([-1, 0, 1, 2, 0.5, 2 - 1j]), inner),
        ),
        max_leaves=6,
    )


@given(expressions(), arrays(N, N), arrays(N, N))
@settings(max_examples=120, deadline=None)
def test_adjoint(op: Operator, x: np.ndarray, y: np.ndarray) -> None:
    left = dot(y, op(x) + 0 * x)
    assert np.isclose(left, dot(op.T(y) + 0 * y, x), rtol=1e-12, atol=1e-9)


@given(expressions(), arrays(N, N))
@settings(max_examples=60, deadline=None)
def test_dense_form_acts_alike(op: Operator, x: np.ndarray) -> None:
    dense = op.to_dense((N, N))
    image = (op(x) + 0 * x).reshape(-1, order="F")
    assert np.allclose(dense @ x.reshape(-1, order="F"), image, rtol=1e-12, atol=1e-9)
    assert np.allclose(op.T.to_dense((N, N)), dense.conj().T, rtol=1e-12, atol=1e-9)


@given(expressions(), arrays(N, N))
@settings(max_examples=60, deadline=None)
def test_a_matrix_to_the_left_of_any_operator_gives_an_inner_product(op: Operator, g: np.ndarray) -> None:
    x = np.arange(9.0).reshape(N, N)
    composed = InnerProduct(g) @ op
    assert np.isclose(composed(x) + 0.0, dot(g, op(x) + 0 * x), rtol=1e-12, atol=1e-9)


def regular() -> np.ndarray:
    return np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    "op",
    [
        I,
        LeftMultiply(regular()),
        RightMultiply(regular()),
        Hadamard(regular() + 1),
        Diagonal([1.0, 2.0, 4.0]),
        Kronecker(regular(), regular().T),
        -2 * LeftMultiply(regular()) @ RightMultiply(regular()),
    ],
    ids=str,
)
def test_inverses(op: Operator) -> None:
    x = np.random.default_rng(0).standard_normal((N, N))
    np.testing.assert_allclose(inverse(op)(op(x)), x, rtol=1e-12)
    np.testing.assert_allclose(op(inverse(op)(x)), x, rtol=1e-12)


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (LeftMultiply(np.zeros((2, 2))), "E213"),
        (RightMultiply(np.ones((2, 2))), "E213"),
        (Hadamard([1.0, 0.0]), "E213"),
        (Diagonal([1.0, 0.0]), "E213"),
        (LeftMultiply(np.zeros((2, 3))), "E212"),
        (InnerProduct([1.0]), "E212"),
        (Multiples([1.0]), "E212"),
        (I + Hadamard([1.0]), "E212"),
    ],
    ids=str,
)
def test_operators_without_inverse(op: Operator, code: str) -> None:
    with pytest.raises(DerivativeError, match=code):
        op.inverse()


@pytest.mark.parametrize(
    "op",
    [
        LeftMultiply(np.ones((2, 3))),
        RightMultiply(np.ones((3, 2))),
        Kronecker(np.ones((2, 2)), np.ones((2, 2))),
        Hadamard(np.ones((3, 3))),
        Diagonal(np.ones(3)),
        InnerProduct(np.ones((2, 2))),
        Multiples(np.ones((2, 2))),
    ],
    ids=str,
)
def test_what_does_not_fit_is_an_error(op: Operator) -> None:
    with pytest.raises(ShapeError, match="E210"):
        op(np.ones((4, 4)))


def test_left_multiplication_takes_a_matrix() -> None:
    with pytest.raises(ShapeError, match="takes a matrix"):
        LeftMultiply([1.0, 2.0])


def test_a_diagonal_scales_rows_of_vectors_and_matrices() -> None:
    op = Diagonal([2.0, 3.0], "d")
    assert op(np.array([1.0, 1.0])).tolist() == [2.0, 3.0]
    assert op(np.ones((2, 2))).tolist() == [[2.0, 2.0], [3.0, 3.0]]
    assert str(op) == "diag(d)"
