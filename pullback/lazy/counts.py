"""Activity counters of lazy arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Final

from pullback.state import registered

__all__ = ["COUNTS", "FURTHER", "Stats", "stats"]


@dataclass
class Stats:
    """Counters since the process started; subtract two to measure an interval.

    Attributes:
        pieces: the number of pieces with distinct structures.
        found: the number of piece lookups that found an existing piece.
        compiled: the number of kernels compiled or loaded from disk.
        kernels: the number of kernel calls.
        interpreted: the number of kernel calls that the interpreter ran.
        foreign: the number of calls of Python operations (`lazy.Foreign`).
        live_bytes: the bytes that tapes hold for future backward passes.
        tapes: the number of tapes that wait for a backward pass.
    Cost:
        A microsecond for a difference.
    """

    pieces: int = 0
    found: int = 0
    compiled: int = 0
    kernels: int = 0
    interpreted: int = 0
    foreign: int = 0
    live_bytes: int = 0
    tapes: int = 0

    def __sub__(self, other: Stats) -> Stats:
        return Stats(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))


COUNTS = Stats()
FURTHER: Final[list[Callable[[], int]]] = registered([], 1, stays="with the process")  # calls in C since it was asked


def stats() -> Stats:
    """Return the counters of lazy arrays in this process so far.

    Cost:
        A microsecond.

    >>> from pullback import lazy
    >>> before = lazy.stats()
    >>> x = lazy.asarray([1.0, 2.0]) + 1.0
    >>> (lazy.stats() - before).kernels
    0
    >>> float(x[0]), (lazy.stats() - before).kernels
    (2.0, 1)
    """
    for ask in FURTHER:
        calls = ask()
        COUNTS.found += calls
        COUNTS.kernels += calls
    return replace(COUNTS)
