"""Loops of the function as one kernel, which runs everything inside them in one group of threads.

    for t:  launch n, m: h2[n] = f(sum m: w[n, m] h[m]);  copy h = h2
    -->  one group:  for t:  thread n: h2[n] = ..;  (threads meet)  thread n: h[n] = h2[n];  (threads meet)

Each thread takes every T-th element of a kernel. A kernel that consists of launches, such as a tree, runs
their groups one after another, or plain loops, whichever is cheaper. All threads read the condition of a loop or a
branch after a barrier. The host repeats launches where the estimate says so, as for arrays that are too large for one
group. Independent rows of all arrays, such as the sequences of a batch, have a group each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pullback.device import Device
from pullback.grid.checks import has_checks, is_read, variables_read
from pullback.grid.estimates import launches, steps, trips
from pullback.grid.parts import Part, iteration, parts_of, zeros
from pullback.grid.spread import is_launched
from pullback.grid.steps import Alone, Grid, Repeat, Threads, When, group_loop, thread_loop
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index
from pullback.loops.analysis.first_reads import first_reads
from pullback.loops.analysis.footprint import Footprint, written
from pullback.loops.analysis.intervals import ENDLESS, interval_of
from pullback.loops.plain.builder import free_variables
from pullback.loops.plain.candidates import Declined
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Break, Call, Comment, Copy, Fill, For, If, Kernel, LetIndex, Loop, Stmt, Store
from pullback.loops.program.replacement import Replacement
from pullback.loops.program.schedule import Chosen, Fuse, Schedule, Step
from pullback.loops.program.values import LOCAL, Buffer, Load, View, scalar

OPERANDS: Final = 8.0  # the multiply-adds that a multiprocessor could begin while a step waits for its operands
MOST: Final = 512  # most threads of a group: each then has 128 registers


def in_one_group(s: For | Loop | If, device: Device) -> Call | None:
    """Return a call of one kernel for a loop or a branch; None if the host has to launch its parts."""
    try:
        group = _OneGroup(s, device)
    except Declined:
        return None
    found = [*_rows(group), *([group] if group.cycles <= group.apart else [])]
    for g in sorted(found, key=lambda g: g.cycles):
        try:
            return g.call()
        except Declined:
            continue
    return None


def _rows(whole: _OneGroup) -> Iterator[_OneGroup]:
    """The kernels with a group for each row of independent work, such as a sequence of a batch."""
    calls = [s for s in nodes.walk(whole.body) if isinstance(s, Call)]
    counts = [{n for _, _, n in p.loops} for s in calls for p in whole.parts(s)]
    for n in sorted(set.intersection(*counts)) if counts else ():
        for last in (False, True):
            try:
                g = _OneGroup(whole.statement, whole.device, Var("row", as_index(n)), last)
                if g.cycles < min(whole.cycles, whole.apart):
                    yield g
            except Declined:
                continue


def copied(s: Copy) -> Stmt:
    """A copy as a loop over its elements."""
    v = Var("k", s.count)
    element = Load(s.source.buffer, s.source.offset + as_index(v), scalar(s.source.buffer.dtype))
    store = Store(s.target.buffer, s.target.offset + as_index(v), element)
    return For(v, ZERO_INDEX, s.count, (store,), independent=True)


@dataclass
class _OneGroup:
    """A builder of a kernel with one group."""

    statement: For | Loop | If
    device: Device
    row: Var | None = None  # with a row for each group
    last: bool = False  # whether the last axis of a size is that of rows; else the first one
    views: dict[Buffer, View] = field(default_factory=dict)  # the parameter of each buffer of the function
    local: dict[tuple[object, ...], Buffer] = field(default_factory=dict)  # shared memory that kernels use in turn

    def __post_init__(self) -> None:
        self.body = (self.statement,)
        self.written = written(self.body, {})
        if isinstance(self.statement, If) and _leaves(self.body):
            raise Declined
        for s in self._walk():
            if not isinstance(s, Call | Copy | Fill | For | Loop | If | Break | Comment):
                raise Declined
            if isinstance(s, Call) and not self._takes(s):
                raise Declined
        rounds = -(-(self.row.extent.constant or 1) // self.device.multiprocessors) if self.row else 1
        self.cycles = self.device.launch + rounds * self._inside(self.body)
        self.apart = self._outside(self.body)

    def _walk(self) -> Iterator[Stmt]:
        return nodes.walk(self.body)

    def _takes(self, s: Call) -> bool:
        """Whether a kernel can be part of another one: it sorts nothing, and no name has two meanings."""
        inside = list(nodes.walk((*s.kernel.body, *(s.kernel.portable or ()))))
        own = {x.var for x in inside if isinstance(x, For | LetIndex)}
        given = {v for i in nodes.statement_indices(s) for v in i.free if v not in s.kernel.indices}
        endless = any(isinstance(x, Loop) for x in self._walk())  # it might not end with what a failed check leaves
        refused = (*((nodes.Check,) if endless else ()), nodes.Procedure, nodes.StoreRows, nodes.Parallel)
        return own.isdisjoint(given) and not any(isinstance(x, refused) for x in inside)

    # Estimates --------------------------------------------------------------------------------------------------

    @cached_property
    def threads(self) -> int:
        """The number of threads for plain loops: one for each element of the largest kernel, up to a limit."""
        return min(MOST, max((p.total for s in self._walk() for p in self.parts(s)), default=1))

    def _inside(self, body: Sequence[Stmt]) -> float:
        """The cycles of statements in one group."""
        total = 0.0
        for s in body:
            match s:
                case Call():
                    total += min(self._plain(s), self._launched(s))
                case For() | Loop():
                    total += trips(s) * self._inside(s.body)
                case If():
                    total += self.device.serial + max(self._inside(s.then), self._inside(s.otherwise))
                case _:
                    total += sum(map(self._part, self.parts(s)))
        return total

    def _outside(self, body: Sequence[Stmt]) -> float:
        """The cycles of statements if the host launches each kernel."""
        total = 0.0
        for s in body:
            match s:
                case Call():
                    total += max(s.kernel.choice.cycles if s.kernel.choice else 0.0, self.device.launch)
                case For() | Loop():
                    total += trips(s) * self._outside(s.body)
                case If():
                    beside = max(launches(s.then), launches(s.otherwise)) * self.device.launch
                    total += min(self.device.look, beside) + max(self._outside(s.then), self._outside(s.otherwise))
                case Copy() | Fill():
                    total += self.device.launch
                case _:
                    pass
        return total

    def parts(self, s: Stmt) -> list[Part]:
        """The parts of a statement for one row, as plain loops; none if it has only launches."""
        return [self._of_row(p) for p in self._whole(s)]

    def _of_row(self, p: Part) -> Part:
        if self.row is None:
            return p
        n = self.row.extent.constant or 1
        places = [k for k, (_, _, trips) in enumerate(p.loops) if trips == n]
        if not places:
            (v, low, trips), *rest = p.loops or [(self.row, ZERO_INDEX, 1)]
            if rest or trips % n:
                raise Declined
            own = Var(v.name, as_index(trips // n))
            at = LetIndex(v, as_index(self.row) * own.extent + as_index(own) + low)
            return Part((at, *p.lets), [(own, ZERO_INDEX, trips // n)], p.body)
        k = places[-1 if self.last else 0]
        v, low, _ = p.loops[k]
        return Part((LetIndex(v, as_index(self.row) + low), *p.lets), p.loops[:k] + p.loops[k + 1 :], p.body)

    def _whole(self, s: Stmt) -> list[Part]:
        match s:
            case Call():
                k = s.kernel
                loops = k.portable if is_launched(k) else k.body
                return [] if loops is None else parts_of(loops, k)
            case Copy() | Fill():
                if not s.count.constant:
                    raise Declined
                loop = copied(s) if isinstance(s, Copy) else zeros(s)
                assert isinstance(loop, For)
                return [Part((), [(loop.var, ZERO_INDEX, s.count.constant)], loop.body)]
            case _:
                return []

    def _part(self, p: Part) -> float:
        """The cycles of a part: each thread is slow, and all wait for the memory of one multiprocessor."""
        each = sum(map(steps, (*p.lets, *p.body)))
        slow, wait = -(-p.total // self.threads) * self.device.serial, p.total * OPERANDS / self.device.single
        return each * max(slow, wait) + self.device.meeting

    def _plain(self, s: Call) -> float:
        parts = self.parts(s)
        return sum(map(self._part, parts)) if parts else float("inf")

    def _launched(self, s: Call) -> float:
        """The cycles of a kernel's launches if their groups run one after another."""
        if not is_launched(s.kernel) or self.row is not None:
            return float("inf")
        if any(isinstance(x, nodes.Multiply) for x in nodes.walk(s.kernel.body)):  # its group needs all shared memory
            return float("inf")
        meetings = sum(isinstance(x, For) and x.kind == "thread" for x in nodes.walk(s.kernel.body))
        groups = [trips(g) * steps(g) for g in s.kernel.body if isinstance(g, For)]
        return sum(groups) * self.device.serial + meetings * self.device.meeting

    # The kernel -------------------------------------------------------------------------------------------------

    def call(self) -> Call:
        """The call of the kernel."""
        group = group_loop(self.row or Var("group", ONE_INDEX), self._together(self.body))
        if (self.row is not None and not are_apart(group)) or (has_checks(group) and _follows_elements(group)):
            raise Declined
        body = (group,)
        if sum(b.bytes for b in self.local.values() if b.space == "shared") > self.device.shared:
            raise Declined
        pairs = sorted(((v.buffer, b) for b, v in self.views.items()), key=lambda p: p[0].written)
        reads = first_reads(self.body, {})
        made = nodes.kernels_of(self.body)
        name = "loop" if not isinstance(self.statement, If) else "branch"
        threads = max(_count(s) for s in nodes.walk(body))
        choice = Chosen(name, self.cycles, self._schedule(threads, len(made)))
        kernel = Kernel(
            f"{made[-1].name}_{name}" if made else name, tuple(p for p, _ in pairs), free_variables(body), body,
            tuple(line for k in made for line in k.comment), None, (),
            frozenset(p for p, b in pairs if p.written and b not in reads),
            tuple(dict.fromkeys(p for k in made for p in k.positions)),
            choice=choice)  # fmt: skip
        return Call(kernel, tuple(View(b) for _, b in pairs), tuple(as_index(v) for v in kernel.indices))

    def _schedule(self, threads: int, kernels: int) -> Schedule:
        s = self.statement
        first: Step = When("condition") if isinstance(s, If) else Repeat("until", None)
        if isinstance(s, For):
            first = Repeat(s.var.name, s.var.extent.constant)
        rows = () if self.row is None else (("row", self.row.extent.constant or 1),)
        where: tuple[Step, ...] = (Grid(rows), Threads((threads,))) if rows or threads > 1 else (Alone(),)
        return Schedule((*where, first, Fuse(kernels)))

    def _together(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            match s:
                case Call():
                    out += self._called(s)
                case Copy() | Fill():
                    place = Replacement(self._homes((s,)), {})
                    out += place.body(tuple(map(self._strided, self.parts(s))))
                case For():
                    out.append(For(s.var, s.lower, s.upper, self._together(s.body), s.step))
                case Loop():
                    out.append(Loop(self._together(s.body)))
                case If():
                    (test,) = Replacement(self._homes((If(s.test, ()),)), {}).body((If(s.test, ()),))
                    assert isinstance(test, If)
                    out.append(If(test.test, self._together(s.then), self._together(s.otherwise)))
                case _:
                    out.append(s)
        return tuple(out)

    def _called(self, s: Call) -> tuple[Stmt, ...]:
        """The statements of a kernel for all threads of the group."""
        k = s.kernel
        plain = self._plain(s) <= self._launched(s)
        loops = [self._strided(p) for p in self.parts(s)] if plain else [
            For(g.var, ZERO_INDEX, g.upper, g.body) for g in k.body if isinstance(g, For)]  # fmt: skip
        views = dict(zip(k.params, s.arguments, strict=True))
        outside = self._homes(loops, views)
        indices = {v: i for v, i in zip(k.indices, s.index_values, strict=True) if isinstance(v, Var)}
        if len(indices) < len(k.indices):
            raise Declined
        to = Replacement(outside, {})
        return Replacement({p: to.view(v) for p, v in views.items()} | self._locals(loops), indices).body(tuple(loops))

    def _strided(self, p: Part) -> For:
        """A thread loop in which each thread takes every T-th iteration of a part."""
        if not p.loops:
            return thread_loop(Var("thread", ONE_INDEX), (*p.lets, *p.body), independent=False)
        at = Var("at", as_index(p.total))
        own = iteration(p, at)
        if p.total <= self.threads:
            return thread_loop(at, own)
        t = Var("thread", as_index(self.threads))
        return thread_loop(t, (For(at, as_index(t), as_index(p.total), own, self.threads),))

    def _homes(self, body: Sequence[Stmt], views: Mapping[Buffer, View] | None = None) -> dict[Buffer, View]:
        """The parameters for the function's buffers that statements use; missing ones are added."""
        for s in nodes.walk(tuple(body)):
            for a in nodes.accesses(s):
                b = views[a.buffer].buffer if views and a.buffer in views else a.buffer
                if b not in self.views and b.space in ("arena", "input", "output"):
                    own = Buffer(b.name, b.dtype, b.shape, "parameter", b.elements, b in self.written)
                    self.views[b] = View(own)
        return self.views

    def _locals(self, body: Sequence[Stmt]) -> dict[Buffer, View]:
        """The group's local buffers that replace those of a kernel; kernels share them in turn."""
        out: dict[Buffer, View] = {}
        seen: dict[tuple[object, ...], int] = {}
        for s in nodes.walk(tuple(body)):
            for a in nodes.accesses(s):
                b = a.buffer
                if b.space in ("shared", "registers") and b not in out:
                    kind = (b.space, b.dtype, b.shape)
                    seen[kind] = seen.get(kind, 0) + 1
                    out[b] = View(self.local.setdefault((*kind, seen[kind]), b))
        return out


def are_apart(group: For) -> bool:
    """Whether groups are proven to access different elements of each buffer that one of them writes.

    An address is c v + w, with v the group. Let w be a multiple of c n, for n groups, plus a rest from a range
    shorter than c. Then two groups access different elements.
    """
    v, n = group.var, group.var.extent.constant or 1
    found = Footprint(group.body, {}, {v: (0, n - 1)}, every=True)
    changed = {a.buffer for a in found.accesses if a.write and a.buffer.space not in LOCAL}
    spans: dict[Buffer, tuple[int, int, int]] = {}
    for a, runs in found.accesses.items():
        for index in {a.first, a.last} if a.buffer in changed else ():
            c = index.coefficient(v)
            factor = 0 if c is None else c.constant or 0
            if factor <= 0:
                return False
            rest = ((m, k if m else k % (factor * n)) for m, k in index.without(v).terms)
            near = interval_of((t for t in rest if t[1] % (factor * n)), found.ranges)
            before, low, high = spans.get(a.buffer, (factor, ENDLESS, -ENDLESS))
            if near is None or before != factor:
                return False
            ends = [near[0] + run[0] for run in runs], [near[1] + run[1] for run in runs]
            spans[a.buffer] = factor, min(low, *ends[0]), max(high, *ends[1])
    return all(high - low < factor for factor, low, high in spans.values())


def _follows_elements(group: For) -> bool:
    """Whether all threads of a group read together at an index that depends on elements.

    After a failed check all threads would have to leave together, but they may see it at different times.
    """
    read = variables_read(group.body)
    return any(is_read(a.offset, read) for s in _outside_threads(group.body) for a in nodes.accesses(s))


def _outside_threads(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """The statements that all threads run, inner ones after the enclosing one."""
    for s in body:
        if not (isinstance(s, For) and s.kind == "thread"):
            yield s
            inner = (*s.then, *s.otherwise) if isinstance(s, If) else s.body if isinstance(s, For | Loop) else ()
            yield from _outside_threads(inner)


def _leaves(body: Sequence[Stmt]) -> bool:
    """Whether statements leave the loop around them."""
    return any(isinstance(s, Break) or (isinstance(s, If) and _leaves((*s.then, *s.otherwise))) for s in body)


def _count(s: Stmt) -> int:
    """The number of threads of a thread loop."""
    if isinstance(s, For) and s.kind == "thread" and isinstance(s.upper, Index):
        return s.upper.constant or 1
    return 1
