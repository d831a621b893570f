"""The memory plan: lifetimes of arena buffers over a loop program, and one arena with static offsets.

A buffer lives from its first to its last mention, in the order in which statements run once; a buffer mentioned
in a loop and outside it lives through the whole loop, and so does one that a trip reads before it writes it.
Offsets are found largest first: each buffer goes to the lowest gap, aligned to 64 bytes, that is free throughout
its life. `MemoryTable` is what `f.memory` shows.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field

from pullback.ir.index import as_index
from pullback.loops import nodes
from pullback.loops.nodes import Buffer, Call, Copy, Fill, For, Function, Gather, If, Load, Loop, Stmt, Store, StoreRows
from pullback.loops.slots import ALIGNMENT, Slot, share_slots


@dataclass(frozen=True, eq=False)
class MemoryPlan:
    """Offsets of arena buffers and the size of the arena; `lives` are first and last moment of each.

    Buffers whose sizes are known when the program runs are in `slots`, behind the `bytes` of all others.
    """

    offsets: dict[Buffer, int]
    bytes: int
    lives: dict[Buffer, tuple[int, int]]
    moments: int
    slots: tuple[Slot, ...] = ()

    def bytes_at(self, dims: Mapping[str, int]) -> int:
        """The size of the arena for these dims."""
        return self.bytes + sum(slot.aligned_bytes(dims) for slot in self.slots)

    @property
    def formula(self) -> str:
        """The size of the arena in terms of the dims, but for what aligns each slot to 64 bytes."""
        parts = [f"max({', '.join(map(str, s.sizes))})" for s in self.slots if len(s.sizes) > 1]
        rest = sum((s.sizes[0] for s in self.slots if len(s.sizes) == 1), as_index(self.bytes))
        return " + ".join([*parts, *([str(rest)] if rest.terms or not parts else [])])


@dataclass
class Lifetimes:
    """First and last moment of each arena buffer; a moment is a statement of the walk."""

    lives: dict[Buffer, tuple[int, int]] = field(default_factory=dict)
    now: int = 0
    open: list[int] = field(default_factory=list)  # the first moments of the loops around the present one
    inside: dict[Buffer, tuple[int, ...]] = field(default_factory=dict)  # those around a buffer's first mention

    def body(self, statements: tuple[Stmt, ...]) -> None:
        """Walk a list of statements."""
        for s in statements:
            self.now += 1
            match s:
                case For() | Loop():
                    self._touch(s)
                    self._loop(s.body)
                case If():
                    self._touch(s)
                    self.body(s.then)
                    self.body(s.otherwise)
                case _:
                    self._touch(s)

    def _loop(self, body: tuple[Stmt, ...]) -> None:
        before = set(self.lives)
        start = self.now
        self.open.append(start)
        self.body(body)
        self.open.pop()
        self.now += 1
        inside = [b for b, (_, last) in self.lives.items() if last > start]
        carried = read_before_written(body)
        for b in inside:
            first, _ = self.lives[b]
            if b in before or b in carried:
                self.lives[b] = (min(first, start), self.now)

    def _touch(self, s: Stmt) -> None:
        for b in mentioned(s):
            if b.space == "arena":
                first = self.lives.get(b, (self.now, 0))[0]
                around = self.inside.setdefault(b, tuple(self.open))
                depth = next((k for k, (x, y) in enumerate(zip(around, self.open, strict=False)) if x != y),
                             min(len(around), len(self.open)))
                if depth < len(around):  # mentioned after the loop that filled it: later trips must not clobber it
                    first = min(first, around[depth])
                    self.inside[b] = around[:depth]
                self.lives[b] = (first, self.now)


def mentioned(s: Stmt) -> list[Buffer]:
    """The buffers a statement itself reads or writes."""
    reads, writes = accesses(s)
    return [*reads, *writes]


def accesses(s: Stmt) -> tuple[list[Buffer], list[Buffer]]:
    """Buffers a statement itself reads, and those it writes; working memory of a kernel counts as written."""
    reads: list[Buffer] = []
    writes: list[Buffer] = []
    match s:
        case Copy():
            reads.append(s.source.buffer)
            writes.append(s.target.buffer)
        case Fill():
            writes.append(s.buffer)
        case Store() | StoreRows():
            writes.append(s.buffer)
        case Call():
            used = read_parameters(s.kernel)
            for p, a in zip(s.kernel.params, s.arguments, strict=True):
                if p in used and p not in s.kernel.scratch:
                    reads.append(a.buffer)
                if p.written:
                    writes.append(a.buffer)
        case _:
            pass
    for v in nodes.values_of(s):
        reads += [n.buffer for n in nodes.walk_value(v) if isinstance(n, Load | Gather)]
    return reads, writes


def read_parameters(kernel: nodes.Kernel) -> set[Buffer]:
    """Parameters a kernel loads from."""
    out: set[Buffer] = set()
    for s in nodes.walk(kernel.body):
        for v in nodes.values_of(s):
            out.update(n.buffer for n in nodes.walk_value(v) if isinstance(n, Load | Gather))
        if isinstance(s, Copy):
            out.add(s.source.buffer)
        if isinstance(s, Call):
            used = read_parameters(s.kernel)
            out.update(a.buffer for p, a in zip(s.kernel.params, s.arguments, strict=True) if p in used)
    return out


def read_before_written(body: tuple[Stmt, ...]) -> set[Buffer]:
    """Buffers whose first mention in a loop body may be a read, so that they carry a value from trip to trip."""
    written: set[Buffer] = set()
    found: set[Buffer] = set()
    for s in nodes.walk(body):
        reads, writes = accesses(s)
        found.update(b for b in reads if b not in written)
        written.update(writes)
    return found


def plan(function: Function) -> MemoryPlan:
    """Offsets for the arena buffers of a function.

    Only buffers of one element type share memory: gcc reorders accesses of different types to the same bytes, also
    through memcpy, where C would let the type of allocated memory change.
    """
    walk = Lifetimes()
    walk.body(function.body)
    slots = share_slots({b: life for b, life in walk.lives.items() if b.elements.constant is None},
                        function.needs)
    lives = {b: life for b, life in walk.lives.items() if b.elements.constant is not None}
    order = {b: k for k, b in enumerate(lives)}
    offsets: dict[Buffer, int] = {}
    placed: list[tuple[int, int, int, int, str]] = []  # offset, end, first, last, element type; sorted by offset
    size = 0
    for b in sorted(lives, key=lambda b: (-b.bytes, order[b])):
        first, last = lives[b]
        need = -(-max(b.bytes, 1) // ALIGNMENT) * ALIGNMENT
        offset = 0
        for start, end, f, l, dtype in placed:
            if (f <= last and first <= l) or dtype != b.dtype.name:
                if start - offset >= need:
                    break
                offset = max(offset, end)
        offsets[b] = offset
        insort(placed, (offset, offset + need, first, last, b.dtype.name))
        size = max(size, offset + need)
    return MemoryPlan({b: offsets[b] for b in lives}, size, walk.lives, walk.now, slots)


# The table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryRow:
    """One buffer: what it is called, its shape and size, whether it is in the arena and where, and when it lives."""

    name: str
    dims: str
    bytes: int
    space: str
    offset: int | None
    first: int
    last: int
    live: int


@dataclass(frozen=True)
class MemoryTable:
    """The memory of a program: one row per buffer, inputs and outputs apart from the arena.

    `live` of a row is the number of arena bytes alive when the buffer is first written.
    """

    program: str
    rows: tuple[MemoryRow, ...]
    peak_bytes: int

    @property
    def input_bytes(self) -> int:
        """Bytes of all inputs."""
        return sum(r.bytes for r in self.rows if r.space == "input")

    @property
    def output_bytes(self) -> int:
        """Bytes of all outputs."""
        return sum(r.bytes for r in self.rows if r.space == "output")

    def __str__(self) -> str:
        head = ("statement", "dims", "bytes", "where", "live")
        cells = [(r.name, r.dims, f"{r.bytes:,}", r.space if r.offset is None else f"arena + {r.offset:,}",
                  "" if r.offset is None else f"{r.live:,}") for r in self.rows]
        widths = [max(len(row[k]) for row in [head, *cells]) for k in range(len(head))]
        right = (False, False, True, False, True)
        lines = ["  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)).rstrip()
                 for row in [head, *cells]]
        lines.insert(1, "  ".join("-" * w for w in widths))
        lines.append(f"peak {self.peak_bytes:,} bytes in the arena; inputs {self.input_bytes:,}, "
                     f"outputs {self.output_bytes:,}")
        return "\n".join(lines)


def memory_table(function: Function, memory: MemoryPlan) -> MemoryTable:
    """The table of a planned function."""
    rows = []
    for space, buffers in (("input", function.inputs), ("output", function.outputs)):
        rows += [MemoryRow(b.name, _dims(b), b.bytes, space, None, 0, memory.moments, 0) for b in buffers]
    for b, offset in memory.offsets.items():
        first, last = memory.lives[b]
        live = sum(o.bytes for o, (f, l) in memory.lives.items() if f <= first <= l)
        rows.append(MemoryRow(b.name, _dims(b), b.bytes, "arena", offset, first, last, live))
    return MemoryTable(function.name, tuple(rows), memory.bytes)


def _dims(b: Buffer) -> str:
    return f"{b.dtype.name}[{', '.join(str(d) for d in b.shape)}]"
