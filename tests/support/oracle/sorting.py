"""The oracle's order: elements compared two at a time, positions counted one after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cmp_to_key
from itertools import count
from typing import Any

from tests.support.oracle import numbers
from tests.support.oracle.arrays import (
    INT64,
    WEAK_INT,
    Array,
    DType,
    Element,
    as_array,
    convert,
    index,
    promote,
    subscript,
)
from tests.support.oracle.elementwise import strong
from tests.support.oracle.functions import moveaxis


def _compared(a: Element, b: Element, dtype: DType, descending: bool = False) -> int:
    """Negative where a comes first, 0 where they are equal; NaN is last."""
    if not dtype.floating:
        found: int | None = (a > b) - (a < b)
    else:
        found = numbers.compare(a, b)
    if found is None:
        return math.isnan(numbers.value_of(a)) - math.isnan(numbers.value_of(b))
    return -found if descending else found


def _order(row: Sequence[Element], dtype: DType, descending: bool) -> list[int]:
    """The positions of the elements in order; of equal ones the first stays first."""

    def compared(i: int, j: int) -> int:
        return _compared(row[i], row[j], dtype, descending)

    return sorted(range(len(row)), key=cmp_to_key(compared))


def _orders(x: Any, axis: int, descending: bool) -> tuple[Array, Array]:
    """The elements and the positions along an axis, both in order and both with that axis last."""
    a = moveaxis(strong(x), axis, -1)
    n = a.shape[-1]
    rows = [a.data[k : k + n] for k in range(0, a.size, n)] if n else []
    orders = [_order(row, a.dtype, descending) for row in rows]
    values = [row[k] for row, order in zip(rows, orders) for k in order]
    return Array(a.shape, a.dtype, values), Array(a.shape, INT64, [k for order in orders for k in order])


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements along an axis in order."""
    return moveaxis(_orders(x, axis, descending)[0], -1, axis)


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions of the elements in order."""
    return moveaxis(_orders(x, axis, descending)[1], -1, axis)


def top_k(x: Any, k: int, /, *, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """The first k in order, and their positions."""
    values, places = (subscript(a, (..., slice(None, k))) for a in _orders(x, axis, largest))
    return moveaxis(values, -1, axis), moveaxis(places, -1, axis)


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Array:
    """The number of elements of x1 that are less, or no larger."""
    dtype = promote([as_array(x1), as_array(x2)])
    row, wanted = (convert(as_array(x), dtype) for x in (x1, x2))
    highest = 0 if side == "left" else 1
    places = [sum(_compared(e, v, dtype) < highest for e in row.data) for v in wanted.data]
    return Array(wanted.shape, INT64, places)


def search_over(extent: Any, f: Any) -> Array:
    """The first index at which a test fails."""
    n = int(as_array(extent).data[0])
    found = next(k for k in count() if k == n or not bool(f(index(k))))
    return convert(Array((), WEAK_INT, [found]), INT64)


__all__ = ["argsort", "search_over", "searchsorted", "sort", "top_k"]
