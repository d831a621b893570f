r"""Backslash: substitution on triangular matrices of any elements, after elimination on others.

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
from pullback.operators.elements import divide, minus, times
from pullback.operators.hooks import inverse, left_divide
from pullback.operators.operator import ZERO
from pullback.operators.pivoting import triangular_form


def solve(matrix: Any, right: Any) -> Any:
    r"""Solve `matrix @ x = right` for x: the backslash, `matrix \ right`.

    A triangular matrix is solved by substitution. Another one is made triangular by Gaussian elimination, with pivots
    chosen by the type of the elements (`pivot_size`). Elements need not commute.

    Args:
        matrix: a square BlockMatrix, nested lists or an array, with elements of any kind. Empty places cost nothing.
        right: a list of elements, or a BlockMatrix of right-hand sides.

    Returns:
        A list for a list, a BlockMatrix for a BlockMatrix. Elements that no path reaches are ZERO.

    Raises:
        ShapeError: [E210] the matrix is not square, or its rows and those of `right` differ in number.
        DerivativeError: [E212] a diagonal element of a triangular matrix, other than the identity, has no known
            inverse. [E213] such an element is zero or singular, or elimination finds no pivot.

    Cost:
        One product for each stored element and column of `right`; a division for each diagonal element that is not 1.
        Elimination takes up to n³/3 products for n rows; a band of width w takes n w².

    >>> from fractions import Fraction
    >>> solve([[2, 0], [Fraction(1, 3), 1]], [Fraction(1), Fraction(0)])
    [Fraction(1, 2), Fraction(-1, 6)]
    >>> solve([[0, 2], [4, 1]], [Fraction(6), Fraction(5)])
    [Fraction(1, 2), Fraction(3, 1)]
    """
    matrix = as_matrix(matrix)
    if not isinstance(right, BlockMatrix):
        _check(matrix, len(right))
        return _solved(matrix, [list(right)])[0]
    _check(matrix, right.shape[0])
    count = right.shape[0]
    columns = [[right.entries.get((i, k), ZERO) for i in range(count)] for k in range(right.shape[1])]
    solved = _solved(matrix, columns)
    return BlockMatrix(right.shape, {(i, k): x for k, column in enumerate(solved) for i, x in enumerate(column)})


def _solved(matrix: BlockMatrix, columns: list[list[Any]]) -> list[list[Any]]:
    """The solution for each right-hand side."""
    rows = range(matrix.shape[0])
    above, below = any(j > i for i, j in matrix.entries), any(j < i for i, j in matrix.entries)
    if not (above and below):
        return [_substitute(matrix, column, rows[::-1] if above else rows) for column in columns]
    upper, columns, unknowns = triangular_form(matrix, columns)
    found = [_substitute(upper, column, rows[::-1]) for column in columns]
    return [[x for _, x in sorted(zip(unknowns, column, strict=True), key=lambda pair: pair[0])] for column in found]


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
    return divide(pivot, rest)


@inverse.register
def _(element: BlockMatrix) -> BlockMatrix:
    inverted: BlockMatrix = solve(element, identity(element.shape[0]))
    return inverted


@left_divide.register
def _(divisor: BlockMatrix, element: Any) -> Any:
    """A block on the diagonal is solved the same way."""
    return solve(divisor, element if isinstance(element, BlockMatrix) else column([element]))


def _check(matrix: BlockMatrix, count: int) -> None:
    """Refuse a matrix that is not square, or a right-hand side of another length."""
    rows, columns = matrix.shape
    if rows != columns:
        raise ShapeError("E210", f"solve takes a square matrix, and was given one of {rows} by {columns}")
    if rows != count:
        raise ShapeError(
            "E210",
            f"solve: the matrix has {counted(rows, 'row')}, the right-hand side has {counted(count, 'element')}",
        )
