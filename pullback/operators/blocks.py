"""Matrices with elements of any kind: numbers, arrays, operators, matrices. Empty places are zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from numbers import Number
from typing import Any

import numpy as np

from pullback.errors import ShapeError, counted
from pullback.operators.elements import is_zero, minus, plus, times
from pullback.operators.hooks import adjoint
from pullback.operators.layout import dense, flat
from pullback.operators.operator import ZERO, I


class BlockMatrix:
    """A rectangular grid of elements that stores only nonzero ones.

    `+`, `-`, `@`, `.T` (recursive: the elements are transposed too) and multiples by numbers work for any elements.
    The identity `I` adds to a square matrix of any size, so that `I - L` reads as in mathematics. A vector is a list of
    elements, or a matrix of one column.

    Args:
        shape: rows and columns.
        entries: the elements by (row, column). Zeros are dropped.

    >>> matrix = BlockMatrix((2, 2), {(0, 0): 2.0, (1, 0): 3.0})
    >>> matrix @ [1.0, 5.0]
    [2.0, 3.0]
    >>> print(I - matrix)
    [-1.0  .]
    [-3.0  I]
    """

    __array_ufunc__ = None  # NumPy leaves `array @ matrix` to the matrix

    def __init__(self, shape: tuple[int, int], entries: Mapping[tuple[int, int], Any]) -> None:
        rows, columns = shape
        for i, j in entries:
            if not (0 <= i < rows and 0 <= j < columns):
                raise ShapeError("E210", f"element ({i}, {j}) is outside a {rows} by {columns} matrix")
        self.shape = shape
        self.entries: dict[tuple[int, int], Any] = {at: e for at, e in sorted(entries.items()) if not is_zero(e)}

    @cached_property
    def rows(self) -> tuple[tuple[tuple[int, Any], ...], ...]:
        """The stored elements of each row, as pairs of column and element."""
        rows: list[list[tuple[int, Any]]] = [[] for _ in range(self.shape[0])]
        for (i, j), element in self.entries.items():
            rows[i].append((j, element))
        return tuple(map(tuple, rows))

    def __getitem__(self, at: tuple[int, int]) -> Any:
        i, j = at
        rows, columns = self.shape
        if not (0 <= i < rows and 0 <= j < columns):
            raise IndexError(f"({i}, {j}) is outside a {rows} by {columns} matrix")
        return self.entries.get(at, ZERO)

    def take(self, rows: Sequence[int], columns: Sequence[int]) -> BlockMatrix:
        """The matrix of the given rows and columns, in that order."""
        picked = {(a, b): self[i, j] for a, i in enumerate(rows) for b, j in enumerate(columns)}
        return BlockMatrix((len(rows), len(columns)), picked)

    @property
    def T(self) -> BlockMatrix:
        """The adjoint: rows become columns and every element its own adjoint, all the way down."""
        rows, columns = self.shape
        return BlockMatrix((columns, rows), {(j, i): adjoint(e) for (i, j), e in self.entries.items()})

    def __add__(self, other: Any) -> Any:
        return self._combined(other, plus)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combined(other, minus)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> BlockMatrix:
        return BlockMatrix(self.shape, {at: minus(ZERO, e) for at, e in self.entries.items()})

    def __mul__(self, factor: Any) -> Any:
        if not isinstance(factor, Number):
            return NotImplemented
        return BlockMatrix(self.shape, {at: factor * e for at, e in self.entries.items()})

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Any:
        if not isinstance(divisor, Number):
            return NotImplemented
        return BlockMatrix(self.shape, {at: e / divisor for at, e in self.entries.items()})

    def __matmul__(self, other: Any) -> Any:
        """Multiply by a matrix, by a list of elements (gives a list), or by one element as a one-row matrix."""
        if other is I:
            return self
        if other is ZERO:
            return ZERO
        if isinstance(other, list | tuple):
            return (self @ column(other)).elements()
        if not isinstance(other, BlockMatrix):
            other = column([other])
        if self.shape[1] != other.shape[0]:
            raise _misfit("product", self, other)
        total: dict[tuple[int, int], Any] = {}
        for (i, j), left in self.entries.items():
            for k, right in other.rows[j]:
                total[i, k] = plus(total.get((i, k), ZERO), times(left, right))
        return BlockMatrix((self.shape[0], other.shape[1]), total)

    def elements(self) -> list[Any]:
        """The elements row by row, ZERO if not stored."""
        rows, columns = self.shape
        return [self[i, j] for i in range(rows) for j in range(columns)]

    def flatten(self) -> BlockMatrix:
        """Flatten blocks by one level into a matrix; an element that is no matrix is a block of one."""
        return BlockMatrix(*flat(self.shape, self.entries))

    def to_dense(self, domains: Sequence[tuple[int, ...]] | None = None) -> np.ndarray:
        """One array of numbers, every element replaced by its dense form.

        Args:
            domains: for each column, the shape of its operators' operand, if they do not know it.

        Raises:
            DerivativeError: [E215] an operator acts on several shapes, and none is given.
            ShapeError: [E210] the dense forms of one row or column differ in size.
        """
        return dense(self.shape, self.entries, domains)

    def __str__(self) -> str:
        rows, columns = range(self.shape[0]), range(self.shape[1])
        texts = [["." if self[i, j] is ZERO else _text(self[i, j]) for j in columns] for i in rows]
        widths = [max(len(row[j]) for row in texts) for j in columns]
        return "\n".join(f"[{'  '.join(t.rjust(w) for t, w in zip(row, widths, strict=True))}]" for row in texts)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"BlockMatrix({rows} by {columns}, {counted(len(self.entries), 'element')})"

    def _combined(self, other: Any, combine: Callable[[Any, Any], Any]) -> Any:
        if other is ZERO:
            return self
        other = self._unit() if other is I else other
        if not isinstance(other, BlockMatrix):
            return NotImplemented
        if other.shape != self.shape:
            raise _misfit("sum", self, other)
        total = dict(self.entries)
        for at, element in other.entries.items():
            total[at] = combine(total.get(at, ZERO), element)
        return BlockMatrix(self.shape, total)

    def _unit(self) -> BlockMatrix:
        rows, columns = self.shape
        if rows != columns:
            raise ShapeError("E210", f"the identity is square, and this matrix is {rows} by {columns}")
        return identity(rows)


def blocks(rows: Iterable[Iterable[Any]]) -> BlockMatrix:
    """The matrix with the given rows of elements; None, ZERO and the number 0 are empty places.

    Raises:
        ShapeError: [E210] the rows differ in length.

    >>> print(blocks([[1, 0], [blocks([[5]]), I]]))
    [  1  .]
    [[5]  I]
    """
    grid = [list(row) for row in rows]
    lengths = {len(row) for row in grid}
    if len(lengths) > 1:
        raise ShapeError(
            "E210",
            "the rows of a matrix differ in length",
            facts=(f"lengths {sorted(lengths)}",),
            remedy="write ZERO, None or 0 for an empty place",
        )
    entries = {(i, j): e for i, row in enumerate(grid) for j, e in enumerate(row)}
    return BlockMatrix((len(grid), lengths.pop() if lengths else 0), entries)


def column(elements: Sequence[Any]) -> BlockMatrix:
    """The matrix of one column."""
    return BlockMatrix((len(elements), 1), {(i, 0): e for i, e in enumerate(elements)})


def diagonal(elements: Sequence[Any]) -> BlockMatrix:
    """The square matrix with the given elements on its diagonal."""
    return BlockMatrix((len(elements),) * 2, {(i, i): e for i, e in enumerate(elements)})


def identity(n: int) -> BlockMatrix:
    """The n by n identity, of elements of any kind."""
    return diagonal([I] * n)


def as_matrix(matrix: Any) -> BlockMatrix:
    """Convert nested sequences or a two-axis array to a BlockMatrix; a BlockMatrix stays."""
    return matrix if isinstance(matrix, BlockMatrix) else blocks(matrix)


def _text(element: Any) -> str:
    if isinstance(element, np.ndarray):
        return f"array{element.shape}"
    return str(element).replace("\n", ";")


def _misfit(what: str, left: BlockMatrix, right: BlockMatrix) -> ShapeError:
    return ShapeError(
        "E210",
        f"the shapes of a {what} of matrices do not fit",
        facts=(f"left is {left.shape[0]} by {left.shape[1]}", f"right is {right.shape[0]} by {right.shape[1]}"),
    )
