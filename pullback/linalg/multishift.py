"""The Schur form of large real matrices, by QR steps with many shifts at a time.

A chain of bulges moves down the diagonal together, through one window after another. Only the window is reflected; the
rows beside and the columns above meet the product of its reflections (Braman, Byers and Mathias, *The multishift QR
algorithm, part I*, 2002; LAPACK's dlaqr5). The window at the end of the block gives the shifts, and deflates
eigenvalues long before the elements beside the diagonal vanish (part II; LAPACK's dlaqr3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pullback.arrays.creation import eye
from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import sqrt, where
from pullback.arrays.manipulation import matrix_transpose
from pullback.linalg.francis import coupled, first_column, in_steps, moved, quasi_triangular, reflected
from pullback.linalg.upper_hessenberg import hessenberg
from pullback.tracing.array import Array
from pullback.tracing.branches import cond as either
from pullback.tracing.control import fold, scan
from pullback.tracing.index import build, max_over, sum_over

LARGE: Final = 120  # rows from which it pays
WINDOW: Final = 48
BULGES: Final = 8  # of two shifts each, three rows apart
MOVES: Final = WINDOW - 3 * BULGES - 1  # of each bulge within a window
LENGTH: Final = 3 * (BULGES - 1)  # rows between the first bulge and the last
FEW: Final = WINDOW // 5  # deflated rows after which a step follows


def large(size: int | None) -> bool:
    """Whether matrices of this size take steps with many shifts."""
    return size is not None and size >= LARGE


def quasi_triangular_by_windows(h: Array, rows: Array) -> tuple[Array, Array, Array]:
    """As `quasi_triangular`, for large matrices."""
    n = h.shape[0]

    def advance(t: Array, rows: Array, first: Array, last: Array, tries: Array) -> Any:
        """Deflate in the last window, and move a chain of bulges down the block if that gained little."""
        end = _last_window(t, first, last)
        shifts = _shifts(end, tries)
        rest = build((), lambda: end.low + end.kept)
        steps = build((), lambda: (first <= end.low) & (end.kept + 1 >= WINDOW - FEW))

        def turn(state: Any, g: Any) -> Any:
            deflates = build((), lambda: (g == 0) & (end.kept + 1 < WINDOW))
            moves = build((), lambda: steps & (g > 0) & ((g - 1) * MOVES < rest - first + LENGTH))

            def one(t: Array, rows: Array) -> Any:
                w = either(
                    deflates, lambda t: _deflated(t, end, first, last), lambda t: _moved(t, g, first, rest, shifts), t
                )
                return _applied(t, rows, *w)

            return either(build((), lambda: deflates | moves), one, lambda *same: same, *state)

        return fold((n + LENGTH) // MOVES + 2, (t, rows), turn)

    h = build((n, n), lambda i, j: where(i <= j + 1, h[i, j], 0.0))
    return in_steps(h, rows, n, advance)


# The window at the end ----------------------------------------------------------------------------------------------


def _window(t: Array, low: Array) -> Array:
    """Rows and columns from `low` on, with zeros outside of the matrix."""
    return build((WINDOW, WINDOW), lambda i, j: t.at(low + i, low + j))  # type: ignore[no-any-return]


class LastWindow(NamedTuple):
    """The Schur form of the block's part within the last window, but for the first row.

    Attributes:
        low: the first row of the window.
        form: (WINDOW, WINDOW), quasi-triangular.
        turns: (WINDOW, WINDOW) the vectors as rows.
        spike: (WINDOW,) the product of the vectors and the column left of the part.
        kept: the last row whose element of the spike is not negligible, or 0.
    """

    low: Array
    form: Array
    turns: Array
    spike: Array
    kept: Array


def _last_window(t: Array, first: Array, last: Array) -> LastWindow:
    low = build((), lambda: last - (WINDOW - 1))
    w = _window(t, low)
    top = build((), lambda: where(first > low, first, low + 1))

    def own(i: Any, j: Any) -> Any:
        outside = (i == j + 1) & ((low + j < top) | (low + j >= last))
        return where(outside, 0.0, w[i, j])

    inner, turns, _ = quasi_triangular(build((WINDOW, WINDOW), own), eye(WINDOW, dtype=t.dtype))
    inner = build((WINDOW, WINDOW), lambda i, j: where((i <= j) | coupled_below(inner, i, j), inner[i, j], 0.0))
    corner = build((), lambda: where(first <= low, w[1, 0], 0.0))
    spike = build(WINDOW, lambda i: where(i > 0, turns[i, 1] * corner, 0.0))
    info = finfo(t.dtype)

    def size(i: Any) -> Any:
        both = [
            sqrt(magnitude(inner.at(i + k, i + k - 1))) * sqrt(magnitude(inner.at(i + k - 1, i + k))) for k in (0, 1)
        ]
        return magnitude(inner[i, i]) + both[0] + both[1]

    stays = build(WINDOW, lambda i: magnitude(spike[i]) > info.eps * size(i) + info.smallest_normal**0.5)
    pair = build(WINDOW, lambda i: inner.at(i + 1, i) != 0)
    kept = max_over(WINDOW, lambda i: where(stays[i], where(pair[i], i + 1, i), 0)).astype("int64")
    return LastWindow(low, inner, turns, spike, kept)


def coupled_below(t: Array, i: Any, j: Any) -> Any:
    """Whether the element is one below the diagonal, and not negligible."""
    return (i == j + 1) & coupled(t, j)


def _deflated(t: Array, end: LastWindow, first: Array, last: Array) -> tuple[Array, Array, Array]:
    """The last window's first row, the window, Hessenberg again up to row `kept`, and its vectors."""
    low, kept = end.low, end.kept
    full = build((WINDOW, WINDOW), lambda i, j: end.form[i, j] + where((j == 0) & (i <= kept), end.spike[i], 0.0))
    h, q = either(kept > 1, lambda: hessenberg(full), lambda: (full + 0.0, eye(WINDOW, dtype=t.dtype)))

    def at(i: Any, j: Any) -> Any:
        other = (i == j + 1) & ((low + i < first) | (low + j > last))
        return where(other, t.at(low + i, low + j), where(i <= j + 1, h[i, j], 0.0))

    return low, build((WINDOW, WINDOW), at), matrix_transpose(q) @ end.turns


def _applied(t: Array, rows: Array, low: Array, window: Array, turns: Array) -> tuple[Array, Array]:
    """Put a window into the matrix; transform the rows beside and the columns above it."""
    n = t.shape[0]

    def inside(k: Any) -> Any:
        return (k >= low) & (k < low + WINDOW)

    right = turns @ build((WINDOW, n), lambda i, j: t.at(low + i, j))
    t = _put(t, lambda i, j: inside(i) & (j >= low + WINDOW), lambda i, j: right.at(i - low, j))
    above = build((n, WINDOW), lambda i, j: t.at(i, low + j)) @ matrix_transpose(turns)
    t = _put(t, lambda i, j: inside(j) & (i < low), lambda i, j: above.at(i, j - low))
    t = _put(t, lambda i, j: inside(i) & inside(j), lambda i, j: window.at(i - low, j - low))
    vectors = turns @ build((WINDOW, n), lambda i, j: rows.at(low + i, j))
    return t, _put(rows, lambda i, j: inside(i), lambda i, j: vectors.at(i - low, j))


def _put(t: Array, here: Callable[[Any, Any], Any], new: Callable[[Any, Any], Any]) -> Array:
    """Replace some elements: a sum of old ones and a change is written in place, in loops over these."""
    return build(t.shape, lambda i, j: t[i, j] + where(here(i, j), new(i, j) - t[i, j], 0.0))  # type: ignore[no-any-return]


def _shifts(end: LastWindow, tries: Array) -> tuple[Array, Array]:
    """Sums and products of pairs of the window's last eigenvalues that did not deflate.

    The two of a block of two rows make a pair, and the others in turn. Now and then other shifts break cycles.
    """
    count, inner = 2 * BULGES, end.form
    base = build((), lambda: end.kept + 1 - count)
    main = build(count, lambda i: inner.at(base + i, base + i))
    across = build(
        count, lambda i: where(i < count - 1, inner.at(base + i + 1, base + i) * inner.at(base + i, base + i + 1), 0.0)
    )
    block = build(count, lambda i: (across[i] != 0) | (across.at(i - 1) != 0))

    def place(i: Any) -> Any:
        return sum_over(
            count, lambda j: where(block[i], where(block[j] & (j < i), 1, 0), where(block[j] | (j < i), 1, 0))
        )

    places = build(count, place)

    def at(p: Any) -> Any:
        one, other = (sum_over(count, lambda i: where(places[i] == 2 * p + k, main[i], 0.0)) for k in (0, 1))
        beside = sum_over(count, lambda i: where(places[i] == 2 * p, across[i], 0.0))
        return one, other, beside

    one, other, beside = build(BULGES, at)
    size = max_over(WINDOW, lambda i: magnitude(end.spike[i]))
    rest = build((), lambda: where(tries % 10 == 9, size, 0.0))
    sums = build(BULGES, lambda p: one[p] + other[p] + 1.5 * rest)
    return sums, build(
        BULGES, lambda p: (one[p] + 0.75 * rest) * (other[p] + 0.75 * rest) - beside[p] + 0.4375 * rest * rest
    )


# Chains of bulges ---------------------------------------------------------------------------------------------------


def _moved(t: Array, g: Any, first: Array, last: Array, shifts: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """The first row of window g, the window after the moves, and the product of the reflections."""
    low = build((), lambda: first + (g - 1) * MOVES - LENGTH - 1)
    top, end = build((), lambda: first - low), build((), lambda: last - low)
    w, factors = _chain(_window(t, low), top, end, *shifts)

    def back(x: Array, m: Any) -> Array:
        return fold(BULGES, x, lambda x, b: reflected(x, _row(m, b), *(f[m, b] for f in factors)))  # type: ignore[no-any-return]

    return low, w, fold(MOVES, eye(WINDOW, dtype=t.dtype), back)


def _row(m: Any, b: Any) -> Any:
    """The row of bulge b in a window after m moves."""
    return m + 1 + 3 * (BULGES - 1 - b)


def _chain(w: Array, first: Array, last: Array, sums: Array, products: Array) -> tuple[Array, tuple[Array, Array]]:
    """Move each bulge of a window, the lowest first, as far as there is room; return the reflections, too."""

    def move(w: Array, m: Any) -> Any:
        def one(w: Array, b: Any) -> Any:
            # (T - a)(T - b) has the sum and the product of a and b alone: as (T - s / 2)² + p - s² / 4
            half = build((), lambda: sums[b] / 2)
            rest = build((), lambda: half * half - products[b])
            return moved(w, _row(m, b), first, last, lambda: first_column(w, first, half, half, rest))

        return scan(BULGES, w, one)

    return scan(MOVES, w, move)
