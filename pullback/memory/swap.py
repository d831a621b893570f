"""Swap plans: what to move out of memory, and when to bring it back, within a byte limit.

    a = ..      a is read again only after d:      a = ..   out a
    b = .. a                                       b = .. a
    c = .. b                                       c = .. b
    d = .. c                                       d = .. c   in a
    e = .. a, d                                    e = .. a, d

All uses of an array are known before the program runs, and so is the array with the longest idle time. If more bytes
are alive than the limit allows, the array whose next use is farthest away leaves first (Belady, A study of replacement
algorithms for a virtual-storage computer, 1966). An array that a loop uses stays for the whole loop. The plan covers
arrays of the arena; arguments and results do not move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pullback.loops.memory.plan import Lifetimes, MemoryPlan, mentioned
from pullback.loops.program.nodes import Function
from pullback.loops.program.values import Buffer
from pullback.tables import text_table


class Move(NamedTuple):
    """One move: an array leaves after one statement and returns before another.

    Attributes:
        out_after, in_before: the names of the two statements.
        away: the first and the last moment without the array; each statement, also in loops, is a moment.
    """

    array: str
    bytes: int
    out_after: str
    in_before: str
    away: tuple[int, int]


@dataclass(frozen=True)
class SwapPlan:
    """The arrays to move out of memory and back, in the order of leaving.

    Attributes:
        limit: the requested limit in bytes.
        live_bytes: the most bytes alive at once without moves.   peak_bytes: the same with moves.
        moves: the moves, with their moments.
    """

    limit: int
    live_bytes: int
    peak_bytes: int
    moves: tuple[Move, ...]

    @property
    def fits(self) -> bool:
        """Whether the plan keeps the limit; a single statement may need more."""
        return self.peak_bytes <= self.limit

    @property
    def moved_bytes(self) -> int:
        """The bytes moved, both out and in."""
        return 2 * sum(m.bytes for m in self.moves)

    def __str__(self) -> str:
        rows = [("array", "bytes", "out after", "in before")]
        rows += [(m.array, f"{m.bytes:,}", m.out_after, m.in_before) for m in self.moves]
        kept = "" if self.fits else ": it cannot be kept, as a statement alone needs more"
        table = text_table(rows, (1,)) if self.moves else []
        foot = f"{self.live_bytes:,} bytes alive at once become {self.peak_bytes:,}; "
        foot += f"{self.moved_bytes:,} bytes are moved"
        return "\n".join([f"limit {self.limit:,} bytes{kept}", *table, foot])

    def __repr__(self) -> str:
        return str(self)


class _Gap(NamedTuple):
    """The moments between two uses of a buffer: the first and the last of them."""

    buffer: Buffer
    first: int
    last: int


def swap_plan(function: Function, memory: MemoryPlan, names: Mapping[int, str], limit: int) -> SwapPlan:
    """The moves that keep a planned function within `limit` bytes, as far as possible.

    Args:
        names: the names of statements by moment.
    """
    lives = {b: life for b, life in memory.lives.items() if b in memory.offsets}
    live = [0] * (memory.moments + 2)
    for b, (first, last) in lives.items():
        for t in range(first, last + 1):
            live[t] += b.bytes
    most = max(live)
    gaps = list(_gaps(function, lives))
    chosen: list[_Gap] = []
    for t in range(len(live)):
        while live[t] > limit:
            fitting = [g for g in gaps if g.first <= t <= g.last]
            if not fitting:
                break
            best = max(fitting, key=lambda g: (g.last, g.buffer.bytes, -g.first))
            gaps.remove(best)
            chosen.append(best)
            for k in range(best.first, best.last + 1):
                live[k] -= best.buffer.bytes
    moments = sorted(names)
    moves = [
        Move(b.name, b.bytes, _name(names, moments, first - 1), names[last + 1], (first, last))
        for b, first, last in sorted(chosen, key=lambda g: (g.first, g.buffer.name))
    ]
    return SwapPlan(limit, most, max(live), tuple(moves))


def _name(names: Mapping[int, str], moments: Sequence[int], t: int) -> str:
    """The name of the statement that ends at a moment."""
    return names[max(m for m in moments if m <= t)]


def _gaps(function: Function, lives: Mapping[Buffer, tuple[int, int]]) -> Iterator[_Gap]:
    """The gaps in which buffers are alive and no statement uses them."""
    ended: dict[Buffer, int] = {}  # the end of the last statement that used it
    for first, last, used in _mentions(function):
        for b in used & lives.keys():
            before = ended.get(b)
            if before is not None and before + 1 < first:
                yield _Gap(b, before + 1, first - 1)
            ended[b] = last


def _mentions(function: Function) -> Iterator[tuple[int, int, set[Buffer]]]:
    """For each top-level statement, its first and last moment, and the buffers that it uses."""
    walk = Lifetimes()
    walk.body(function.body)
    start, used = 0, set[Buffer]()
    for now, depth, s in walk.timeline:
        if depth == 0:
            if start:
                yield start, now - 1, used
            start, used = now, set()
        used.update(mentioned(s))
    if start:
        yield start, walk.now, used
