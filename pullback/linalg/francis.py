"""The Schur form of real matrices, by QR steps with two shifts at a time in real numbers."""

from __future__ import annotations

from collections.abc import Callable
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

    def advance(t: Array, rows: Array, first: Array, last: Array, tries: Array) -> Any:
        start = _start(t, first, last, tries)
        t, factors = scan(n, t, lambda t, k: moved(t, k, first, last, lambda: start))

        def reflected_if_inside(x: Array, k: Any) -> Any:
            return reflected(x, k, *(f[k] for f in factors))

        return t, fold(n, rows, reflected_if_inside)

    t, rows, done = in_steps(h, rows, n, advance)
    return t[:n, :n], rows[:n], done


def in_steps(t: Array, rows: Array, n: Any, advance: Callable[..., Any]) -> tuple[Array, Array, Array]:
    """Take `advance(t, rows, first, last, tries)` until all blocks have one or two rows.

    `first` and `last` are the rows of the last larger block, and `tries` counts the steps since its last row was last
    another one. Thirty steps for each of n eigenvalues are the most.
    """

    def step(state: Any, _: Any) -> Any:
        t, rows, tries, before = state
        first, last = _block(t)
        tries = where(last == before, tries + 1, 0)
        t, rows = either(last > 0, lambda t, rows: advance(t, rows, first, last, tries), lambda *x: x, t, rows)
        return t, rows, tries, last

    def some(state: Any, _: Any) -> Any:
        return either(_block(state[0])[1] > 0, lambda *state: fold(n, state, step), lambda *state: state, *state)

    none = zeros((), dtype="int64")
    t, rows, _, _ = fold(STEPS, (t, rows, none, none), some)
    return t, rows, _block(t)[1] == 0


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


def _start(t: Array, first: Array, last: Array, tries: Array) -> tuple[Array, Array, Array]:
    """The start of a step with the eigenvalues of the last two rows.

    Other shifts now and then break cycles, as in LAPACK's dlahqr.
    """
    a, b, w = t.at(last - 1, last - 1), t.at(last, last), t.at(last, last - 1) * t.at(last - 1, last)
    size = magnitude(t.at(last, last - 1)) + magnitude(t.at(last - 1, last - 2))
    other = tries % 10 == 9
    a, b, w = (
        build((), lambda x=x, y=y: where(other, y, x))
        for x, y in ((a, b + 0.75 * size), (b, b + 0.75 * size), (w, -0.4375 * size * size))
    )
    return build((), lambda: first_column(t, first, a, b, w))  # type: ignore[no-any-return]


def first_column(t: Array, first: Any, a: Any, b: Any, w: Any) -> tuple[Any, Any, Any]:
    """The first column of (T - a)(T - b) - w up to a factor, for a block that begins in row `first`."""
    top, beside, below = t.at(first, first), t.at(first, first + 1), t.at(first + 1, first)
    next_, third = t.at(first + 1, first + 1), t.at(first + 2, first + 1)
    p = ((a - top) * (b - top) - w) / where(below == 0, 1.0, below) + beside
    return p, next_ - top - (a - top) - (b - top), third


def moved(
    t: Array, k: Any, first: Any, last: Any, start: Callable[[], tuple[Any, Any, Any]]
) -> tuple[Array, tuple[Array, Array]]:
    """Reflect rows and columns k to k + 2 so that the column before is zero below row k.

    `first` and `last` are the rows of a block; in its first row the column is `start()`.

    Returns:
        The matrix, and v and w of the reflection I - v wᵀ, zeros outside of the block.
    """
    n = t.shape[0]

    def given() -> Any:
        x = (where(k == first, s, t.at(k + r, k - 1)) for r, s in enumerate(start()))
        return tuple(where(k + r <= last, y, 0.0) for r, y in enumerate(x))

    def inside(t: Array) -> Any:
        x = build((), given)
        v, w, found = _reflection(*x)
        fall = build(3, lambda r: where(k == first, 0.0, where(r == 0, x[0] - found, where(r == 1, x[1], x[2]))))
        along = build(n, lambda j: w[0] * t[k, j] + w[1] * t[k + 1, j] + w[2] * t[k + 2, j])

        def left(i: Any, j: Any) -> Any:
            return t[i, j] - where((i >= k) & (i <= k + 2) & (j >= k), v.at(i - k) * along[j], 0.0)

        def before(i: Any, j: Any) -> Any:
            return t[i, j] - where((i >= k) & (i <= k + 2) & (j == k - 1), fall.at(i - k), 0.0)

        t = build((n, n), left)
        t = build((n, n), before)
        across = build(n, lambda i: where(i <= k + 3, w[0] * t[i, k] + w[1] * t[i, k + 1] + w[2] * t[i, k + 2], 0.0))

        def right(i: Any, j: Any) -> Any:
            near = (i <= k + 3) & (j >= k) & (j <= k + 2)
            return t[i, j] - where(near, v.at(j - k) * across[i], 0.0)

        return build((n, n), right), v, w

    def outside(t: Array) -> Any:
        return t, zeros(3, dtype=t.dtype), zeros(3, dtype=t.dtype)

    t, v, w = either(build((), lambda: (k >= first) & (k < last)), inside, outside, t)
    return t, (v, w)


def _reflection(x: Any, y: Any, z: Any) -> tuple[Array, Array, Array]:
    """The vectors v and w of a reflection I - v wᵀ, and the number a: it takes (x, y, z) to (a, 0, 0)."""
    scale = build((), lambda: magnitude(x) + magnitude(y) + magnitude(z))
    some = build((), lambda: scale > 0)
    unit = build((), lambda: tuple(c / where(some, scale, 1.0) for c in (x, y, z)))  # stored before it is squared
    norm = build((), lambda: sqrt(unit[0] * unit[0] + unit[1] * unit[1] + unit[2] * unit[2]))
    size = build((), lambda: where(some, where(unit[0] < 0, -norm, norm), 1.0))
    top = build((), lambda: unit[0] + size)
    along = build(3, lambda i: where(i == 0, top, where(i == 1, unit[1], unit[2])))
    v = build(3, lambda i: along[i] / size)
    w = build(3, lambda i: where(some, along[i] / where(some, top, 1.0), 0.0))
    return v, w, build((), lambda: -size * scale)


def reflected(x: Array, k: Any, v: Array, w: Array) -> Array:
    """Apply a reflection to the rows k to k + 2, if it is not zero."""

    def turned(x: Array) -> Array:
        along = build(x.shape[1], lambda j: w[0] * x[k, j] + w[1] * x[k + 1, j] + w[2] * x[k + 2, j])

        def at(i: Any, j: Any) -> Any:
            return x[i, j] - where((i >= k) & (i <= k + 2), v.at(i - k) * along[j], 0.0)

        return build(x.shape, at)  # type: ignore[no-any-return]

    return either(w[0] != 0, turned, lambda x: x, x)  # type: ignore[no-any-return]
