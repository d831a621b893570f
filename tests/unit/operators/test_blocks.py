"""Matrices of elements: algebra, recursive transposition, printing, flattening and dense forms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.errors import DerivativeError, ShapeError
from pullback.operators import ZERO, BlockMatrix, Hadamard, I, LeftMultiply, blocks, column, diagonal, identity
from pullback.operators.tensors import Indexed

pytestmark = pytest.mark.slow

A = LeftMultiply(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), "A")
H = Hadamard([1.0, 2.0], "h")


def matrices(rows: int, columns: int) -> st.SearchStrategy[BlockMatrix]:
    element = st.one_of(st.just(0), st.complex_numbers(max_magnitude=9, allow_nan=False), st.integers(-9, 9))
    return st.lists(st.lists(element, min_size=columns, max_size=columns), min_size=rows, max_size=rows).map(blocks)


@given(matrices(2, 3), matrices(2, 3), matrices(3, 4))
@settings(max_examples=60, deadline=None)
def test_numbers_agree_with_arrays(a: BlockMatrix, b: BlockMatrix, c: BlockMatrix) -> None:
    for found, expected in [
        (a + b, a.to_dense() + b.to_dense()),
        (a - b, a.to_dense() - b.to_dense()),
        (a @ c, a.to_dense() @ c.to_dense()),
        (a.T, a.to_dense().conj().T),
        (a * 2, a.to_dense() * 2),
        (a / 2, a.to_dense() / 2),
        ((a @ c).T, (c.T @ a.T).to_dense()),
    ]:
        np.testing.assert_allclose(found.to_dense(), expected, rtol=1e-12, atol=1e-9)


def test_zeros_are_not_stored() -> None:
    matrix = blocks([[0, 0.0, ZERO], [None, Fraction(0), 5]])
    assert matrix.entries == {(1, 2): 5}
    assert matrix[0, 0] is ZERO
    assert matrix.elements() == [ZERO, ZERO, ZERO, ZERO, ZERO, 5]


def test_the_identity_has_every_size() -> None:
    matrix = blocks([[2.0, 1.0], [0, np.array([[3.0, 1.0], [0.0, 3.0]])]])
    assert (I - matrix)[0, 0] == -1.0
    assert (I - matrix)[1, 1].tolist() == [[-2.0, -1.0], [0.0, -2.0]]
    assert (matrix - I)[0, 0] == 1.0
    assert (matrix @ I) is matrix
    assert (matrix @ ZERO) is ZERO
    assert (I @ matrix) is matrix
    assert (matrix + ZERO) is matrix
    assert (matrix - ZERO) is matrix
    with pytest.raises(ShapeError, match="E210"):
        I - blocks([[1, 2]])


def test_products_keep_the_order_of_factors() -> None:
    left, right = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [5.0, 1.0]])
    assert (blocks([[left]]) @ blocks([[right]]))[0, 0].tolist() == (left @ right).tolist()
    assert (blocks([[left]]) @ [right])[0].tolist() == (left @ right).tolist()
    assert str((blocks([[A]]) @ blocks([[H]]))[0, 0]) == "L[A] H[h]"


def test_one_element_counts_as_a_matrix_of_one_row() -> None:
    x = np.array([1.0, 1.0])
    assert [e.tolist() for e in (blocks([[A], [H]]) @ x).elements()] == [[3.0, 7.0, 11.0], [1.0, 2.0]]


def test_transposition_reaches_every_level() -> None:
    inner = blocks([[A, 1j]])
    outer = blocks([[inner, 2.0], [0, inner]])
    assert outer.T.T[0, 0].entries.keys() == inner.entries.keys()
    assert str(outer.T[0, 0][0, 0]) == "L[Aᵀ]"
    assert outer.T[0, 0][1, 0] == -1j
    assert outer.T[1, 0] == 2.0
    fractions = np.array([[Fraction(1, 2), 1j]], dtype=object)
    assert blocks([[fractions]]).T[0, 0].tolist() == [[Fraction(1, 2)], [-1j]]


def test_text() -> None:
    matrix = blocks([[I, -A], [blocks([[1, 2], [0, 3]]), np.ones((2, 2))]])
    assert str(matrix) == "[            I        -L[A]]\n[[1  2];[.  3]  array(2, 2)]"
    assert repr(matrix) == "BlockMatrix(2 by 2, 4 elements)"


def test_flatten_takes_one_level_away() -> None:
    grouped = diagonal([blocks([[1, 2]]), blocks([[3, 4]])])
    assert grouped.flatten().entries == {(0, 0): 1, (0, 1): 2, (1, 2): 3, (1, 3): 4}
    assert grouped.flatten().shape == (2, 4)
    assert blocks([[I, blocks([[1], [2]])]]).flatten().entries == {(0, 0): I, (1, 1): I, (0, 2): 1, (1, 2): 2}


def test_dense_forms_of_mixed_elements() -> None:
    matrix = blocks([[A, I], [H, 0]])
    dense = matrix.to_dense([(2,), (3,)])
    np.testing.assert_array_equal(dense[:3, :2], A.array)
    np.testing.assert_array_equal(dense[:3, 2:], np.eye(3))
    np.testing.assert_array_equal(dense[3:, :2], np.diag([1.0, 2.0]))
    nested = blocks([[blocks([[1, 2], [3, 4]]), column([5, 6])]])
    assert nested.to_dense().tolist() == [[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]]
    assert identity(2).to_dense().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(DerivativeError, match="E215"):
        matrix.to_dense()
    with pytest.raises(ShapeError, match="E210"):
        blocks([[np.ones((2, 2)), np.ones((3, 2))]]).to_dense()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: blocks([[1, 2], [3]]),
        lambda: BlockMatrix((1, 1), {(1, 0): 2.0}),
        lambda: blocks([[1, 2]]) + blocks([[1], [2]]),
        lambda: blocks([[1, 2]]) @ blocks([[1, 2]]),
        lambda: blocks([[1, 2]]) @ [1.0],
    ],
)
def test_shapes_that_do_not_fit(wrong: Any) -> None:
    with pytest.raises(ShapeError, match="E210"):
        wrong()


def test_only_matrices_and_numbers_combine() -> None:
    matrix = blocks([[1]])
    for wrong in (lambda: matrix + "x", lambda: matrix - 2.0, lambda: matrix * "x", lambda: matrix / "x"):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(IndexError):
        matrix[1, 0]


def test_vectors_are_columns_of_a_dense_form() -> None:
    found = blocks([[np.array([1.0, 2.0]), np.eye(2)]]).to_dense()
    np.testing.assert_array_equal(found, [[1, 1, 0], [2, 0, 1]])


def test_the_identity_fits_square_matrices_alone() -> None:
    with pytest.raises(ShapeError, match="the identity is square, and this matrix is 1 by 2"):
        blocks([[1.0, 2.0]]) + I


def test_what_reads_at_indices_adds_there_when_transposed() -> None:
    op = Indexed(np.array([1.0, 2.0, 3.0]), [np.array([2, 0, 2])], (4,), 1)
    np.testing.assert_array_equal(op([5.0, 6.0, 7.0, 8.0]), [7, 10, 21])
    np.testing.assert_array_equal(op.T([1.0, 1.0, 1.0]), [2, 0, 4, 0])
    np.testing.assert_array_equal(op.T.to_dense(), op.to_dense().T)
