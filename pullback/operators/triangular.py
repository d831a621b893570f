r"""Backslash: forward and back substitution on triangular matrices of any elements.

The algorithm is the textbook's, written once for both directions. With A lower triangular, row i of A x = b reads

    x_i = a_ii \ (b_i - sum over stored j < i of  a_ij x_j)

and from the last row upward for an upper triangular A. Every stored element takes part in one product, factors keep
their order, and empty places are skipped. The type of the elements decides what is computed: with operators, back
substitution in (I - L)ᵀ x = g is backpropagation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.errors import DerivativeError, ShapeError, counted
from pullback.operators.blocks import BlockMatrix, as_matrix, column, identity
from pullback.operators.elements import is_one, minus, times
from pullback.operators.hooks import inverse, left_divide
from pullback.operators.operator import ZERO, I


def solve(matrix: Any, right: Any) -> Any:
    """Solve `matrix @ x = right` for x, by substitution.

    Args:
        matrix: a lower or upper triangular BlockMatrix, nested lists or an array, with elements of any kind.
        right: a list of elements, or a BlockMatrix of right-hand sides.

    Returns:
        A list for a list, a BlockMatrix for a BlockMatrix. Elements that no path reaches are ZERO.

    Raises:
        ShapeError: [E210] the matrix is not square, or its rows and those of `right` differ in number.
        DerivativeError: [E211] the matrix is not triangular. [E212] a diagonal element other than the identity has
            no known inverse. [E213] a diagonal element is zero or singular.

    Cost:
        One product for each stored element and column of `right`; a division for each diagonal element that is not 1.

    >>> from fractions import Fraction
    >>> solve([[2, 0], [Fraction(1, 3), 1]], [Fraction(1), Fraction(0)])
    [Fraction(1, 2), Fraction(-1, 6)]
    """
    matrix = as_matrix(matrix)
    order = _order(matrix)
    if isinstance(right, BlockMatrix):
        _check_rows(matrix, right.shape[0])
        solved: dict[tuple[int, int], Any] = {}
        for k in range(right.shape[1]):
            elements = [right.entries.get((i, k), ZERO) for i in range(right.shape[0])]
            solved |= {(i, k): x for i, x in enumerate(_substitute(matrix, elements, order))}
        return BlockMatrix(right.shape, solved)
    _check_rows(matrix, len(right))
    return _substitute(matrix, list(right), order)


def _substitute(matrix: BlockMatrix, right: list[Any], order: Sequence[int]) -> list[Any]:
    x: list[Any] = [ZERO] * len(right)
    for i in order:
        rest, pivot = right[i], ZERO
        for j, element in matrix.rows[i]:
            if j == i:
                pivot = element
            elif x[j] is not ZERO:
                rest = minus(rest, times(element, x[j]))
        x[i] = _divide(i, pivot, rest)
    return x


def _divide(i: int, pivot: Any, rest: Any) -> Any:
    if pivot is ZERO:
        raise DerivativeError(
            "E213",
            f"row {i} of the matrix has nothing on its diagonal: the matrix is singular",
            remedy="`I - L`, with a strictly triangular L, has the identity there",
        )
    if is_one(pivot):
        return rest
    if rest is ZERO:
        return ZERO
    return inverse(pivot) if rest is I else left_divide(pivot, rest)


@inverse.register
def _(element: BlockMatrix) -> BlockMatrix:
    inverted: BlockMatrix = solve(element, identity(element.shape[0]))
    return inverted


@left_divide.register
def _(divisor: BlockMatrix, element: Any) -> Any:
    """A block on the diagonal is itself triangular, and solved the same way."""
    return solve(divisor, element if isinstance(element, BlockMatrix) else column([element]))


def _order(matrix: BlockMatrix) -> Sequence[int]:
    """Rows in the order of substitution: downward for a lower, upward for an upper triangular matrix."""
    rows, columns = matrix.shape
    if rows != columns:
        raise ShapeError("E210", f"solve takes a square matrix, and was given one of {rows} by {columns}")
    above = [(i, j) for i, j in matrix.entries if j > i]
    below = [(i, j) for i, j in matrix.entries if j < i]
    if above and below:
        raise DerivativeError(
            "E211",
            "solve takes a triangular matrix, and this one has elements on both sides of its diagonal",
            facts=(f"element {above[0]} above", f"element {below[0]} below"),
            remedy="number nodes so that every edge leads to a greater number",
        )
    return range(rows - 1, -1, -1) if above else range(rows)


def _check_rows(matrix: BlockMatrix, rows: int) -> None:
    if matrix.shape[0] != rows:
        raise ShapeError(
            "E210",
            f"solve: the matrix has {counted(matrix.shape[0], 'row')}, "
            f"the right-hand side has {counted(rows, 'element')}",
        )
