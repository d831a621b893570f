"""Chains of statements over the same rows as one kernel, such as softmax.

    m[n] = max k { x[n, k] };  e[n, k] = exp(x[n, k] - m[n]);  s[n] = sum k { e[n, k] };  y[n, k] = e[n, k] / s[n]
    -->  group n:  thread t: x_row[j] = x[n, T j + t] for all j;  m in a tree;  e_row[j] = exp(x_row[j] - m)
                   s in a tree;  thread t: y[n, T j + t] = e_row[j] / s

A member is an element of each row, a reduction of each row, or a value for each row. Members read arrays of earlier
members only at their own place. A thread keeps its elements of these arrays in registers, and those of other arrays
that several members read. Arrays that only members read are not stored.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Final, NamedTuple

from pullback.device import Device
from pullback.grid.lanes import Combined, Lanes, argument, state
from pullback.grid.reductions import regular_reads
from pullback.grid.steps import (
    Grid,
    Several,
    Threads,
    Tree,
    below,
    count_of,
    decoded,
    group_loop,
    local_buffer,
    thread_loop,
    unrolled,
    within,
)
from pullback.grid.wide import BYTES, is_aligned
from pullback.ir import nodes as ir
from pullback.ir.expr import POSITIONS, index_refs
from pullback.ir.index import ONE_INDEX, Data, Index, Var, as_index
from pullback.ir.traverse import Substitution, indices_of, walk
from pullback.ir.types import i64
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.plain.builder import KernelBuilder, Work, flat_index, flat_position
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.lower import without_units
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.program.nodes import Copy, Kernel, Let, LetIndex, Stmt, Store
from pullback.loops.program.schedule import Fuse, Schedule
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import OPERATORS, Buffer, IndexValue, Load, Read, Temp, View, scalar
from pullback.machine import Machine

LANES: Final = (8, 32, 64, 128, 256, 512, 1024)  # threads of a row
THREADS: Final = 256  # threads of a group, if a row has fewer
OWN: Final = 32  # the most elements of a row for each thread
REGISTERS: Final = 64  # 32-bit registers of a thread for elements of rows
FLIGHT: Final = 32.0  # bytes that a thread waits for at once
MOST: Final = 24  # most members


class Member(NamedTuple):
    """A statement over rows.

    Attributes:
        build: the statement without variables of size 1.
        rows, columns: its variables; without columns it has a value for each row.
        total: its reduction over the columns, if it is one.
    """

    build: ir.Build
    rows: tuple[Var, ...]
    columns: tuple[Var, ...]
    total: ir.Reduce | None

    @property
    def row(self) -> Index:
        """The number of the row."""
        return flat_position(self.rows)

    @property
    def here(self) -> Index:
        """The place of an element of the row."""
        return flat_position((*self.rows, *self.columns))

    def neighbors(self) -> list[ir.Get]:
        """The reads of neighboring elements by neighboring elements of the row."""
        values = self.build.values if self.total is None else (self.total.arg,)
        found = regular_reads(values, (*self.rows, *self.columns)) if self.columns else []
        return [g for g in found if flat_index(g.ref, g.indices).coefficient(self.columns[-1]) is ONE_INDEX]


@dataclass
class Rows:
    """Members in order.

    Attributes:
        count, length: the number of rows, and of elements in a row.
        elements, values: the arrays that members make, with an element for each place or a value for each row.
    """

    count: int
    length: int
    members: list[Member] = field(default_factory=list)
    elements: set[ir.Ref] = field(default_factory=set)
    values: set[ir.Ref] = field(default_factory=set)

    @property
    def made(self) -> set[ir.Ref]:
        """The arrays that members make."""
        return self.elements | self.values

    def add(self, s: ir.Statement) -> bool:
        """Add a statement if it can be a member."""
        m = member(s, self.count, self.length)
        if m is None or not all(self._reads(m, v) for v in m.build.values):
            return False
        rounded = any(o.storage is not o.dtype for o in m.build.outs)
        if rounded or (m.total is not None and not any(self._own(m, g) for g in gets(m.total.arg))):
            return False
        self.members.append(m)
        (self.elements if m.columns and m.total is None else self.values).update(m.build.outs)
        return True

    def _own(self, m: Member, g: ir.Get) -> bool:
        return flat_index(g.ref, g.indices) is m.here

    def _reads(self, m: Member, value: ir.Scalar) -> bool:
        """Whether a value reads arrays of members at its own place, and checks no index."""
        for n in walk(value):
            for i in indices_of(n):
                if any(isinstance(a, Data) and a.checked for a in i.every_atom) or index_refs(i) & self.made:
                    return False
            if isinstance(n, ir.Get) and n.ref in self.made:
                place = m.here if n.ref in self.elements else m.row
                if flat_index(n.ref, n.indices) is not place:
                    return False
        return True

    def again(self) -> set[ir.Ref]:
        """The arrays that several members read, each at its own place."""
        seen, out = set[ir.Ref](), set[ir.Ref]()
        for m in self.members:
            own = {g.ref for v in m.build.values for g in gets(v) if self._own(m, g)} - self.elements
            out |= own & seen
            seen |= own
        return out

    def kept(self) -> set[ir.Ref]:
        """The arrays of members whose elements later members read."""
        return {g.ref for m in self.members for v in m.build.values for g in gets(v)} & self.elements

    def width(self) -> int:
        """The neighboring elements that a thread reads and writes at once."""
        columns = [m.columns[-1].extent.constant or 1 for m in self.members if m.columns]
        reads = {g.ref for m in self.members for g in m.neighbors()}
        arrays = [*reads, *(o for m in self.members if m.columns and m.total is None for o in m.build.outs)]
        count = BYTES // max((ref.storage.size for ref in arrays), default=BYTES)
        whole = all(is_aligned(flat_index(g.ref, g.indices), m.columns[-1], count) for m in self.members
                    for g in m.neighbors())  # fmt: skip
        return count if whole and not any(n % count for n in (self.length, *columns)) else 1

    def registers(self, kept: Container[ir.Ref]) -> int:
        """The most registers for an element of each array between its first and its last use."""
        uses = [{r for r in (*m.build.outs, *(g.ref for v in m.build.values for g in gets(v))) if r in kept}
                for m in self.members]  # fmt: skip
        live = (set[ir.Ref]().union(*uses[: k + 1]) & set[ir.Ref]().union(*uses[k:]) for k in range(len(uses)))
        return max((sum(max(1, r.dtype.bits // 32) for r in refs) for refs in live), default=0)


def gets(e: ir.Scalar) -> Iterator[ir.Get]:
    """The elements that an expression reads."""
    return (g for g in walk(e) if isinstance(g, ir.Get))


def member(s: ir.Statement, count: int, length: int) -> Member | None:
    """A statement as a member; None if it has other sizes."""
    if not isinstance(s, ir.Build):
        return None
    build = without_units(s)
    total, size = _reduction(build), count_of(build.vars)
    if size == count and total is not None and count_of(total.vars) == length:
        return Member(build, build.vars, total.vars, total)
    if size == count and not any(isinstance(n, ir.Reduce) for v in build.values for n in walk(v)):
        return Member(build, build.vars, (), None)
    for n in range(len(build.vars)):
        if size == count * length and count_of(build.vars[:n]) == count:
            return Member(build, build.vars[:n], build.vars[n:], None)
    return None


def _reduction(build: ir.Build) -> ir.Reduce | None:
    found = dict.fromkeys(n for v in build.values for n in walk(v) if isinstance(n, ir.Reduce))
    total = next(iter(found)) if len(found) == 1 else None
    return total if total is not None and (total.op in OPERATORS or total.op in POSITIONS) else None


def rows_of(statements: Sequence[ir.Statement]) -> Rows | None:
    """The longest chain of the first statements; None if there is no reduction, or a single statement."""
    for s in statements[:MOST]:
        if not isinstance(s, ir.Build):
            return None
        build = without_units(s)
        total = _reduction(build)
        count, length = count_of(build.vars), None if total is None else count_of(total.vars)
        if count and length and length > 1:
            found = Rows(count, length)
            for x in statements[:MOST]:
                if not found.add(x):
                    break
            while found.members and found.members[-1].total is None and not _follows(found):
                found.members.pop()
            return found if len(found.members) > 1 and any(m.total for m in found.members) else None
    return None


def _follows(r: Rows) -> bool:
    """Whether the last member reads what others have read or made."""
    *others, last = r.members
    read = {ref for m in others for v in m.build.values for ref in v.refs} | {o for m in others for o in m.build.outs}
    return any(not v.refs.isdisjoint(read) for v in last.build.values)


def head(statements: Sequence[ir.Statement]) -> int:
    """The number of first statements that may be one kernel."""
    found = rows_of(statements)
    return 1 if found is None else len(found.members)


def rows(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for several statements over the same rows."""
    r = rows_of(work.statements)
    if r is None or len(r.members) < len(work.statements) or not _apart(r, work):
        return
    whole = sum(statement_cycles(m.build, machine) for m in r.members)
    wide = any(o.dtype.bits > 32 for m in r.members for o in m.build.outs)
    arrays = {*work.outs, *(ref for m in r.members for v in m.build.values for ref in v.refs)} - (r.made - {*work.outs})
    bytes_moved = float(sum(a.dtype.size * prod(d.constant or 1 for d in a.shape) for a in arrays))
    width = r.width()
    for count in reversed(LANES):
        own = -(-r.length // (count * width)) * width
        kept = _kept(r, own)
        if own > OWN or kept is None or (count > LANES[0] and count * width >= 2 * r.length):
            continue
        lanes = Lanes(count, max(1, min(THREADS // count, 1 << (r.count - 1).bit_length())))
        groups = -(-r.count // lanes.results)
        meetings = sum(m.total is not None for m in r.members) * (lanes.levels + 1)
        cycles = device.cycles(whole, whole / (r.count * count), groups, lanes.threads, meetings, wide, bytes_moved,
                               min(4.0 * own, FLIGHT), r.registers(kept) * own)  # fmt: skip
        several = (Several(lanes.results),) * (lanes.results > 1)
        steps = (Grid((("row", r.count),)), *several, Threads((count,), "column"), Tree(), Fuse(len(r.members)))
        yield Candidate("rows", cycles, partial(_build, r, lanes, kept), Schedule(steps))


def _kept(r: Rows, own: int) -> frozenset[ir.Ref] | None:
    """The arrays whose elements a thread keeps, of which it has `own`; None if these are too many."""
    needed = frozenset(r.kept())
    found = (x for x in (needed | r.again(), needed) if r.registers(x) * own <= REGISTERS)
    return next(found, None)


def _apart(r: Rows, work: Work) -> bool:
    """Whether stored arrays share places only with arrays that are read where they are written."""
    for out in work.outs:
        maker = next(m for m in r.members if out in m.build.outs)
        for m in r.members:
            at = m.row if maker.total is not None or not maker.columns else m.here
            for g in (g for v in m.build.values for g in gets(v) if g.ref not in r.made):
                if work.views[g.ref].buffer is work.views[out].buffer and (
                        not work.holds(g.ref, out) or flat_index(g.ref, g.indices) is not at):  # fmt: skip
                    return False
    return True


def _build(r: Rows, lanes: Lanes, kept: frozenset[ir.Ref], builder: KernelBuilder) -> Kernel:
    for ref in sorted({ref for m in r.members for v in m.build.values for ref in v.refs}, key=lambda ref: ref.name):
        if ref not in r.made:
            builder.parameter(ref)
    launch = _RowsLaunch(r, lanes, kept, builder)
    for m in r.members:
        _Written(launch, m).write()
    body = (*launch.root.statements, *launch.scope.statements)
    return builder.kernel((group_loop(launch.group, body),))


class _RowsLaunch:
    """The launch of a chain, with a group for some rows.

    Attributes:
        own: the elements of a row for each thread.   width: those that it reads and writes at once.
        group: the group.
        root: the values that depend on no variable.   scope: the other statements of the group.
        registers: the buffers of elements that threads keep.   loaded: those that are filled.
        shared: the buffers of values of rows.
    """

    def __init__(self, r: Rows, lanes: Lanes, kept: frozenset[ir.Ref], builder: KernelBuilder) -> None:
        self.r, self.lanes, self.builder = r, lanes, builder
        self.width = r.width()
        self.own = -(-r.length // (lanes.count * self.width)) * self.width
        self.group = Var("group", as_index(-(-r.count // lanes.results)))
        self.root = Scope()
        self.scope = self.root.inside(self.group, True)
        self.registers = {ref: local_buffer(f"{ref.name}_row", ref.storage, (lanes.threads, self.own), "registers")
                          for ref in sorted(kept, key=lambda ref: ref.name)}  # fmt: skip
        self.loaded = set(r.elements)
        self.shared: dict[ir.Ref, Buffer] = {}


class _Written:
    """The thread loops of a member."""

    def __init__(self, launch: _RowsLaunch, m: Member) -> None:
        self.launch, self.m, self.lanes = launch, m, launch.lanes
        self.start: Var | None = None  # the last index of the first one of neighboring elements
        self.lowering = ScalarLowering(launch.builder.parameter, launch.builder.site, m.build.values)
        reads = list(dict.fromkeys(g for v in m.build.values for g in gets(v)))
        self.values = [g for g in reads if g.ref in launch.r.values]
        self.elements = [g for g in reads if g.ref in launch.registers and flat_index(g.ref, g.indices) is m.here]
        self.lowering.sums = frozenset([*self.values, *self.elements, *([m.total] if m.total else [])])

    def write(self) -> None:
        """Add the thread loops to the group."""
        if self.m.total is not None:
            tree = Combined(state(self.m.total), self.lanes)
            self._reduced(self.m.total, tree)
            tree.combine(self.launch.scope)
            self._value(self.m.total, tree)
        elif self.m.columns:
            t, thread, own, lane = self.lanes.begin(self.launch.scope, self.lanes.count)
            with self._row(thread, own) as row, self._element(row, t, lane) as element:
                self._computed(element)
            self.launch.scope.statements.append(thread_loop(t, thread.statements))
        else:
            self._value(None, None)

    @contextmanager
    def _row(self, thread: Scope, own: Index) -> Iterator[Scope]:
        """A scope in a thread that knows its row, and the values of this row."""
        x, row = self.launch, Var("row", as_index(self.launch.r.count))
        at = as_index(x.group) * self.lanes.results + own
        lets = [LetIndex(row, at), *decoded(as_index(row), self.m.rows)]
        inside = within(thread, below(at, x.r.count, self.lanes.results), lets)
        for g in self.values:
            value = Temp(g.ref.name, scalar(g.dtype))
            inside.scope.statements.append(Let(value, Load(x.shared[g.ref], own, value.type)))
            inside.scope.temps[g] = Read(value)
        self.own = own
        yield inside.scope
        inside.close()

    @contextmanager
    def _element(self, row: Scope, t: Var, lane: Index) -> Iterator[Scope]:
        """A scope for each element of a thread in a row, which knows those that are in registers."""
        x, width = self.launch, self.launch.width
        j, e = Var("j", as_index(x.own // width)), Var("e", as_index(width))
        column, first = Var("column", as_index(x.r.length)), Var("first", as_index(x.r.length))
        each, at = row.inside(j, True), (as_index(j) * self.lanes.count + lane) * width
        inside = within(each, below(at, x.r.length, self.lanes.count * width), [LetIndex(first, at)])
        one = inside.scope.inside(e, True)
        element = within(one, (), [LetIndex(column, as_index(first) + as_index(e)),
                                   *decoded(as_index(column), self.m.columns)])  # fmt: skip
        self.column, self.first, self.stores = as_index(column), as_index(first), list[Stmt]()
        self.run, self.register = as_index(t) * x.own + as_index(j) * width, as_index(e)
        self.short, self.start = as_index(t) * width, None
        reads = [*self.elements, *(g for g in self.m.neighbors() if g not in self.elements and width > 1)]
        for g in reads:
            to, place = (x.registers[g.ref], self.run) if g in self.elements else (self._buffer(g.ref), self.short)
            if g not in self.elements or g.ref not in x.loaded:
                source = View(x.builder.parameter(g.ref), self._first(g, first, inside.scope))
                inside.scope.statements.append(Copy(View(to, place), source, as_index(width)))
            element.scope.temps[g] = Load(to, place + self.register, scalar(g.dtype))
        yield element.scope
        x.loaded |= {g.ref for g in self.elements}
        inside.scope.statements += [unrolled(e, one.statements), *self.stores]
        inside.close()
        row.statements.append(unrolled(j, each.statements))

    def _buffer(self, ref: ir.Ref) -> Buffer:
        """Registers for the elements that a thread reads or writes at once."""
        return local_buffer(f"{ref.name}_own", ref.storage, (self.lanes.threads, self.launch.width), "registers")

    def _first(self, g: ir.Get, first: Var, scope: Scope) -> Index:
        """The place of a read for the first one of neighboring elements."""
        place = flat_index(g.ref, g.indices)
        if place is self.m.here:
            return self.m.row * self.launch.r.length + as_index(first)
        *others, v = self.m.columns
        start = self.start
        if start is None:
            start = self.start = Var(f"{v.name}_first", v.extent)
            scope.statements += decoded(as_index(first), (*others, start))
        return Substitution(variables={v: as_index(start)}).index(place)

    def _computed(self, scope: Scope) -> None:
        """Compute an element, or the value of a row, and keep and store it."""
        x, whole = self.launch, bool(self.m.columns) and self.m.total is None
        temps = [Temp(o.name, scalar(o.dtype)) for o in self.m.build.outs]
        values = [self.lowering.value(v, scope) for v in self.m.build.values]
        scope.statements += [Let(temp, v) for temp, v in zip(temps, values, strict=True)]
        for o, temp in zip(self.m.build.outs, temps, strict=True):
            if not whole:
                x.shared[o] = local_buffer(f"{o.name}_of_row", o.dtype, (self.lanes.results,), "shared")
                scope.statements.append(Store(x.shared[o], self.own, Read(temp)))
                if o in x.builder.outs:
                    scope.statements.append(Store(x.builder.parameter(o), self.m.row, Read(temp)))
                continue
            kept = o in x.registers
            to, place = (x.registers[o], self.run) if kept else (self._buffer(o), self.short)
            scope.statements.append(Store(to, place + self.register, Read(temp)))
            if o in x.builder.outs:
                target = View(x.builder.parameter(o), self.m.row * x.r.length + self.first)
                self.stores.append(Copy(target, View(to, place), as_index(x.width)))

    def _reduced(self, total: ir.Reduce, tree: Combined) -> None:
        """Let each thread reduce its elements of a row."""
        t, thread, own, lane = tree.begin(self.launch.scope)
        temps, begin = tree.state.begun()
        thread.statements += begin
        arg, conds = argument(total)
        with self._row(thread, own) as row, self._element(row, t, lane) as element:
            tests = self.lowering.conditions(conds, element)
            inside = within(element, tests, ())
            value = self.lowering.value(arg, inside.scope)
            inside.scope.statements += tree.state.add(temps, [value, IndexValue(self.column, scalar(i64))])
            inside.close()
        thread.statements += tree.stores(as_index(t), temps)
        self.launch.scope.statements.append(thread_loop(t, thread.statements))

    def _value(self, total: ir.Reduce | None, tree: Combined | None) -> None:
        """Let a thread for each row compute its value."""
        t, thread, *_ = self.lanes.begin(self.launch.scope, 1)
        own = as_index(t)  # so the writer sees that the next value's thread has written what it reads
        with self._row(thread, own) as row:
            last = Scope(row, known=row.known, loop=True, statements=row.statements)
            if total is not None and tree is not None:
                temps, statements = tree.rest(own)
                last.statements += statements
                last.temps[total] = Read(temps[-1])
            self._computed(last)
        self.launch.scope.statements.append(thread_loop(t, thread.statements))
