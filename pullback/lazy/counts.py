"""Activity counters of lazy arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

__all__ = ["COUNTS", "Stats", "stats"]


@dataclass
class Stats:
    """Counters since the process began; subtract two to measure an interval.

    Attributes:
        pieces: straight pieces known by their structure.
        found: how often a wanted piece was already known.
        compiled: kernels whose C was compiled, or found on disk.
        kernels: calls of kernels.
        interpreted: kernel calls that the interpreter ran.
        foreign: calls of operations in Python (`lazy.Foreign`).
        live_bytes: bytes that tapes hold for future backward passes.
        tapes: tapes that wait for one.
    Cost:
        Every run counts; a difference takes a microsecond.
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
    """The counters of lazy arrays in this process so far.

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
