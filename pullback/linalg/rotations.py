"""Jacobi rotations, shared by symmetric eigenvalues and singular values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.arrays.complex import conj
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import sqrt, where
from pullback.tracing.array import Array
from pullback.tracing.complex_array import is_complex
from pullback.tracing.index import argmax_over, build, sum_over

SWEEPS = 10  # over all pairs; convergence is quadratic, and six suffice for matrices of some hundred rows


def partners(t: Any, m: Any) -> Callable[[Any], Any]:
    """Return the function from each index to its partner in round t of m.

    In each round, index p has the partner q = (r - p) mod m for an odd number m of indices; one index is left alone.
    So a round is one unitary matrix, whose row p has its only off-diagonal element in column q. The m rounds
    meet every pair (Brent and Luk 1985).
    """
    return lambda p: (t + m - p) % m


def rotation(p: Any, q: Any, n: Any, main: Array, off: Callable[[Any, Any], Array]) -> tuple[Array, Array]:
    """Return real cosine c and sine s; column p becomes c x[p] + s x[q], orthogonal to its partner.

    Golub and Van Loan, *Matrix computations*, 8.5: the smaller of the two angles is taken. For complex numbers the sine
    has the phase that makes the element between the columns real. Rounding leaves x[p, q] and x[q, p] different.
    Both columns therefore read the same numbers, those of the smaller index first, so their rotations match.
    """
    first = p < q
    own = where(first, main[p], main.at(q))
    other = where(first, main.at(q), main[p])
    between = where(first, off(p, q), off(q, p))
    size = magnitude(between) if is_complex(between) else between
    there = (size != 0) & (p != q) & (q < n)
    apart = (own - other) / (2 * size)
    tangent = where(apart < 0, -1.0, 1.0) / (magnitude(apart) + sqrt(apart * apart + 1))
    tangent = where(there, tangent, 0.0)
    cosine = 1 / sqrt(tangent * tangent + 1)
    sine = where(first, tangent, -tangent) * cosine
    if is_complex(between):
        phase = between / where(there, size, 1.0)
        return cosine, where(first, conj(phase), phase) * sine
    return cosine, sine


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


def gaps(values: Array, squares: bool = False) -> Array:
    """F[i, j] = 1 / (v[j] - v[i]) of the values or of their squares, 0 where two values are equal.

    A difference of squares is a product here: compilers may round `a * a - a * a` to another number than 0.
    """
    n = values.shape[0]

    def at(i: Any, j: Any) -> Any:
        gap = values[j] - values[i]
        gap = gap * (values[j] + values[i]) if squares else gap
        return where(gap == 0, 0.0, 1 / where(gap == 0, 1.0, gap))

    out: Array = build((n, n), at)
    return out
