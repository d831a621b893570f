"""Swap plans: what to move out of memory, and when to bring it back, within a byte limit.

The moves are those of `loops.memory.swapping`, by the names of statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.memory.swapping import moves_within
from pullback.loops.program.nodes import Function
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


def swap_plan(function: Function, memory: MemoryPlan, names: Mapping[int, str], limit: int) -> SwapPlan:
    """The moves that keep a planned function within `limit` bytes, as far as possible.

    Args:
        names: the names of statements by moment.
    """
    chosen, most, peak = moves_within(function, memory, limit)
    moments = sorted(names)
    moves = [
        Move(b.name, b.bytes, _name(names, moments, first - 1), names[last + 1], (first, last))
        for b, first, last in sorted(chosen, key=lambda g: (g.first, g.buffer.name))
    ]
    return SwapPlan(limit, most, peak, tuple(moves))


def _name(names: Mapping[int, str], moments: Sequence[int], t: int) -> str:
    """The name of the statement that ends at a moment."""
    return names[max(m for m in moments if m <= t)]
