"""The order of eigenvalues and singular values, and the gaps between them."""

from __future__ import annotations

from typing import Any

from pullback.arrays.complex import real
from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import where
from pullback.tracing.array import Array
from pullback.tracing.index import argmax_over, build, sum_over


def order(values: Array) -> Array:
    """Return the indices that sort the values, stable for equal values. NaN are in no particular order."""
    n = values.shape[0]

    def before(i: Any, j: Any) -> Any:
        return (values[j] < values[i]) | (~(values[i] < values[j]) & (j < i))

    place = build(n, lambda i: sum_over(n, lambda j: where(before(i, j), 1, 0)))
    if place.extents[0].constant == 0:
        return place  # type: ignore[no-any-return]
    out: Array = build(n, lambda k: argmax_over(n, lambda i: where(place[i] == k, 1, 0)))
    return out


def if_finite(values: Array, *parts: Array) -> Array:
    """Return the values, or NaN unless the vectors they were computed from are finite."""
    size = sum(sum_over(x.shape[0], lambda k, x=x: magnitude(x[k])) for x in parts)
    return values + where(size < float("inf"), 0.0, float("nan"))


def gaps(values: Array, squares: bool = False) -> Array:
    """F[i, j] = 1 / (v[j] - v[i]) of the values or of their squares, 0 where two values are equal.

    They count as equal up to rounding: equal values are found with errors of some eps, and the inverse of their
    difference would be a large number without meaning.
    """
    n, eps = values.shape[0], finfo(real(values).dtype).eps

    def at(i: Any, j: Any) -> Any:
        gap, both = values[j] - values[i], values[j] + values[i]
        same = magnitude(gap) <= n * eps * (magnitude(values[i]) + magnitude(values[j]))
        gap = gap * both if squares else gap
        return where(same, 0.0, 1 / where(same, 1.0, gap))

    out: Array = build((n, n), at)
    return out
