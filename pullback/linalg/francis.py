"""The Schur form of real matrices, by QR steps with two shifts at a time in real numbers."""

from __future__ import annotations

from typing import Any, Final

from pullback.arrays.creation import zeros
from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import sqrt, where
from pullback.tracing.array import Array
from pullback.tracing.branches import cond as either
from pullback.tracing.control import fold, scan
from pullback.tracing.index import build, max_over

STEPS: Final = 30  # at most, for each eigenvalue, as in LAPACK; one for each suffices most often


def quasi_triangular(h: Array, rows: Array) -> tuple[Array, Array, Array]:
    """Make a Hessenberg matrix block upper triangular, with blocks of one or two rows.

    A step reflects three neighboring rows and columns after another (Francis 1961; the form of EISPACK's hqr2), which
    moves a bulge down the diagonal. `rows` are the vectors so far; they are reflected like the rows of the matrix.

    Returns:
        The matrix, the vectors as rows, and whether all steps sufficed.
    """
    n = h.shape[0]
    h = build((n + 2, n + 2), lambda i, j: where((i < n) & (j < n) & (i <= j + 1), h.at(i, j), 0.0))
    rows = build((n + 2, n), lambda i, j: where(i < n, rows.at(i, j), 0.0))

    def step(state: Any, _: Any) -> Any:
        t, rows, tries, before = state
        first, last = _block(t)
        tries = where(last == before, tries + 1, 0)
        start = _start(t, first, last, tries)

        def sweep(t: Array, rows: Array) -> Any:
            t, (v, w) = scan(n, t, lambda t, k: _move(t, k, first, last, start))

            def reflected(x: Array, k: Any) -> Any:
                inside = build((), lambda: (k >= first) & (k < last))
                return either(inside, lambda x: _reflected(x, k, v[k], w[k]), lambda x: x, x)

            return t, fold(n, rows, reflected)

        t, rows = either(last > 0, sweep, lambda *same: same, t, rows)
        return t, rows, tries, last

    none = zeros((), dtype="int64")
    t, rows, _, _ = fold(STEPS * n, (h, rows, none, none), step)
    return t[:n, :n], rows[:n], _block(t)[1] == 0


def coupled(t: Array, k: Any) -> Any:
    """Whether the element below diagonal element k is not negligible; false for the last k.

    An element whose square has no digits is negligible, too: matrices are scaled, so it is far below rounding.
    """
    info = finfo(t.dtype)
    beside = magnitude(t.at(k, k)) + magnitude(t.at(k + 1, k + 1))
    return magnitude(t.at(k + 1, k)) > info.eps * beside + info.smallest_normal**0.5


def _block(t: Array) -> tuple[Array, Array]:
    """The first and last row of the last block of three rows or more; 0 and 0 for none."""
    n = t.shape[0]
    open_ = build(n, lambda k: coupled(t, k))
    last = max_over(n, lambda k: where(open_[k] & open_.at(k + 1), k + 2, 0)).astype("int64")
    first = max_over(n, lambda k: where(~open_[k] & (k < last), k + 1, 0)).astype("int64")
    return first, last


def _start(t: Array, first: Array, last: Array, tries: Array) -> Array:
    """The first column of (T - a)(T - b) up to a factor, for the eigenvalues a and b of the last two rows.

    Other shifts now and then break cycles, as in LAPACK's dlahqr.
    """
    a, b, w = t.at(last - 1, last - 1), t.at(last, last), t.at(last, last - 1) * t.at(last - 1, last)
    size = magnitude(t.at(last, last - 1)) + magnitude(t.at(last - 1, last - 2))
    other = tries % 10 == 9
    a, b, w = (
        build((), lambda x=x, y=y: where(other, y, x))
        for x, y in ((a, b + 0.75 * size), (b, b + 0.75 * size), (w, -0.4375 * size * size))
    )
    top, beside, below = t.at(first, first), t.at(first, first + 1), t.at(first + 1, first)
    next_, third = t.at(first + 1, first + 1), t.at(first + 2, first + 1)

    def at(r: Any) -> Any:
        p = ((a - top) * (b - top) - w) / where(below == 0, 1.0, below) + beside
        q = next_ - top - (a - top) - (b - top)
        return where(r == 0, p, where(r == 1, q, third))

    return build(3, at)  # type: ignore[no-any-return]


def _move(t: Array, k: Any, first: Array, last: Array, start: Array) -> tuple[Array, tuple[Array, Array]]:
    """Reflect rows and columns k to k + 2 so that the column before is zero below row k.

    Returns:
        The matrix, and v and w of the reflection I - v wᵀ, zeros outside of the block.
    """
    n = t.shape[0]
    inside = build((), lambda: (k >= first) & (k < last))

    def given(r: Any) -> Any:
        return where(k + r <= last, where(k == first, start[r], t.at(k + r, k - 1)), 0.0)

    def moved(t: Array) -> Any:
        x = build(3, given)
        v, w, found = _reflection(x)
        beside = build(3, lambda r: where(k == first, 0.0, x[r] - where(r == 0, found, 0.0)))
        along = build(n, lambda j: w[0] * t[k, j] + w[1] * t[k + 1, j] + w[2] * t[k + 2, j])

        def left(i: Any, j: Any) -> Any:
            return t[i, j] - where((i >= k) & (i <= k + 2) & (j >= k), v.at(i - k) * along[j], 0.0)

        def before(i: Any, j: Any) -> Any:
            return t[i, j] - where((i >= k) & (i <= k + 2) & (j == k - 1), beside.at(i - k), 0.0)

        t = build((n, n), left)
        t = build((n, n), before)
        across = build(n, lambda i: where(i <= k + 3, w[0] * t[i, k] + w[1] * t[i, k + 1] + w[2] * t[i, k + 2], 0.0))

        def right(i: Any, j: Any) -> Any:
            near = (i <= k + 3) & (j >= k) & (j <= k + 2)
            return t[i, j] - where(near, v.at(j - k) * across[i], 0.0)

        return build((n, n), right), v, w

    def same(t: Array) -> Any:
        return t, zeros(3, dtype=t.dtype), zeros(3, dtype=t.dtype)

    t, v, w = either(inside, moved, same, t)
    return t, (v, w)


def _reflection(x: Array) -> tuple[Array, Array, Array]:
    """The vectors v and w of a reflection I - v wᵀ, and the number a to which it takes x: (a, 0, 0)."""
    scale = build((), lambda: magnitude(x[0]) + magnitude(x[1]) + magnitude(x[2]))
    some = build((), lambda: scale > 0)
    unit = build(3, lambda r: x[r] / where(some, scale, 1.0))
    norm = build((), lambda: sqrt(unit[0] * unit[0] + unit[1] * unit[1] + unit[2] * unit[2]))
    size = build((), lambda: where(some, where(unit[0] < 0, -norm, norm), 1.0))
    v = build(3, lambda r: where(r == 0, unit[0] + size, unit[r]) / size)
    w = build(3, lambda r: where(some, where(r == 0, 1.0, unit[r] / where(some, unit[0] + size, 1.0)), 0.0))
    return v, w, build((), lambda: -size * scale)


def _reflected(x: Array, k: Any, v: Array, w: Array) -> Array:
    """Apply a reflection to the rows k to k + 2."""
    along = build(x.shape[1], lambda j: w[0] * x[k, j] + w[1] * x[k + 1, j] + w[2] * x[k + 2, j])

    def at(i: Any, j: Any) -> Any:
        return x[i, j] - where((i >= k) & (i <= k + 2), v.at(i - k) * along[j], 0.0)

    return build(x.shape, at)  # type: ignore[no-any-return]
