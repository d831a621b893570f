"""Operator expressions: their algebra, how they print, and that shared parts are evaluated once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback.errors import DerivativeError
from pullback.operators import ZERO, Hadamard, I, Kronecker, LeftMultiply, Operator, RightMultiply

A = LeftMultiply([[1.0, 2.0], [3.0, 4.0]], "A")
B = RightMultiply([[0.0, 1.0], [1.0, 1.0]], "B")
H = Hadamard([[1.0, 2.0], [3.0, 4.0]], "h")
X = np.array([[1.0, -1.0], [2.0, 0.5]])


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (A @ B, "L[A] R[B]"),
        ((A @ B).T, "R[Bᵀ] L[Aᵀ]"),
        ((A @ B).T.T, "L[A] R[B]"),
        (A + B, "L[A] + R[B]"),
        (A - B, "L[A] - R[B]"),
        (A @ (B + H), "L[A] (R[B] + H[h])"),
        (2 * A, "2 L[A]"),
        (-(A + B), "-(L[A] + R[B])"),
        (-1 * -A, "L[A]"),
        ((2 * A) @ (3 * B), "6 L[A] R[B]"),
        (A / 2, "0.5 L[A]"),
        (A + 1, "L[A] + I"),
        (1 - A, "-L[A] + I"),
        (I @ A @ I, "L[A]"),
        (A @ ZERO, "0"),
        (A + ZERO, "L[A]"),
        (ZERO - A, "-L[A]"),
        (A - ZERO, "L[A]"),
        (0 * A, "0"),
        (ZERO + ZERO, "0"),
        (A.inverse(), "L[A⁻¹]"),
        (LeftMultiply(np.ones((2, 3))), "L[2×3]"),
        (Kronecker(np.ones((2, 2)), np.ones((1, 1)), ("K", None)).T, "(Kᵀ ⊗ 1×1ᵀ)"),
        ((2 * I) @ I, "2 I"),
    ],
    ids=str,
)
def test_text(expression: Operator, text: str) -> None:
    assert str(expression) == repr(expression) == text


def test_sums_and_products_act_as_they_read() -> None:
    np.testing.assert_allclose((A @ B + 2 * H - 1)(X), A.array @ X @ B.array + 2 * H.array * X - X)
    np.testing.assert_allclose((A @ B).inverse()((A @ B) @ X), X, rtol=1e-13)
    np.testing.assert_allclose((A / 4)(X), A.array @ X / 4)
    np.testing.assert_allclose((2 - A)(X), 2 * X - A.array @ X)
    np.testing.assert_allclose(B(X[0]), X[0] @ B.array)


def test_zero_is_neutral_and_absorbing_for_anything() -> None:
    assert A @ ZERO is ZERO
    assert A @ 0 is ZERO
    assert ZERO @ X is ZERO
    assert I @ X is X
    assert (ZERO + X) is X
    assert (X + ZERO) is X
    assert (X - ZERO) is X
    np.testing.assert_array_equal(ZERO - X, -X)
    assert ZERO.T is ZERO
    assert ZERO == 0.0
    assert ZERO != 1
    assert hash(ZERO) == hash(0)
    assert np.array([ZERO, 1.0], dtype=float).tolist() == [0.0, 1.0]
    with pytest.raises(DerivativeError, match="E213"):
        ZERO.inverse()


def test_dense_forms_ask_for_a_shape_where_they_need_one() -> None:
    with pytest.raises(DerivativeError, match="E215"):
        (A @ B).to_dense()
    assert (A @ H).to_dense().shape == (4, 4)
    assert (H + A).to_dense().shape == (4, 4)
    assert ZERO.to_dense((2, 1)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("other", ["x", None, [1.0]])
def test_what_is_neither_operator_nor_number_does_not_add(other: Any) -> None:
    with pytest.raises(TypeError):
        A + other
    with pytest.raises(TypeError):
        A * other


def test_nested_diamonds_are_walked_once() -> None:
    """Two paths through each of 60 diamonds: 2^60 terms if shared parts were repeated."""
    op: Operator = I
    for _ in range(60):
        op = 0.5 * A @ op + 0.5 * A.inverse() @ op
    half = 0.5 * (A.array + np.linalg.inv(A.array))
    np.testing.assert_allclose(op(X), np.linalg.matrix_power(half, 60) @ X, rtol=1e-9)


def test_long_chains_do_not_recurse() -> None:
    op: Operator = I
    for _ in range(3000):
        op = I / 1 @ H @ op
    assert len(str(op).split()) == 3000
