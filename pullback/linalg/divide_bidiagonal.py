"""Singular values and vectors of bidiagonal matrices by divide and conquer.

Without its middle row, an upper bidiagonal matrix is two smaller ones beside each other, each with a column more than
rows. In their bases it is a diagonal matrix with one full row, whose squared singular values are roots of a secular
equation (Gu and Eisenstat, *A divide-and-conquer algorithm for the bidiagonal SVD*, 1995; LAPACK's dbdsdc).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import maximum, sqrt, where
from pullback.arrays.manipulation import concat
from pullback.arrays.sorting import argsort
from pullback.linalg.divide import halvings
from pullback.linalg.secular import coefficients, deflated, normed, roots, unturned
from pullback.tracing.array import Array
from pullback.tracing.control import scan
from pullback.tracing.index import build, max_over


class Vectors(NamedTuple):
    """A block of h columns and a row less: its h - 1 singular values, and the vectors as columns.

    Attributes:
        s: (h - 1,) in any order.
        u: (h - 1, h - 1).
        v: (h, h); the block takes the last column to zero.
    """

    s: Array
    u: Array
    v: Array


def conquered(d: Array, e: Array, size: int, whole: Callable[[Array, Array], Any]) -> Vectors:
    """The singular values and vectors of the matrix with diagonal d, e beside it, and a column of zeros.

    `whole` does it for small square matrices. Blocks have one size, so there may be further rows; their singular values
    are above all others.
    """
    levels = halvings(size + 1)
    count = 1 << levels
    m = -(-(size + 1) // count)
    bound = max_over(size, lambda k: magnitude(d[k]) + magnitude(e[k]))
    above = build((), lambda: where(bound > 0, 2 * bound, 1.0))
    diagonal = build(count * m, lambda k: where(k < size, d.at(k), above))
    beside = build(count * m, lambda k: where(k < size - 1, e.at(k), 0.0))

    def block(b: Any) -> Vectors:
        return _leaf(build(m, lambda k: diagonal[b * m + k]), build(m, lambda k: beside[b * m + k]), whole)

    _, found = scan(count, (), lambda _, b: ((), block(b)))
    for _ in range(levels):
        count, m = count // 2, 2 * m

        def pair(_: Any, b: Any, found: Vectors = found, m: int = m) -> Any:
            upper, lower = (Vectors(*(x[2 * b + i] for x in found)) for i in (0, 1))
            at = b * m + m // 2 - 1
            return (), _joined(upper, lower, diagonal[at], beside[at], above)

        _, found = scan(count, (), pair)
    return Vectors(*(x[0] for x in found))


def _leaf(d: Array, e: Array, whole: Callable[[Array, Array], Any]) -> Vectors:
    """Rotations of neighboring columns make a block lower bidiagonal, with a column of zeros."""
    m = d.shape[0]

    def step(main: Array, k: Any) -> Any:
        size = sqrt(main * main + e[k] * e[k])
        c, s = where(size > 0, main / where(size > 0, size, 1.0), 1.0), e[k] / where(size > 0, size, 1.0)
        after = d.at(k + 1)
        below, c, s, size, low = build((), lambda: (s * after, c, s, size, c * after))
        return low, (size, below, c, s)

    _, (main, below, c, s) = scan(m - 1, build((), lambda: d[0]), step)
    beside = build(m - 1, lambda k: where(k < m - 2, below[k], 0.0))
    right, values, left = whole(main, beside)
    square = build((m, m), lambda i, k: where((i == m - 1) & (k == m - 1), 1.0, right.at(i, k)))
    return Vectors(values, left, unturned(square, c, s))


def _joined(upper: Vectors, lower: Vectors, alpha: Array, beta: Array, above: Array) -> Vectors:
    """The factors of both blocks and the row between them.

    It has alpha in the last column of the upper block, and beta beside it.
    """
    h = upper.v.shape[0]
    n, eps = 2 * h - 1, finfo(alpha.dtype).eps
    last, first = upper.v[h - 1], lower.v[0]
    one, other = alpha * last[h - 1], beta * first[h - 1]
    size = build((), lambda: sqrt(one * one + other * other))
    c, s = (
        build((), lambda x=x, y=y: where(size > 0, x / where(size > 0, size, 1.0), y))
        for x, y in ((one, 1.0), (other, 0.0))
    )
    values, row = concat([upper.s, lower.s]), concat([alpha * last[: h - 1], beta * first[: h - 1]])
    place = argsort(values)
    largest = max_over(n - 1, lambda k: where(values[k] < 0.75 * above, values[k], 0.0))
    own = where(magnitude(alpha) < 0.75 * above, magnitude(alpha), 0.0)
    close = build((), lambda: 8 * eps * maximum(largest, maximum(own, magnitude(beta))))
    poles = deflated(build(n - 1, lambda k: values[place[k]]), build(n - 1, lambda k: row[place[k]]), close, close)
    nothing = build((), lambda: (close == 0) & (size == 0))
    d = build(n, lambda k: where(k > 0, maximum(poles.d.at(k - 1), close / 2), 0.0))
    z = build(n, lambda k: where(k > 0, poles.z.at(k - 1), maximum(size, where(nothing, 1.0, close))))

    def apart(pole: Any, other: Any) -> Any:
        return (pole - other) * (pole + other)

    found = roots(d, z, build((), lambda: 1 + 0 * size), apart)
    right = coefficients(d, z, found, apart)
    left = build((n, n), lambda k, i: where(z[i] == 0, right[k, i], where(k == 0, -1.0, d[k] * right[k, i])))
    back = argsort(place)

    def spread(x: Array) -> tuple[Array, Array]:
        """The row of the pole 0, and the others in the order of the blocks' columns."""
        x = normed(x)
        turned = unturned(x[1:], poles.cosines, poles.sines)
        return x[0], build((n - 1, n), lambda r, i: turned[back[r], i])

    (v_row, v), (u_row, u) = spread(right), spread(left)

    def basis(q: Array, part: Array, along: Array, across: Array) -> Array:
        """A block's columns of V by their coefficients.

        Its last one is part of the full row's vector and of the new last column.
        """

        def at(k: Any, i: Any) -> Any:
            mixed = where(k < h - 1, part.at(k, i), along * v_row.at(i))
            return where(i < n, mixed, where(k == h - 1, across, 0.0))

        return q @ build((h, n + 1), at)  # type: ignore[no-any-return]

    v = concat([basis(upper.v, v[: h - 1], c, -s), basis(lower.v, v[h - 1 :], s, c)])
    u = concat([upper.u @ u[: h - 1], u_row[None], lower.u @ u[h - 1 :]])

    def root(i: Any) -> Any:
        o, x = found.origin[i], found.offset[i]
        total = o + sqrt(maximum(o * o + x, 0.0))
        return where(nothing & (i == 0), 0.0, o + where(total > 0, x / where(total > 0, total, 1.0), 0.0))

    return Vectors(build(n, root), u, v)
