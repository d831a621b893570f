"""Matrices of the oracle, by textbook elimination without pivots, for well-conditioned matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.oracle.arrays import Array, as_array
from tests.support.oracle.elementwise import elementwise
from tests.support.oracle.functions import eye, stack, sum

Rows = list[list[Any]]


def _rows(x: Any) -> Rows:
    return [list(row) for row in as_array(x)]


def _matrix(rows: Sequence[Sequence[Any]]) -> Array:
    return stack([stack(row) for row in rows])


def _mixed(x: Any, a: Any) -> Any:
    """The same numbers with the size of all before cancellation: algorithms keep different zeros."""
    total: Any = sum(x) * sum(a)  # type: ignore[operator]
    return x + (total - total)


def _eliminated(rows: Rows, columns: int) -> Rows:
    """The rows with zeros below the diagonal of the first columns."""
    for k in range(columns):
        for i in range(k + 1, columns):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [b - factor * a if j > k else b for j, (a, b) in enumerate(zip(rows[k], rows[i], strict=True))]
    return rows


def solve(a: Any, b: Any, /) -> Array:
    """The x of a @ x = b."""
    right = as_array(b)
    given = _rows(right) if right.ndim == 2 else [[e] for e in right]
    n = len(given)
    rows = _eliminated([[*left, *more] for left, more in zip(_rows(a), given, strict=True)], n)
    found: Rows = []
    for k in reversed(range(n)):
        known = list(zip(rows[k][k + 1 : n], found, strict=True))
        row = []
        for column, value in enumerate(rows[k][n:]):
            for factor, x in known:
                value = value - factor * x[column]
            row.append(value / rows[k][k])
        found.insert(0, row)
    out: Array = _mixed(_matrix(found) if right.ndim == 2 else stack([row[0] for row in found]), a)
    return out


def inv(a: Any, /) -> Array:
    """The inverse."""
    matrix = as_array(a)
    return solve(matrix, eye(matrix.shape[0], dtype=matrix.dtype))


def det(a: Any, /) -> Array:
    """The determinant."""
    rows = _eliminated(_rows(a), len(as_array(a)))
    out: Any = rows[0][0]
    for k in range(1, len(rows)):
        out = out * rows[k][k]
    return as_array(_mixed(out, a))


def cholesky(a: Any, /) -> Array:
    """The lower triangular L of a = L Lᵀ."""
    rows = _rows(a)
    n = len(rows)
    zero = rows[0][0] * 0.0
    out: Rows = [[zero] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = 0.5 * (rows[i][j] + rows[j][i])  # a symmetric matrix may be read from either side
            for k in range(j):
                rest = rest - out[i][k] * out[j][k]
            out[i][j] = elementwise("sqrt", rest) if i == j else rest / out[j][j]
    factor: Array = _mixed(_matrix(out), a)
    return factor


__all__ = ["cholesky", "det", "inv", "solve"]
