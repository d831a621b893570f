"""Statements of the loop IR for work that goes on beside others: copies, and tensor cores.

Their plain meaning is that all is done at once: `EndBatch`, `Wait` and `Finish` do nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from pullback.ir.index import Index
from pullback.loops.program.values import Buffer, Value, View
from pullback.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """`count` elements of a buffer from `offset` on."""

    buffer: Buffer
    offset: Index
    count: Index


@dataclass(frozen=True, eq=False, slots=True)
class Prefetch:
    """A copy of `count` elements to shared memory, or zeros if a test fails.

    A device may do it at any time until a `Wait` of the thread.
    """

    target: View
    source: View
    count: int
    test: Value | None = None


@dataclass(frozen=True, eq=False, slots=True)
class EndBatch:
    """The end of a batch of prefetches of a thread, which may be empty."""


@dataclass(frozen=True, eq=False, slots=True)
class Wait:
    """The end of the prefetches of a thread, except its last `pending` batches; they are in these runs.

    With `together`, instructions of four warps read them.
    """

    runs: tuple[Run, ...]
    pending: int
    together: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Finish:
    """The end of the multiplications of four warps, whose sums can be used then."""

    sums: Buffer


class WarpTile(NamedTuple):
    """The sums of a warp: `rows` times 16 rows, `columns` times 8 columns.

    Thread t of a warp has these sums of a block of 16 × 8: rows t div 4 and t div 4 + 8, columns 2 (t mod 4) and the
    next one. Warps lie row by row, `across` in a row. A panel has `depth` terms. With `together` four warps are one.
    """

    rows: int
    columns: int
    across: int
    depth: int
    together: bool = False
