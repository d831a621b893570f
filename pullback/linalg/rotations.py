"""Sweeps of plane rotations over rows of vectors, shared by eigenvalues and singular values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.arrays.complex import imag, real
from pullback.arrays.complex import make_complex as complex
from pullback.arrays.creation import zeros
from pullback.arrays.elementwise import where
from pullback.arrays.manipulation import concat, matrix_transpose
from pullback.tracing.array import Array
from pullback.tracing.complex_array import is_complex
from pullback.tracing.control import scan
from pullback.tracing.index import build, max_over

WIDE = 8  # sweeps in one pass; more of them would not fit the registers
PASSES = 4  # for each row: 32 sweeps, of which an eigenvalue takes two or three


def parted(vectors: Array) -> Array:
    """The columns as rows, for `turned`: real and imaginary parts side by side, and rows of zeros below."""
    rows = matrix_transpose(vectors)
    both = concat([real(rows), imag(rows)], axis=1) if is_complex(vectors) else rows
    n, m = both.shape
    return build((n + WIDE, m), lambda k, i: where(k < n, both.at(k, i), 0.0))  # type: ignore[no-any-return]


def joined(padded: Array, like: Array) -> Array:
    """Undo `parted`, up to the transpose, for vectors that are complex as `like` is."""
    rows = padded[: padded.shape[0] - WIDE]
    half = rows.shape[1] // 2
    return complex(rows[:, :half], rows[:, half:]) if is_complex(like) else rows  # type: ignore[return-value]


def turned(padded: Array, cosines: Array, sines: Array) -> Array:
    """Apply `WIDE` sweeps; rotation k of a sweep acts on rows k and k + 1 and completes row k.

    A sweep holds one row and meets the next: it passes on c held + s next, and then holds c next - s held. The row it
    passes on is the next row of the following sweep, one step later. So a pass reads and writes the matrix once, in
    as many more steps as there are sweeps. Outside the matrix the rotations are the identity.
    """
    n, m = cosines.shape[1], padded.shape[1]

    def here(k: Any, w: Any) -> Any:
        return (k > w) & (k < n + w)

    c = build((n + WIDE, WIDE), lambda k, w: where(here(k, w), cosines.at(w, k - w - 1), 1.0))
    s = build((n + WIDE, WIDE), lambda k, w: where(here(k, w), sines.at(w, k - w - 1), 0.0))

    def step(held: Any, k: Any) -> Any:
        def at(i: Any) -> Any:
            row, after = padded[k, i], []
            for w, x in enumerate(held):
                after.append(c[k, w] * row - s[k, w] * x[i])
                row = c[k, w] * x[i] + s[k, w] * row
            return (*after, row)

        *after, row = build(m, at)
        return tuple(after), row

    _, done = scan(n + WIDE, (zeros(m, dtype=padded.dtype),) * WIDE, step)
    return build(padded.shape, lambda k, i: where(k < n, done.at(k + WIDE, i), 0.0))  # type: ignore[no-any-return]


def last_block(n: Any, negligible: Callable[[Any], Any]) -> tuple[Array, Array]:
    """Return the first and last row of the last block of rows that elements beside the diagonal couple.

    `negligible` tells of element k, between rows k and k + 1; it must hold for the last k. 0 and 0 stand for no block.
    """
    closed = build(n, negligible)
    last = max_over(n, lambda k: where(closed[k], 0, k + 1)).astype("int64")
    first = max_over(n, lambda k: where(closed[k] & (k < last), k + 1, 0)).astype("int64")
    return first, last
