"""Recurrences: folds with an elementwise body and exchanged loops; states stay in registers.

Before    for j < M: { for n < N: v[n] = v[n] * t[n] + x[j];  y[j] = sum n { v[n] } }
After     for n in blocks of some vectors:
            v = v[n ..]; t = t[n ..]
            for j < M: v = v * t + x[j]; sums[j] += v
            v[n ..] = v
          for j < M: y[j] = the lanes of sums[j] added

The body must be one group (`vectors.group`). Its members may read states only at their own point. Its sums must be over
all points, and only rows may read them. Then points are independent of each other. A state passes through memory
once instead of once for each step. The rows that steps read or write point by point must fit the second cache together,
because their elements are a row apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.traverse import Substitution, count_uses, rewrite, walk
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.analysis.joined import elements
from pullback.loops.plain.builder import KernelBuilder, Work, flat_index
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.scalar import named
from pullback.loops.program.cover import cover, halves, typical
from pullback.loops.program.nodes import Assign, Fill, For, Kernel, Let, Stmt, Store, StoreRows
from pullback.loops.program.schedule import Exchange, Schedule
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Across, Buffer, Load, Read, Temp, Type, Value
from pullback.loops.vectors.fused import Scratch, nest_schedule
from pullback.loops.vectors.group import Group, groups_of_all
from pullback.loops.vectors.lanes import chain, widened
from pullback.loops.vectors.nest import Nest, Out, stride
from pullback.loops.vectors.reciprocals import with_reciprocals
from pullback.loops.vectors.writer import Writer
from pullback.machine import Machine
from pullback.records import dataclass, replace

LEAST = 3  # least steps for which the exchanged order pays
HELD_PLAIN = 4  # points that code without vectors can keep in registers
WAYS = (8, 4, 2, 1)  # vectors of points taken together
MANY = 40  # vectors are processed one by one if a step has more operations


def recurrences(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for folds over elementwise bodies."""
    s = work.statement
    group = _elementwise(s, machine.caches[1]) if isinstance(s, ir.Fold) else None
    nest = _Nest.of(s, group, work) if isinstance(s, ir.Fold) and group is not None else None
    if nest is None:
        return

    def build(builder: KernelBuilder) -> Kernel:
        builder.take(nest.group.buffers.values())
        rows = builder.rows()
        body = _RecurrenceWriter(nest, rows, machine).statements()
        plain = _RecurrenceWriter(nest, rows, machine.plain).statements() if machine.portable else None
        return builder.kernel(tuple(body), None if plain is None else tuple(plain))

    step = nest.fold.var
    points, states = nest.group, [x.old for x in nest.states]
    lanes, loops = machine.lanes(points.dtype.size), (*points.order, step)
    cycles = points_cycles(points.values, loops, machine, lanes, points.axis, len(nest.rows), states)
    schedule = Schedule((Exchange(step.name, nest.group.axis.name),)) + nest_schedule(nest.group, machine)
    yield Candidate("recurrence", cycles, build, schedule)


def _elementwise(s: ir.Fold, near: int) -> Group | None:
    """The body as one group over independent points of the states; None if it is no such group.

    Args:
        near: bytes of rows that the second cache holds.
    """
    trips = s.var.extent.constant
    if trips is None or trips < LEAST or not s.states or not all(isinstance(b, ir.Build) for b in s.body.statements):
        return None
    return next((g for g in groups_of_all(s.body.statements) if _pointwise(s, g) and _row_bytes(s, g) <= near), None)


def _pointwise(s: ir.Fold, group: Group) -> bool:
    """Whether states are read at their own point alone, and rows are of points or sums over all of them."""
    if any(v.extent.constant is None for v in group.space):
        return False
    news, rows = s.body.results[: len(s.states)], s.body.results[len(s.states) :]
    made = {i.out for i in group.items if i.whole is None}
    sums = [i for i in group.items if i.whole is not None]
    if not made.issuperset(news) or not (made | {i.out for i in sums}).issuperset(set(rows) - set(s.states)):
        return False
    if any(i.op != "sum" or i.whole is not i.total or i.over != set(group.space) for i in sums):
        return False
    values = [*(i.value for i in group.items), *group.definitions.values()]
    gets = {g for v in values for g in walk(v) if isinstance(g, ir.Get)}
    own = {state: group.local[new] for state, new in zip(s.states, news, strict=True)}
    return len(set(news)) == len(news) and all(g.indices in own[g.ref] for g in gets if g.ref in own)


def _row_bytes(s: ir.Fold, group: Group) -> int:
    """The bytes that the steps read and write point by point in separate rows."""
    size = prod(v.extent.constant or 1 for v in group.space) * (s.var.extent.constant or 1) * group.dtype.size
    points = set(group.space)
    gets = {g for g in group.reads if isinstance(g, ir.Get) and s.var in g.free and points & g.free}
    summed = {i.out for i in group.items if i.whole is not None}
    return size * (len(gets) + sum(r not in summed for r in s.body.results[len(s.states) :]))


@dataclass
class _State:
    """A state's element at a point: how the body reads it, its new value, and its locations."""

    old: ir.Scalar
    new: ir.Scalar
    first: Buffer
    buffer: Buffer
    offset: Index


@dataclass
class _Nest:
    """The body over flat addresses.

    Attributes:
        group: its definitions and the arrays it reads; its outputs are below.
        states: the elements of states.
        rows: the values that a step stores at a point.
        sums: the terms that a step sums over all points.
    """

    fold: ir.Fold
    group: Nest
    states: list[_State]
    rows: list[Out]
    sums: list[Out]

    @staticmethod
    def of(s: ir.Fold, group: Group, work: Work) -> _Nest | None:
        """The nest; None where vectors cannot run along an axis of the points."""
        count = len(s.states)
        new = dict(zip(s.body.results, (*s.states, *s.outs[count:]), strict=False))
        stand_in = {r: Buffer(r.name, r.dtype, r.shape, "parameter", elements(r.shape)) for r in (*s.states, *new)}

        def address(ref: ir.Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
            if ref not in stand_in:
                return work.address(ref, indices)
            return stand_in[ref], flat_index(ref, indices)

        nest = Nest.of_group(group, address, frozenset(s.body.results))
        if nest is None:
            return None
        step = as_index(s.var)
        marks = {b: ir.Ref(b.name, b.dtype, (*b.shape, s.var.extent)) for b in map(stand_in.__getitem__, s.states)}

        def old(buffer: Buffer, offset: Index) -> ir.Scalar:
            return expr.get(marks[buffer], *([ZERO_INDEX] * (marks[buffer].rank - 2)), offset, step)

        reads = [(g, nest.buffers[g.ref]) for g in nest.gets]
        seen: dict[ir.Scalar, ir.Scalar] = {g: old(b, g.indices[0]) for g, b in reads if b in marks}
        nest = replace(_renamed(nest, seen, s.var), buffers={r: b for r, b in nest.buffers.items() if b not in marks})
        nest = with_reciprocals(nest, (*nest.order, s.var))
        made = _Nest(s, nest, [], [], [])
        kept_in = dict(zip(s.body.results[count:], s.outs[count:], strict=True))
        for state, out, result in zip(s.states, s.outs, s.body.results, strict=False):
            last, before = work.parameter(out), stand_in[state]
            first = last if work.holds(state, out) else work.parameter(kept_in[state])  # it moves along its rows
            found = [o for o in nest.outs if o.buffer is stand_in[result]]
            made.states += [_State(old(before, o.offset), o.value, first, last, o.offset) for o in found]
        for row, result in zip(s.outs[count:], s.body.results[count:], strict=True):
            there = work.parameter(row)
            start = step * elements(row.shape[1:])
            kept = result in s.states
            which = s.body.results[s.states.index(result)] if kept else result
            for o in nest.outs:
                if o.buffer is stand_in[which]:
                    value = old(stand_in[result], o.offset) if kept else o.value
                    (made.sums if o.over and not kept else made.rows).append(Out(there, start + o.offset, value))
        return made


def _renamed(nest: Nest, seen: Mapping[ir.Scalar, ir.Scalar], step: Var) -> Nest:
    """The nest with explicit step dependence of states and definitions."""
    renamed: dict[ir.Scalar, ir.Scalar] = dict(seen)
    definitions: dict[ir.Ref, ir.Scalar] = {}
    used = {g.ref: g for v in nest.values for g in walk(v) if isinstance(g, ir.Get) and g.ref in nest.definitions}
    for ref, value in nest.definitions.items():
        value = rewrite(value, renamed.get)
        if step in value.free and ref in used:
            new = ir.Ref(ref.name, ref.dtype, (*ref.shape, step.extent))
            renamed[used[ref]] = expr.get(new, *used[ref].indices, as_index(step))
            ref = new
        definitions[ref] = value
    outs = tuple(o.map(lambda v: rewrite(v, renamed.get)) for o in nest.outs)
    return replace(nest, outs=outs, definitions=definitions)


class _RecurrenceWriter:
    """The writer of the loops; `scratch` gives memory for sums over points, one per lane, sum and step."""

    def __init__(self, nest: _Nest, scratch: Scratch, machine: Machine) -> None:
        self.nest = nest
        self.group = nest.group
        self.step = nest.fold.var
        self.axis = nest.group.axis
        self.widest = machine.lanes(nest.group.dtype.size)
        self.made = [*(o.value for o in nest.rows), *(o.value for o in nest.sums), *(x.new for x in nest.states)]
        self.writer = Writer.of_group(self.group, self.made)
        self.sums = scratch(0, "sums", self.step.extent * len(nest.sums) * self.widest) if nest.sums else None
        self.ways = self._ways(machine)

    def _ways(self, machine: Machine) -> int:
        """The vectors of points handled together: as many as registers hold; one if a step is long."""
        work = sum(10 if isinstance(n, ir.Apply) and n.primitive.transcendental else 1 for n in self._nodes())
        if work > MANY:
            return 1
        fixed = [g for g in self.group.gets if self.axis in g.free and self.step not in g.free]
        held = len(self.nest.states) + len(fixed)
        room = 3 * machine.vector_registers // 4 if machine.vector_bytes else HELD_PLAIN  # apart from those of a step
        most = (self.axis.extent.constant or 1) // self.widest
        return next((w for w in WAYS if w * held <= room and w <= most), 1)

    def _nodes(self) -> Iterable[ir.Scalar]:
        """All nodes that a step computes at a point, each once."""
        return count_uses((*self.made, *self.group.definitions.values()))

    def statements(self) -> list[Stmt]:
        """All statements of the loops."""
        root = Scope()
        self._level(0, {}, root)
        loops = root.statements
        if self.sums is None:
            return loops
        return [Fill(self.sums, ZERO_INDEX, self.sums.elements), *loops, *self._totals(self.sums)]

    def _totals(self, sums: Buffer) -> list[Stmt]:
        """The lanes of each sum added."""
        out: list[Stmt] = []
        wide = Type(self.group.dtype, self.widest)
        for k, o in enumerate(self.nest.sums):
            lanes = Load(sums, self._sum_at(k), wide)
            out.append(Store(o.buffer, o.offset, lanes if self.widest == 1 else Across("+", lanes)))
        return [For(self.step, ZERO_INDEX, self.step.extent, tuple(out))]

    def _sum_at(self, k: int) -> Index:
        return (as_index(self.step) * len(self.nest.sums) + k) * self.widest

    def _level(self, depth: int, at: dict[Var, Index], scope: Scope) -> None:
        """Everything inside the first `depth` loops over points."""
        outer = self.group.order[:-1]
        if depth == len(outer):
            return self._blocks(at, scope)
        v = outer[depth]

        def point(start: Index, count: int) -> list[Stmt]:
            inside = scope.step(start)
            self._level(depth + 1, {**at, v: start}, inside)
            return inside.statements

        scope.statements += cover(v, (1,), point)
        return None

    def _blocks(self, at: dict[Var, Index], scope: Scope) -> None:
        """The loop over blocks of vectors, the vectors that are left, and narrower ones."""
        size = self.ways * self.widest
        left = typical(self.axis) % size // self.widest * self.widest

        def block(start: Index, count: int) -> list[Stmt]:
            inside = scope.step(start)
            lanes = min(count, self.widest)
            self._block([{**at, self.axis: start + n} for n in range(0, count, lanes)], lanes, inside)
            return inside.statements

        scope.statements += cover(self.axis, (size, left, *halves(self.widest)), block, "vector")

    def _block(self, points: Sequence[Mapping[Var, Index]], lanes: int, scope: Scope) -> None:
        """All steps of vectors of points: states are loaded, go through the steps, are stored."""
        outside, _ = self.writer.inside(scope, ZERO_INDEX, lanes)
        inside = outside.inside(self.step, True)
        news: list[Stmt] = []
        after: list[Stmt] = []
        terms: list[list[Value]] = [[] for _ in self.nest.sums]
        for at in points:
            _, here = self.writer.inside(scope, at[self.axis], lanes)
            m = Substitution(variables={**at, self.axis: here})
            temps = self._begin(m, lanes, outside, inside, after)
            values = [m.scalar(e) for e in self.made]
            self.writer.count(values)
            found = iter(values)
            rows = [widened(self.writer.value(next(found), inside), lanes) for _ in self.nest.rows]
            for o, value in zip(self.nest.rows, rows, strict=True):
                inside.statements.append(self._store(o.buffer, o.offset, m, value))
            for term in terms:
                term.append(widened(self.writer.value(next(found), inside), lanes))
            states = [widened(self.writer.value(e, inside), lanes) for e in found]
            if len(states) > 1:  # new states replace the old ones together
                states = [self._apart(v, temps, inside) for v in states]
            news += map(Assign, temps, states)
            if not terms:
                inside.statements += news
                news.clear()
        if self.sums is not None:
            sums = self.sums
            adds = [Store(sums, self._sum_at(k), chain("+", t), accumulate=True) for k, t in enumerate(terms)]
            inside.statements += adds
        scope.statements.append(For(self.step, ZERO_INDEX, self.step.extent, (*inside.statements, *news)))
        scope.statements += after

    def _apart(self, value: Value, states: list[Temp], scope: Scope) -> Value:
        """The current value, protected from later assignments to the states."""
        if isinstance(value, Read) and value.temp in states:
            kept = Temp("new", value.type)
            scope.statements.append(Let(kept, value))
            return Read(kept)
        return named(value, "new", scope)

    def _begin(self, m: Substitution, lanes: int, outside: Scope, inside: Scope, after: list[Stmt]) -> list[Temp]:
        """A register for each element of a state, loaded before all steps and stored after them."""
        temps = []
        for x in self.nest.states:
            t = Temp(x.buffer.name, Type(self.group.dtype, lanes))
            loaded = self.writer.elements(x.first, m.index(x.offset), t.type)
            outside.statements.append(Let(t, loaded, mutable=True))
            inside.temps[m.scalar(x.old)] = Read(t)
            after.append(self._store(x.buffer, x.offset, m, Read(t)))
            temps.append(t)
        return temps

    def _store(self, buffer: Buffer, offset: Index, m: Substitution, value: Value) -> Stmt:
        """Store a vector of points."""
        here, step = self.writer.first(m.index(offset), value.type.lanes), stride(offset, self.axis)
        if value.type.lanes == 1 or step == 1:
            return Store(buffer, here, value)
        assert step is not None
        return StoreRows(buffer, here, step, (value,))
