"""Activity counters of lazy arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

__all__ = ["COUNTS", "Stats", "stats"]


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
    return replace(COUNTS)
