"""Eigenvalues and eigenvectors after an update of rank one, shared by eigenvalues and singular values.

With poles p the eigenvalues of diag(p) + rho z zᵀ are the roots of 1 / rho + Σ z² / (p - root), one between each
pole and the next (Golub, *Some modified matrix eigenvalue problems*, 1973).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import sqrt, where
from pullback.tracing.array import Array
from pullback.tracing.branches import cond as either
from pullback.tracing.control import fold, scan
from pullback.tracing.index import any_over, build, max_over, prod_over, sum_over

TRIPS: Final = 60  # at most; four to six are usual, and a bisection gains a bit in each


class Deflated(NamedTuple):
    """Poles in another order, and the rotations that lead there.

    Attributes:
        d: (n,) the poles. Where z is not zero they ascend, and are apart.
        z: (n,) the update, 0 at poles that are eigenvalues.
        cosines: (n,) of the rotations, for `unturned`.
        sines: (n,) of the rotations.
    """

    d: Array
    z: Array
    cosines: Array
    sines: Array


class Roots(NamedTuple):
    """Roots as `origin + offset`, so that their distance to each pole is accurate; poles where z is 0."""

    origin: Array
    offset: Array


def deflated(d: Array, z: Array, light: Array, close: Array) -> Deflated:
    """Separate the eigenvalues that the update does not change, up to the tolerance.

    They are poles whose element of z is up to `light`, and one of two poles that are nearly equal, up to `close`, after
    a rotation that makes its element of z zero. `d` ascends. Going up, one pole is held and meets the next (LAPACK's
    dlaed2).
    """
    n = d.shape[0]

    def step(state: Any, k: Any) -> Any:
        held, weight = state

        def at() -> Any:
            after, other = d.at(k + 1), z.at(k + 1)
            size = sqrt(weight * weight + other * other)
            c, s = other / where(size > 0, size, 1.0), -weight / where(size > 0, size, 1.0)
            last = k == n - 1
            alone = (magnitude(weight) <= light) | last
            skips = ~alone & (magnitude(other) <= light)
            joins = ~alone & ~skips & (magnitude((after - held) * c * s) <= close)
            c, s = where(joins, c, where(skips, 0.0, 1.0)), where(joins, s, where(skips, 1.0, 0.0))
            kept = ~joins & ~skips & (magnitude(weight) > light)
            return (
                s * s * held + c * c * after,
                where(joins, size, c * other - s * weight),
                c * c * held + s * s * after,
                where(kept, weight, 0.0),
                c,
                s,
            )

        held, weight, *done = build((), at)
        return (held, weight), tuple(done)

    _, rows = scan(n, (build((), lambda: d[0]), build((), lambda: z[0])), step)
    return Deflated(*rows)


def unturned(x: Array, cosines: Array, sines: Array) -> Array:
    """Undo the rotations of `deflated`: from rows of its poles to rows of the poles before."""
    n, m = x.shape

    def step(held: Array, t: Any) -> Any:
        k = n - 2 - t
        c, s = cosines.at(k), sines.at(k)
        return (
            build(m, lambda i: where(k >= 0, c * x.at(k, i) - s * held[i], held[i])),
            build(m, lambda i: where(k >= 0, s * x.at(k, i) + c * held[i], held[i])),
        )

    _, rows = scan(n, build(m, lambda i: x[n - 1, i]), step)
    return build((n, m), lambda k, i: rows[n - 1 - k, i])  # type: ignore[no-any-return]


class Search(NamedTuple):
    """The search for each root, in differences from its nearer pole.

    Attributes:
        origin: this pole.
        weight: its z².
        other: the pole at the other end of the interval; for the last root, the pole before.
        low: the lower end of the bracket.
        high: its upper end.
        start: where the search begins.
        last: whether no pole is above.
    """

    origin: Array
    weight: Array
    other: Array
    low: Array
    high: Array
    start: Array
    last: Array


def roots(d: Array, z: Array, inverse: Array, distance: Callable[[Any, Any], Any]) -> Roots:
    """The roots of inverse + Σ z² / distance(d, root), for `inverse` = 1 / rho > 0.

    A root is an offset from the nearer one of its two poles. Each step keeps that pole, and replaces the others by one
    at the other end of the interval, with the same value and slope. This is the fixed weight method (Li, *Solving
    secular equations stably and efficiently*, 1993; LAPACK's dlaed4). The last root, beyond all poles, has the last two
    poles. A step that leaves the bracket becomes a bisection.
    """
    n, eps = d.shape[0], finfo(d.dtype).eps
    square = build(n, lambda k: z[k] * z[k])
    active = build(n, lambda k: z[k] != 0)
    b = _brackets(d, square, active, inverse, distance)

    def improve(offset: Array, low: Array, high: Array, open_: Array) -> Any:
        def over(term: Callable[[Any, Any], Any]) -> Array:
            def at(k: Any, i: Any) -> Any:
                return term(square[k], where(active[k], distance(d[k], b.origin[i]) - offset[i], 1.0))

            return build(n, lambda i: sum_over(n, lambda k: at(k, i)))  # type: ignore[no-any-return]

        value, size, slope = (
            over(lambda q, x: q / x),
            over(lambda q, x: q / magnitude(x)),
            over(lambda q, x: q / (x * x)),
        )

        def at(i: Any) -> Any:
            w = inverse + value[i]
            limit = 4 * eps * (inverse + size[i] + magnitude(offset[i]) * slope[i])
            lower, upper = where(w < 0, offset[i], low[i]), where(w < 0, high[i], offset[i])
            here, other = -offset[i], b.other[i] - offset[i]
            c = w - other * slope[i] + b.other[i] * b.weight[i] / (here * here)
            moved = offset[i] + _nearest(c, (here + other) * w - here * other * slope[i], here * other * w, b.last[i])
            moved = where((moved > lower) & (moved < upper), moved, (lower + upper) / 2)
            going = open_[i] & (magnitude(w) > limit) & (moved > lower) & (moved < upper)
            return where(going, moved, offset[i]), lower, upper, going

        return build(n, at)

    def go(state: Any, _: Any) -> Any:
        return either(any_over(n, lambda i: state[3][i]), improve, lambda *same: same, *state)

    offset, *_ = fold(TRIPS, (b.start, b.low, b.high, active), go)
    return Roots(b.origin, build(n, lambda i: where(active[i], offset[i], 0.0)))


def _nearest(c: Any, a: Any, b: Any, last: Any) -> Any:
    """The root of c x² - a x + b = 0 that lies between the poles, or for the last root beyond both."""
    root = sqrt(magnitude(a * a - 4 * b * c))
    root = where(last, -root, root)
    return where((a <= 0) != last, (a - root) / (2 * c), 2 * b / (a + root))


def _brackets(d: Array, square: Array, active: Array, inverse: Array, distance: Callable[[Any, Any], Any]) -> Search:
    """Decide by the middle of each interval which pole is nearer; start at the root with both poles alone."""
    n = d.shape[0]
    after, beyond, last = _following(d, square, active)
    most = sum_over(n, lambda k: square[k]) / inverse
    before = max_over(n, lambda k: where(active[k] & ~last[k], d[k], d[0]))
    width = build(n, lambda i: where(last[i], most, distance(after[i], d[i])))

    def term(k: Any, i: Any) -> Any:
        return square[k] / where(active[k], distance(d[k], d[i]) - width[i] / 2, 1.0)

    middle = build(n, lambda i: inverse + sum_over(n, lambda k: term(k, i)))
    far = build(n, lambda i: active[i] & ~last[i] & (middle[i] < 0))

    def at(i: Any) -> Any:
        half = width[i] / 2
        end, below = last[i], middle[i] < 0
        c = middle[i] + (square[i] - beyond[i]) / where(half > 0, half, 1.0)
        own, far_ = where(far[i], beyond[i], square[i]), where(far[i], square[i], beyond[i])
        side = where(far[i], -width[i], width[i])
        start = _nearest(c, c * side + own + far_, own * side, False)
        low = where(far[i], -half, where(below & end, half, 0.0))
        high = where(far[i], 0.0, where(below & end, 2 * width[i], half))
        start = where(~end & (start > low) & (start < high), start, (low + high) / 2)
        other = where(end, distance(before, d[i]), side)
        return where(far[i], after[i], d[i]), own, other, low, high, start, end

    return Search(*build(n, at))


def _following(d: Array, square: Array, active: Array) -> tuple[Array, Array, Array]:
    """For each pole the next one with a z that is not zero, its z², and whether there is none."""
    n = d.shape[0]

    def back(state: Any, t: Any) -> Any:
        k = n - 1 - t

        def at() -> Any:
            return tuple(where(active[k], x, old) for x, old in zip((d[k], square[k], 0.0), state))

        return build((), at), state

    none = build((), lambda: 0 * d[0])
    _, rows = scan(n, (none, none, none + 1), back)
    after, weight, last = (build(n, lambda i, row=row: row[n - 1 - i]) for row in rows)
    return after, weight, build(n, lambda i: last[i] > 0)


def coefficients(d: Array, z: Array, found: Roots, distance: Callable[[Any, Any], Any]) -> Array:
    """The columns z / (pole - root) for the z to which the roots belong; unit vectors where z is zero.

    The z of which these roots are exact makes them orthogonal. It is Löwner's (Gu and Eisenstat, *A divide-and-conquer
    algorithm for the symmetric tridiagonal eigenproblem*, 1995): z² = Π (root - pole) / Π (other pole - pole), as a
    product of quotients.
    """
    n = d.shape[0]

    def factor(j: Any, k: Any) -> Any:
        away = -(distance(d[k], found.origin[j]) - found.offset[j])
        both = (z[j] != 0) & (z[k] != 0)
        return where(both, away / where((j == k) | ~both, 1.0, distance(d[j], d[k])), 1.0)

    size = build(n, lambda k: sqrt(magnitude(prod_over(n, lambda j: factor(j, k)))))
    exact = build(n, lambda k: where(z[k] == 0, 0.0, where(z[k] < 0, -size[k], size[k])))

    def at(k: Any, i: Any) -> Any:
        both = (z[k] != 0) & (z[i] != 0)
        gap = where(both, distance(d[k], found.origin[i]) - found.offset[i], 1.0)
        return where(both, exact[k] / gap, where((k == i) & (z[i] == 0), 1.0, 0.0))

    return build((n, n), at)  # type: ignore[no-any-return]


def normed(x: Array) -> Array:
    """The columns of a matrix divided by their norms."""
    n, m = x.shape
    factor = build(m, lambda i: 1 / sqrt(sum_over(n, lambda k: x[k, i] * x[k, i])))
    return build((n, m), lambda k, i: x[k, i] * factor[i])  # type: ignore[no-any-return]
