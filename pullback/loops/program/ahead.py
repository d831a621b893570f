"""Statements of the loop IR for work that goes on beside others: copies, and tensor cores.

Their plain meaning is that all is done at once: `EndBatch`, `Wait` and `Finish` do nothing.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

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

    With `together`, instructions of several warps read them.
    """

    runs: tuple[Run, ...]
    pending: int
    together: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Finish:
    """The end of the multiplications of several warps, of `panels` panels; then sums can be used."""

    sums: Buffer
    tile: WarpTile
    panels: int


Instruction = Literal["mma", "wgmma", "tcgen05"]
"""The instruction of tensor cores: of a warp, of four warps, or of one thread for its group, with sums apart."""


class WarpTile(NamedTuple):
    """The sums of a warp: `rows` times 16 rows, `columns` times 8 columns. A panel has `depth` terms.

    Thread t of a warp has these sums of a block of 16 × 8: rows t div 4 and t div 4 + 8, columns 2 (t mod 4) and the
    next one. Warps lie row by row, `across` in a row. With "wgmma" four warps are one.

    With "tcgen05" warps lie column by column, four in a column, and a thread has all columns of row t.
    """

    rows: int
    columns: int
    across: int
    depth: int
    instruction: Instruction = "mma"

    @property
    def together(self) -> bool:
        """Whether warps multiply together, while others go on."""
        return self.instruction != "mma"
