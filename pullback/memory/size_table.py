"""Memory tables with open dims: the tables of `f.memory`, with sizes as formulas in the dims."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pullback.ir.index import Index
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import Function
from pullback.loops.program.values import Buffer
from pullback.tables import Rows, Tables


@dataclass(frozen=True)
class SizeRow:
    """A buffer: its name, shape, bytes in terms of the dims, and place."""

    name: str
    dims: str
    bytes: Index
    space: str


@dataclass(frozen=True, repr=False)
class SizeTable(Tables):
    """The memory of a program for all sizes: one row per buffer. Inputs and outputs are not in the arena.

    Buffers in one slot live at different times. `peak` is the size of the arena as a formula. `peak_bytes` evaluates it
    for given dims.

    >>> import pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def outer(x: Float64[Array, "N"]):
    ...     return pb.build((x.shape[0], x.shape[0]), lambda i, j: x[i] * x[j])
    >>> print(outer.memory())
    statement  dims       bytes      where
    ---------  ---------  ---------  ------
    x          f64[N]     8 * N      input
    out        f64[N, N]  8 * N * N  output
    peak 0 bytes in the arena
    """

    program: str
    rows: tuple[SizeRow, ...]
    plan: MemoryPlan

    @property
    def peak(self) -> str:
        """The size of the arena as a formula in the dims, before slots are aligned to 64 bytes."""
        return self.plan.formula

    def peak_bytes(self, **dims: int) -> int:
        """The size of the arena for these dims; all open dims are required."""
        return self.plan.bytes_at(dims)

    def _parts(self) -> list[str | tuple[Rows, Collection[int]]]:
        rows = [("statement", "dims", "bytes", "where"), *((r.name, r.dims, str(r.bytes), r.space) for r in self.rows)]
        return [(rows, ()), f"peak {self.peak} bytes in the arena"]


def size_table(function: Function, memory: MemoryPlan) -> SizeTable:
    """The table of a planned function with open dims."""
    rows = [*_rows(function.given, "input"), *_rows(function.outputs, "output")]
    rows += _rows(tuple(function.constants), "constant")
    for b, offset in memory.offsets.items():
        rows += _rows((b,), f"arena + {offset:,}")
    for k, slot in enumerate(memory.slots):
        rows += _rows(slot.buffers, f"slot {k}")
    return SizeTable(function.name, tuple(rows), memory)


def _rows(buffers: Sequence[Buffer], space: str) -> list[SizeRow]:
    return [SizeRow(b.name, f"{b.dtype.name}[{', '.join(map(str, b.shape))}]", b.elements * b.dtype.size, space)
            for b in buffers]
