"""Eigenvalues and eigenvectors of tridiagonal matrices by divide and conquer.

A tridiagonal matrix is two smaller ones beside each other and an update of rank one (Cuppen 1981; Gu and Eisenstat, *A
divide-and-conquer algorithm for the symmetric tridiagonal eigenproblem*, 1995; LAPACK's dstedc). Data decide which
eigenvalues the update does not change. Here these take part in the products like the others, so all sizes are fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import maximum, sqrt, where
from pullback.arrays.manipulation import concat
from pullback.arrays.sorting import argsort
from pullback.linalg.secular import coefficients, deflated, normed, roots, unturned
from pullback.tracing.array import Array
from pullback.tracing.control import scan
from pullback.tracing.index import build, max_over

WHOLE: Final = 100  # rows that are not divided: for fewer the C of each halving costs more than it gains


def halvings(size: int | None) -> int:
    """The number of halvings of a matrix; none for an unknown size."""
    return 0 if size is None else max(0, -(-size // WHOLE) - 1).bit_length()


def conquered(d: Array, e: Array, size: int | None, whole: Callable[[Array, Array], Any]) -> tuple[Array, Array]:
    """The eigenvalues in any order, and the eigenvectors as columns, of a tridiagonal matrix.

    `whole` does the same for a small matrix, and for one of unknown size. Blocks have one size, so there may be
    further rows; their eigenvalues are above all others.
    """
    levels = halvings(size)
    if size is None or not levels:
        return whole(d, e)  # type: ignore[no-any-return]
    count = 1 << levels
    m = -(-size // count)
    bound = max_over(size, lambda k: magnitude(d[k]) + magnitude(e[k]) + magnitude(e.at(k - 1)))
    above = build((), lambda: where(bound > 0, 2 * bound, 1.0))
    diagonal = build(count * m, lambda k: where(k < size, d.at(k), above))
    beside = build(count * m, lambda k: where(k < size - 1, e.at(k), 0.0))

    def block(b: Any) -> Any:
        def torn(k: Any) -> Any:
            before = where((k == 0) & (b > 0), magnitude(beside.at(b * m - 1)), 0.0)
            return diagonal[b * m + k] - before - where(k == m - 1, magnitude(beside[b * m + k]), 0.0)

        return whole(build(m, torn), build(m, lambda k: where(k < m - 1, beside[b * m + k], 0.0)))

    _, (values, vectors) = scan(count, (), lambda _, b: ((), block(b)))
    for _ in range(levels):
        count, m = count // 2, 2 * m

        def pair(_: Any, b: Any, values: Array = values, vectors: Array = vectors, m: int = m) -> Any:
            upper, lower = ((values[2 * b + i], vectors[2 * b + i]) for i in (0, 1))
            return (), _joined(upper, lower, beside[b * m + m // 2 - 1], above)

        _, (values, vectors) = scan(count, (), pair)
    return values[0], vectors[0]


def _joined(upper: tuple[Array, Array], lower: tuple[Array, Array], corner: Array, above: Array) -> tuple[Array, Array]:
    """The eigenvalues and vectors of both blocks with `corner` beside the diagonal between them.

    The update is |corner| u uᵀ with u = (0, …, 1, ±1, …, 0), so in the blocks' bases z is a row of each.
    """
    (d1, q1), (d2, q2) = upper, lower
    half = d1.shape[0]
    n, rho = 2 * half, 2 * magnitude(corner)
    joined, row = concat([d1, d2]), concat([q1[half - 1], where(corner < 0, -q2[0], q2[0])])
    place = argsort(joined)
    d, z = build(n, lambda k: joined[place[k]]), build(n, lambda k: row[place[k]] * sqrt(0.5))
    largest = max_over(n, lambda k: where(d[k] < 0.75 * above, magnitude(d[k]), 0.0))
    close = build((), lambda: 8 * finfo(d1.dtype).eps * maximum(largest, rho))
    inverse = build((), lambda: 1 / where(rho > 0, rho, 1.0))
    poles = deflated(d, z, build((), lambda: where(rho > 0, close * inverse, 2.0)), close)
    apart = lambda pole, other: pole - other
    found = roots(poles.d, poles.z, inverse, apart)
    turned = unturned(normed(coefficients(poles.d, poles.z, found, apart)), poles.cosines, poles.sines)
    back = argsort(place)
    s = build((n, n), lambda r, i: turned[back[r], i])
    return build(n, lambda i: found.origin[i] + found.offset[i]), concat([q1 @ s[:half], q2 @ s[half:]])
