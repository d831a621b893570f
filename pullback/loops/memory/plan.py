"""The memory plan: lifetimes of arena buffers in a loop program, and static offsets in one arena.

A buffer lives from its first to its last mention, in the order in which statements run once. A buffer mentioned in a
loop and outside it lives through the whole loop. So does a buffer that a trip reads before it writes it. Offsets are
found largest first: each buffer goes to the lowest gap, aligned to 64 bytes, that is free throughout its life.
`memory_table` shows the plan.

Buffers of a few elements that loops of the function use, such as the state of a small system, are not in the arena.
They are local arrays of the function, which the C compiler keeps in registers.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from pullback.ir.index import as_index
from pullback.ir.types import i8, u8
from pullback.loops.analysis.first_reads import first_reads
from pullback.loops.memory.slots import ALIGNMENT, Slot, share_slots
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Call, Comment, For, Function, If, Loop, Parallel, Stmt
from pullback.loops.program.values import STACK_LIMIT, Buffer
from pullback.records import dataclass, field
from pullback.state import weakly_cached

SPACES: Final = ("arena", "swap", "worker")  # in the order in which they lie
FEW = 8  # most elements of a buffer that may be a local array
NEAR = 50  # a plan within 1 / n of the live bytes is good enough
TRIES, MANY = 12, 400  # placements tried for each order; a single one for more buffers than this


@dataclass(frozen=True, eq=False)
class MemoryPlan:
    """Offsets of arena buffers and the size of the arena; `lives` are first and last moment of each.

    The last `worker_bytes` of the `bytes` belong to one worker; each further worker needs as much again behind them.
    Buffers whose sizes are known only at run time are in `slots`, between all other bytes and those of workers. Buffers
    in `local` are local arrays and take nothing of the arena. Copies alone touch the `swap_bytes` before those of the
    worker.
    """

    offsets: dict[Buffer, int]
    bytes: int
    lives: dict[Buffer, tuple[int, int]]
    moments: int
    slots: tuple[Slot, ...] = ()
    worker_bytes: int = 0
    local: tuple[Buffer, ...] = ()
    swap_bytes: int = 0

    @property
    def resident_bytes(self) -> int:
        """The bytes that statements use; the others may lie in a file."""
        return self.bytes - self.swap_bytes

    @property
    def shared_bytes(self) -> int:
        """The bytes with static offsets that belong to no worker; slots begin behind them."""
        return self.bytes - self.worker_bytes

    def bytes_at(self, dims: Mapping[str, int]) -> int:
        """The size of the arena for these dims."""
        return self.bytes + sum(slot.aligned_bytes(dims) for slot in self.slots)

    @property
    def formula(self) -> str:
        """The size of the arena in the dims, before slots are aligned to 64 bytes."""
        parts = [f"max({', '.join(map(str, s.sizes))})" for s in self.slots if len(s.sizes) > 1]
        rest = sum((s.sizes[0] for s in self.slots if len(s.sizes) == 1), as_index(self.bytes))
        return " + ".join([*parts, *([str(rest)] if rest.terms or not parts else [])])

    @property
    def peak(self) -> int:
        """The resident bytes up to the last buffer's end: the arena before rounding."""
        return max((o + b.bytes for b, o in self.resident.items()), default=0)

    @property
    def resident(self) -> dict[Buffer, int]:
        """The offsets as if there were no swap."""
        before = {"worker": self.swap_bytes}
        return {b: o - before.get(b.space, 0) for b, o in self.offsets.items() if b.space != "swap"}


@dataclass
class Lifetimes:
    """First and last moment of each arena buffer; a moment is a statement of the walk, comments left out."""

    lives: dict[Buffer, tuple[int, int]] = field(default_factory=dict)
    now: int = 0
    open: list[int] = field(default_factory=list)  # the first moments of the loops around the present one
    inside: dict[Buffer, tuple[int, ...]] = field(default_factory=dict)  # the loops around a buffer's first mention
    timeline: list[tuple[int, int, Stmt]] = field(default_factory=list)  # moment, depth, statement
    depth: int = -1

    def body(self, statements: tuple[Stmt, ...]) -> None:
        """Walk a list of statements."""
        self.depth += 1
        for s in statements:
            self.now += not isinstance(s, Comment)  # the plan is the same for C without comments
            self.timeline.append((self.now, self.depth, s))
            self._touch(s)
            if isinstance(s, For | Loop):
                self._loop(s.body)
            elif isinstance(s, If):
                self.body(s.then)
                self.body(s.otherwise)
        self.depth -= 1

    def _loop(self, body: tuple[Stmt, ...]) -> None:
        before = set(self.lives)
        start = self.now
        self.open.append(start)
        self.body(body)
        self.open.pop()
        self.now += 1
        inside = [b for b, (_, last) in self.lives.items() if last > start]
        carried = first_reads(body, {})
        for b in inside:
            first, _ = self.lives[b]
            if b in before or b in carried:
                self.lives[b] = (min(first, start), self.now)

    def _touch(self, s: Stmt) -> None:
        for b in mentioned(s):
            if b.space in SPACES:
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
    reads, writes = uses(s)
    return [*reads, *writes]


def uses(s: Stmt) -> tuple[list[Buffer], list[Buffer]]:
    """The buffers a statement itself reads, and those it writes; kernel scratch counts as written."""
    reads, writes = ([a.buffer for a in nodes.accesses(s) if a.write is write] for write in (False, True))
    match s:
        case Call():
            used = read_parameters(s.kernel)
            for p, a in zip(s.kernel.params, s.arguments, strict=True):
                if p in used and p not in s.kernel.scratch and p not in s.kernel.fresh:
                    reads.append(a.buffer)
                if p.written:
                    writes.append(a.buffer)
        case Parallel():
            for t in s.tasks:
                more, changed = uses(t.call)
                reads += more
                writes += changed
        case _:
            pass
    return reads, writes


@weakly_cached
def read_parameters(kernel: nodes.Kernel) -> frozenset[Buffer]:
    """Parameters a kernel loads from."""
    return frozenset(b for s in nodes.walk(kernel.body) for b in uses(s)[0])


def plan(function: Function) -> MemoryPlan:
    """Place a function's arena buffers: of several placement orders, the one that needs least memory."""
    walk = Lifetimes()
    walk.body(function.body)
    local = _local(function)
    lives = {b: life for b, life in walk.lives.items() if b not in local}
    slots = share_slots({b: life for b, life in lives.items() if b.elements.constant is None}, function.needs)
    known = {b: life for b, life in lives.items() if b.elements.constant is not None}
    offsets: dict[Buffer, int] = {}
    sizes: list[int] = []
    for space in SPACES:
        own, size = _best_places({b: life for b, life in known.items() if b.space == space})
        offsets |= {b: sum(sizes) + offset for b, offset in own.items()}
        sizes.append(size)
    _, away, each = sizes
    return MemoryPlan({b: offsets[b] for b in known}, sum(sizes), lives, walk.now, slots, each, tuple(local), away)


def _local(function: Function) -> dict[Buffer, None]:
    """Arena buffers of a few elements used in loops, as many as fit on the stack."""
    used: dict[Buffer, None] = {}
    shared: set[Buffer] = set()
    for s in nodes.walk(function.body):
        if isinstance(s, Parallel):
            shared.update(mentioned(s))
        elif isinstance(s, For | Loop):
            used |= dict.fromkeys(b for x in nodes.walk(s.body) for b in mentioned(x))
    room = STACK_LIMIT
    found: dict[Buffer, None] = {}
    for b in used:
        if b.space == "arena" and (b.elements.constant or FEW + 1) <= FEW and b not in shared and b.bytes <= room:
            found[b] = None
            room -= b.bytes
    return found


def _best_places(lives: Mapping[Buffer, tuple[int, int]]) -> tuple[dict[Buffer, int], int]:
    """Offsets for buffers with these lifetimes, and the bytes they need."""
    order = {b: k for k, b in enumerate(lives)}
    room = {b: _room(b) for b in lives}
    most = max((sum([room[b] for b in alive]) for alive in _alive_together(lives)), default=0)
    enough = most + most // NEAR
    urgencies: list[Callable[[Buffer], int]] = [
        lambda b: b.bytes, lambda b: b.bytes * (lives[b][1] - lives[b][0]), lambda b: -lives[b][0]]
    best: dict[Buffer, int] = {}
    size = -1
    for urgency in urgencies:
        queue = sorted(lives, key=lambda b: (-urgency(b), order[b]))
        for _ in range(TRIES if len(queue) <= MANY else 1):
            offsets = _placed(queue, lives, room)
            needed = max((o + room[b] for b, o in offsets.items()), default=0)
            if size < 0 or needed < size:
                best, size = offsets, needed
            if size <= enough:
                return best, size
            top = max(queue, key=lambda b: offsets[b] + room[b])  # it blocks a smaller arena, so it is placed earlier
            queue.remove(top)
            queue.insert(0, top)
    return best, size


def _room(b: Buffer) -> int:
    """The bytes a buffer takes, up to where the next may begin."""
    return -(-max(b.bytes, 1) // ALIGNMENT) * ALIGNMENT


def _alive_together(lives: Mapping[Buffer, tuple[int, int]]) -> Iterator[list[Buffer]]:
    """The buffers alive at each moment when a buffer's life begins."""
    alive: list[Buffer] = []
    for b in sorted(lives, key=lambda b: lives[b][0]):
        alive = [o for o in alive if lives[o][1] >= lives[b][0]]
        alive.append(b)
        yield alive


def _placed(buffers: Sequence[Buffer], lives: Mapping[Buffer, tuple[int, int]], room: Mapping[Buffer, int]
            ) -> dict[Buffer, int]:
    """Offsets for buffers placed in this order, each in the lowest gap that is free throughout its life.

    Only buffers of one element type share memory, and bytes with any: gcc reorders accesses of different types to the
    same memory, also through memcpy, where C would let the type of allocated memory change.
    """
    offsets: dict[Buffer, int] = {}
    taken: list[tuple[int, int, int, int, str]] = []  # offset, end, first, last, element type; sorted by offset
    for b in buffers:
        first, last = lives[b]
        need = room[b]
        kind = _kind(b)
        offset = 0
        for start, end, f, l, other in taken:
            if (f <= last and first <= l) or (other != kind and kind and other):
                if start - offset >= need:
                    break
                if end > offset:
                    offset = end
        offsets[b] = offset
        insort(taken, (offset, offset + need, first, last, kind))
    return offsets


def _kind(b: Buffer) -> str:
    """The aliasing kind: buffers of one kind may share memory; kind "" (characters) with all."""
    return "" if b.dtype in (u8, i8) else b.dtype.name
