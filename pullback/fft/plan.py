"""Plans for transforms of a given length: factors and tables of complex exponentials."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pullback.state import cached

LARGEST: Final = 13  # the largest prime factor that a stage takes
Table = np.ndarray[Any, Any]


def factors(n: int) -> tuple[int, ...] | None:
    """The radices of the stages for length n, fours first; None if a prime factor is too large."""
    out = []
    for r in (4, 2, 3, 5, 7, 11, LARGEST):
        while n % r == 0:
            out.append(r)
            n //= r
    return tuple(out) if n == 1 else None


def smooth(least: int) -> int:
    """The smallest number that is at least `least` and has no prime factors but 2, 3 and 5."""
    n = least
    while True:
        rest = n
        for p in (2, 3, 5):
            while rest % p == 0:
                rest //= p
        if rest == 1:
            return n
        n += 1


def circle(turns: Table, period: int) -> tuple[Table, Table]:
    """Cosine and sine of 2π turns / period for whole numbers of turns, each correct to the last place.

    Angles are reduced to an eighth of a turn before they are rounded.
    """
    k = np.asarray(turns, np.int64) % period
    quarter = (4 * k + period // 2) // period
    angle = (np.pi / 2) * ((4 * k - quarter * period) / period)
    c, s = np.cos(angle), np.sin(angle)
    quarter %= 4
    return np.choose(quarter, [c, -s, -c, s]), np.choose(quarter, [s, c, -s, -c])


@cached(256)
def twiddles(r: int, m: int, dtype: str) -> tuple[Table, Table]:
    """exp(2πi j p / (r m)) for j < r, p < m, as cosines and sines."""
    return _fixed(circle(np.outer(np.arange(r), np.arange(m)), r * m), dtype)


@cached(64)
def chirp(n: int, dtype: str) -> tuple[Table, Table]:
    """exp(πi t² / n) for t < n: the square is reduced modulo 2n before it is rounded."""
    t = np.arange(n, dtype=np.int64)
    return _fixed(circle(t * t, 2 * n), dtype)


@cached(64)
def chirp_spectrum(n: int, length: int, sign: int, dtype: str) -> tuple[Table, Table]:
    """The transform of the kernel of Bluestein's convolution, padded to `length` and divided by it."""
    c, s = circle(np.arange(n, dtype=np.int64) ** 2, 2 * n)
    kernel = np.zeros(length, complex)
    kernel[:n] = c - sign * 1j * s
    kernel[length - n + 1 :] = kernel[1:n][::-1]
    spectrum = np.fft.fft(kernel) / length
    return _fixed((spectrum.real, spectrum.imag), dtype)


def _fixed(tables: tuple[Table, Table], dtype: str) -> tuple[Table, Table]:
    return fixed(tables[0], dtype), fixed(tables[1], dtype)


def fixed(table: Table, dtype: Any) -> Table:
    """Make a read-only copy, which exported C contains as a constant."""
    made = np.array(table, dtype, order="C")
    made.setflags(write=False)
    return made
