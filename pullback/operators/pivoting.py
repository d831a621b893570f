r"""Gaussian elimination of matrices of any elements, to a triangular matrix with the same solution.

With the pivot p in row i and column k, row i is divided by p, and column k leaves every other remaining row r:

    a_i* <- p \ a_i*,   b_i <- p \ b_i;      a_r* <- a_r* - a_rk a_i*,   b_r <- b_r - a_rk b_i

Factors keep their order, so elements need not commute. Only stored elements take part. The next column is one with the
fewest of them. Among its elements, the row with the fewest is next (Markowitz 1957), if the element is at least a tenth
of the largest one (threshold pivoting; Duff, Erisman, Reid 1986, section 5.4). `pivot_size` compares elements by type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pullback.errors import DerivativeError
from pullback.operators.blocks import BlockMatrix
from pullback.operators.elements import divide, is_one, is_zero, minus, times
from pullback.operators.hooks import describe, pivot_size
from pullback.operators.operator import ZERO, I

THRESHOLD = 0.1


def triangular_form(
    matrix: BlockMatrix, columns: Sequence[Sequence[Any]]
) -> tuple[BlockMatrix, list[list[Any]], list[int]]:
    """The upper triangular matrix, its right-hand sides, and the unknown of each of its columns.

    Raises:
        DerivativeError: [E213] a column has no element with an inverse.

    >>> upper, right, unknowns = triangular_form(BlockMatrix((2, 2), {(0, 1): 2.0, (1, 0): 4.0}), [[6.0, 8.0]])
    >>> print(upper, right, unknowns)
    [4.0    .]
    [  .  2.0] [[8.0, 6.0]] [0, 1]
    """
    system = _System(matrix, columns)
    order = [system.eliminate() for _ in range(matrix.shape[0])]
    place = {k: position for position, (_, k) in enumerate(order)}
    entries = {(p, place[k]): e for p, (i, _) in enumerate(order) for k, e in system.rows[i].items()}
    rights = [[system.rights[i][c] for i, _ in order] for c in range(len(columns))]
    return BlockMatrix(matrix.shape, entries), rights, [k for _, k in order]


class _System:
    """Rows during elimination.

    Attributes:
        rows: the stored elements of each row, by column.
        rights: the right-hand sides of each row.
        left: for each column without a pivot, the rows without a pivot that have an element there.
    """

    def __init__(self, matrix: BlockMatrix, columns: Sequence[Sequence[Any]]) -> None:
        self.rows = [dict(row) for row in matrix.rows]
        self.rights = [[column[i] for column in columns] for i in range(len(self.rows))]
        self.left: dict[int, set[int]] = {k: set() for k in range(len(self.rows))}
        for i, k in matrix.entries:
            self.left[k].add(i)

    def eliminate(self) -> tuple[int, int]:
        """Choose a pivot and remove its column from the other rows; return its row and column."""
        k = min(self.left, key=lambda column: len(self.left[column]))
        others = self.left.pop(k)
        i = self._pivot(k, others)
        others.discard(i)
        for column in self.rows[i]:
            self.left.get(column, others).discard(i)
        rest = {column: e for column, e in self.rows[i].items() if column != k}
        for r in others:
            factor = self.rows[r].pop(k)
            for column, e in rest.items():
                self._set(r, column, minus(self.rows[r].get(column, ZERO), times(factor, e)))
            self.rights[r] = [minus(b, times(factor, e)) for b, e in zip(self.rights[r], self.rights[i], strict=True)]
        return i, k

    def _pivot(self, k: int, rows: set[int]) -> int:
        """The row of the pivot of a column; it is divided by the pivot if others have an element there."""
        candidates = self._candidates(k, rows)
        if len(rows) == 1:
            return candidates[0]
        for i in candidates:
            pivot = self.rows[i][k]
            try:
                divided = {column: I if column == k else divide(pivot, e) for column, e in self.rows[i].items()}
                self.rights[i] = [divide(pivot, b) for b in self.rights[i]]
            except DerivativeError:
                continue
            self.rows[i] = divided
            return i
        raise _singular(k, (self.rows[i][k] for i in candidates))

    def _candidates(self, k: int, rows: set[int]) -> list[int]:
        """Rows by their fitness: first those whose element is large enough, the shortest one first."""
        size = {i: pivot_size(self.rows[i][k]) for i in rows}
        least = THRESHOLD * max(size.values(), default=0.0)
        if not any(size.values()):
            raise _singular(k, (self.rows[i][k] for i in rows))

        def unfitness(i: int) -> tuple[bool, int, bool, float, int]:
            return size[i] < least, len(self.rows[i]), not is_one(self.rows[i][k]), -size[i], i

        return sorted((i for i in rows if size[i]), key=unfitness)

    def _set(self, i: int, k: int, element: Any) -> None:
        if is_zero(element):
            self.rows[i].pop(k, None)
            self.left[k].discard(i)
        else:
            self.rows[i][k] = element
            self.left[k].add(i)


def _singular(k: int, elements: Iterable[Any]) -> DerivativeError:
    found = [describe(e) for e in elements]
    return DerivativeError(
        "E213",
        f"column {k} of the matrix has no pivot: no element that elimination leaves there has an inverse",
        facts=(f"elements {', '.join(found[:4])}{', …' if len(found) > 4 else ''}",) if found else (),
        remedy="a regular matrix; `matrix.flatten()` solves one of singular blocks by their elements",
    )
