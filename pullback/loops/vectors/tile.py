"""Vector kernels: a build lowered to register tiles of explicit vectors.

Before    y = build o < 12, i < 8, j < 8 { f(sum c < 6, u < 5, v < 5 { k[o, c, u, v] * x[c, i + u, j + v] }) }
After     for o in steps of 3, i in steps of 4:
              12 accumulators of 8 lanes (3 of o, 4 of i, one vector of j)
              for c, u, v: 3 scalars of k, 4 vectors of x, 12 multiply-adds
              f of each accumulator, 12 stores

`vectors.nest` merges axes and chooses the vector axis, its vectors and the tiled axes. Here the body is expanded for
each element of the tile by substitution; hash-consing makes equal loads one node and so one temporary. Conditions
inside a sum become bounds of its loops. The rest of an extent takes narrower vectors, then single elements.

It does not block for the cache, does not pack, and leaves to others what it cannot take: conditions
that depend on the vector axis, data-dependent indices, functions without a vector form, integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final
from typing import Literal as Lit

from pullback.ir.expr import Bracket, Reduce, Scalar
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide
from pullback.ir.program import Build, Statement
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.lower import bring_plain
from pullback.loops.program.cover import cover, halves, is_open, overlap, typical
from pullback.loops.program.nodes import (
    Across,
    Assign,
    Binary,
    Bound,
    Buffer,
    For,
    Holds,
    If,
    Kernel,
    Let,
    Literal,
    Load,
    Read,
    Stmt,
    Store,
    Temp,
    Type,
    Value,
    largest,
    smallest,
    values_of,
    walk_value,
)
from pullback.loops.program.schedule import Fuse, Schedule, Vector
from pullback.loops.vectors.fused import nest_cycles, nest_loops, nest_schedule
from pullback.loops.vectors.group import find_group
from pullback.loops.vectors.group_nest import GroupNest
from pullback.loops.vectors.lanes import widened
from pullback.loops.vectors.nest import Address, Nest, Phase, Plan, best_plan, cache_cycles, narrower
from pullback.loops.vectors.position import find_position
from pullback.loops.vectors.values import Element, ValueWriter
from pullback.machine import Machine

Op = Lit["+", "max", "min"]
_FOLD: Final[Mapping[str, tuple[Op, float]]] = {
    "sum": ("+", 0.0),
    "max": ("max", -float("inf")),
    "min": ("min", float("inf")),
}
SMALL = 8  # element evaluations below which plain code does
NARROW = 4  # lanes below which single elements do


@dataclass(frozen=True)
class Tiling:
    """A build as tiles: the nest, the plan, and the plan where extents that are no numbers leave no room for a tile."""

    nest: Nest
    plan: Plan
    low: Plan
    machine: Machine

    @property
    def cycles(self) -> float:
        """What it is estimated to take, waiting for the caches included."""
        return self.plan.cycles + cache_cycles(self.nest, self.plan, self.machine)

    @property
    def schedule(self) -> Schedule:
        """What it does with the loops."""
        return self.plan.schedule

    def statements(self) -> tuple[Stmt, ...]:
        """The loops."""
        return tuple(_TileWriter(self.nest, self.plan, self.machine).outer(self.low))


def plan_tile(s: Build, address: Address, machine: Machine) -> Tiling | None:
    """How to tile a build; None where the scalar lowering must do it.

    Args:
        s: a build.
        address: where an element lies: its buffer and flat index.
        machine: what it is for.
    """
    nest = Nest.of(s, address)
    if nest is None or nest.elements * nest.trips < SMALL:
        return None
    plan = best_plan(nest, machine)
    if plan is None:
        return None
    low = best_plan(nest, machine, room=False) if plan.open_tiles else plan
    return Tiling(nest, plan, low or replace(plan, tiles=()), machine)


def tile(s: Build, address: Address, machine: Machine) -> tuple[Stmt, ...] | None:
    """The statements of a vector kernel for a build, or None; arguments as for `plan_tile`."""
    found = plan_tile(s, address, machine)
    return None if found is None else found.statements()


Sizes = dict[Var, tuple[Index, int]]
Chunks = Sequence[tuple[Index, int]]  # where a vector starts on the axis, and its lanes


class _TileWriter:
    """Writes the loops of a nest under a plan."""

    def __init__(self, nest: Nest, plan: Plan, machine: Machine) -> None:
        self.nest = nest
        self.plan = plan
        self.machine = machine

    def outer(self, low: Plan) -> list[Stmt]:
        """Loops over output axes, outermost first; tiled axes step, with a narrower tile for what is left.

        Args:
            low: the plan where extents that are no numbers have no room for a tile.
        """
        return self._where(self.plan.open_tiles, self._by_room(), low)

    def _by_room(self) -> list[Stmt]:
        """The loops for the room there is along the vector axis: several vectors, one, and narrower ones."""
        order = [v for v in self.nest.variables if v is not self.plan.axis or self.plan.reduced]
        loops = self._loops(order, {})
        if self.plan.reduced or not is_open(self.plan.axis):
            return loops
        lanes, step = self.plan.phases[0].lanes, self.plan.phases[0].step
        less = lanes[:1] if len(lanes) > 1 else (step // 2 if step > NARROW else 1,)
        return self._where([(self.plan.axis, step)], loops, replace(self.plan, phases=(Phase(0, 1, less),)))

    def _where(self, least: Sequence[tuple[Var, int]], loops: list[Stmt], other: Plan) -> list[Stmt]:
        """The loops where extents have so much room, those of a plan without this need elsewhere."""
        tests = [cond(">=", v.extent - n) for v, n in least if n > 1]
        room = [c for c in tests if isinstance(c, Cond)]
        if self.disjoint or all(c is True for c in tests):
            return loops
        less = _TileWriter(self.nest, other, self.machine)._by_room()
        return less if False in tests else [If(Holds(tuple(room)), tuple(loops), tuple(less))]

    @property
    def disjoint(self) -> bool:
        """Whether each element is computed once: without sums nothing is gained by more, over inputs it is wrong."""
        read = {self.nest.buffers[g.ref] for g in self.nest.gets()}
        return not self.nest.reductions or any(b in read for b, _ in self.nest.outs)

    def _loops(self, order: list[Var], sizes: Sizes) -> list[Stmt]:
        if not order:
            return self._block(sizes, ()) if self.plan.reduced else self._vector_loops(sizes)
        v, *rest = order
        t = dict(self.plan.tiles).get(v, 1)
        if is_open(v):
            return self._open_loop(v, t, rest, sizes)
        extent = v.extent.constant or 1
        full = extent - extent % t
        out: list[Stmt] = []
        if full == t:
            out += self._loops(rest, {**sizes, v: (ZERO_INDEX, t)})
        elif full:
            loop = Var(v.name, v.extent)
            body = self._loops(rest, {**sizes, v: (as_index(loop), t)})
            out.append(For(loop, ZERO_INDEX, as_index(full), tuple(body), t))
        if extent > full:
            out += self._loops(rest, {**sizes, v: (as_index(full), extent - full)})
        return out

    def _open_loop(self, v: Var, t: int, rest: list[Var], sizes: Sizes) -> list[Stmt]:
        """The loop over an axis whose extent is no number."""

        def tile(start: Index, size: int) -> list[Stmt]:
            return self._loops(rest, {**sizes, v: (start, size)})

        if t == 1 or self.disjoint:
            return cover(v, (t, 1) if t > 1 else (1,), tile)
        return overlap(v, t, lambda start: tile(start, t))

    def _open_vector_loops(self, sizes: Sizes) -> list[Stmt]:
        """The loop over a vector axis whose extent is no number."""
        phase = self.plan.phases[0]
        if not self.disjoint and phase.step > 1:
            return overlap(self.plan.axis, phase.step, lambda i: self._block(sizes, _chunks(i, phase)), "vector")

        def block(start: Index, size: int) -> list[Stmt]:
            whole = phase if size == phase.step else Phase(0, 1, (size,))
            return self._block(sizes, _chunks(start, whole))

        steps = halves(phase.lanes[0])
        return cover(self.plan.axis, steps if len(phase.lanes) == 1 else (phase.step, *steps), block, "vector")

    def _vector_loops(self, sizes: Sizes) -> list[Stmt]:
        if is_open(self.plan.axis):
            return self._open_vector_loops(sizes)
        out: list[Stmt] = []
        for phase in self.plan.phases:
            if phase.trips == 1:
                out += self._block(sizes, _chunks(as_index(phase.start), phase))
                continue
            axis = self.plan.axis
            end = phase.start + phase.trips * phase.step
            if self._patterned():  # div and mod of the axis: count vectors, so that lanes have known remainders
                loop = Var(axis.name, phase.trips)
                start = as_index(loop) * phase.step + phase.start
                low, high, by = 0, phase.trips, 1
            else:
                loop = Var(axis.name, axis.extent)
                start = as_index(loop)
                low, high, by = phase.start, end, phase.step
            body = tuple(self._block(sizes, _chunks(start, phase)))
            out.append(For(loop, as_index(low), as_index(high), body, by, "vector"))
        return out

    def _patterned(self) -> bool:
        axis = self.plan.axis
        return any(a is not axis for i in self.nest.gets_indices() for a in i.atoms if axis in a.free)

    def _elements(self, sizes: Sizes, chunks: Chunks) -> list[Element]:
        """The elements of a tile, the longest of its axes outermost: what the short ones share stays in registers."""
        order = sorted(sizes.items(), key=lambda item: -item[1][1])
        out = []
        for offsets in product(*(range(size) for _, (_, size) in order)):
            at = {v: start + k for (v, (start, _)), k in zip(order, offsets, strict=True)}
            if self.plan.reduced:
                out.append(Element(at, 1))
            out += [Element({**at, self.plan.axis: start}, lanes) for start, lanes in chunks]
        return out

    def _block(self, sizes: Sizes, chunks: Chunks) -> list[Stmt]:
        """One tile: accumulators, the loops of each reduction, then values and stores."""
        elements = self._elements(sizes, chunks)
        out: list[Stmt] = []
        results: list[dict[Scalar, Value]] = [{} for _ in elements]
        for r in self.nest.reductions:
            reduce = self._across if self.plan.reduced else self._along
            for k, value in enumerate(reduce(r, elements, out)):
                results[k][r] = value
        writer = ValueWriter(self.nest, self.plan.axis)
        stores: list[Stmt] = []
        for e, known in zip(elements, results, strict=True):
            place = Substitution(variables=e.at)
            # All values before any store: a result may lie where what another one reads was.
            values = [widened(writer.value(v, e, known, stores), e.lanes) for v in self.nest.values]
            for (buffer, offset), value in zip(self.nest.outs, values, strict=True):
                stores.append(Store(buffer, place.index(offset), value))
        return out + stores

    def _accumulators(self, r: Reduce, lanes: Sequence[int], out: list[Stmt]) -> list[Temp]:
        """A temporary for each element, with the neutral value."""
        temps = [Temp(r.op, Type(self.nest.dtype, n)) for n in lanes]
        out += [Let(t, Literal(_FOLD[r.op][1], t.type), mutable=True) for t in temps]
        return temps

    def _along(self, r: Reduce, elements: list[Element], out: list[Stmt]) -> list[Value]:
        """The reduction for vectors of elements: a loop over all its variables."""
        temps = self._accumulators(r, [e.lanes for e in elements], out)
        conds, body = _conditions(r, elements[0])
        step = self._accumulate(r, body, elements, temps)
        out += _nest(r.vars, conds, step)
        return [Read(t) for t in temps]

    def _across(self, r: Reduce, elements: list[Element], out: list[Stmt]) -> list[Value]:
        """The reduction with one of its variables along the lanes, which are combined at the end."""
        axis, widest = self.plan.axis, self.plan.lanes
        extent = typical(axis)
        ways = self._ways(extent // widest, len(elements))
        conds, body = _conditions(r, elements[0])
        temps: dict[tuple[int, int], list[Temp]] = {}  # (lanes, way) -> one for each element
        inner: list[Stmt] = []

        def step(start: Index, lanes: int, way: int) -> list[Stmt]:
            if (lanes, way) not in temps:
                temps[lanes, way] = self._accumulators(r, [lanes] * len(elements), out)
            wide = [Element({**e.at, axis: start}, lanes) for e in elements]
            return self._accumulate(r, body, wide, temps[lanes, way])

        if is_open(axis):

            def several(start: Index, size: int) -> list[Stmt]:
                if size <= widest:
                    return step(start, size, 0)
                return [s for k in range(size // widest) for s in step(start + k * widest, widest, k)]

            wide = (ways * widest,) if ways > 1 else ()
            inner += cover(axis, (*wide, *halves(widest)), several, "vector")
            extent = 0
        done = 0
        for together in dict.fromkeys((ways, 1)):
            stride_ = together * widest
            trips = (extent - done) // stride_
            if trips > 1:
                loop = Var(axis.name, axis.extent)
                steps = [step(as_index(loop) + k * widest, widest, k) for k in range(together)]
                end = as_index(done + trips * stride_)
                inner.append(For(loop, as_index(done), end, tuple(s for row in steps for s in row), stride_, "vector"))
            elif trips:
                for k in range(together):
                    inner += step(as_index(done + k * widest), widest, k)
            done += trips * stride_
        for lanes in narrower(extent - done, widest):
            inner += step(as_index(done), lanes, 0)
            done += lanes
        out += _nest([v for v in r.vars if v is not axis], conds, inner)
        return [self._combine(r, [row[k] for row in temps.values()], out) for k in range(len(elements))]

    def _ways(self, vectors: int, elements: int) -> int:
        """Accumulators for each element, so that a chain of additions does not wait for itself."""
        ways = self.machine.chains
        while ways > 1 and (ways * elements > 8 or vectors < 2 * ways):
            ways //= 2
        return ways

    def _combine(self, r: Reduce, parts: list[Temp], out: list[Stmt]) -> Value:
        """The accumulators of one element as one number: equal widths first, then across the lanes."""
        op = _FOLD[r.op][0]
        by_type: dict[Type, Value] = {}
        for t in parts:
            before = by_type.get(t.type)
            by_type[t.type] = Read(t) if before is None else Binary(op, before, Read(t), t.type)
        total: Value | None = None
        for type_, wide in by_type.items():
            value = wide if type_.lanes == 1 else Across(op, wide)
            total = value if total is None else Binary(op, total, value, value.type)
        assert total is not None
        result = Temp("total", total.type)
        out.append(Let(result, total))
        return Read(result)

    def _accumulate(self, r: Reduce, body: Scalar, elements: list[Element], temps: list[Temp]) -> list[Stmt]:
        """Acc = acc op body, for each element."""
        op = _FOLD[r.op][0]
        writer = ValueWriter(self.nest, self.plan.axis)
        out: list[Stmt] = []
        for e, t in zip(elements, temps, strict=True):
            value = widened(writer.value(body, e, {}, out), e.lanes)
            out.append(Assign(t, Binary(op, Read(t), value, t.type)))
        return _held(out, self.machine.narrowest)


def _held(statements: list[Stmt], narrowest: int) -> list[Stmt]:
    """The statements with each full vector that is loaded once and used several times kept in a register."""
    uses: dict[Temp, int] = {}
    for s in statements:
        for v in values_of(s):
            for node in walk_value(v):
                if isinstance(node, Read):
                    uses[node.temp] = uses.get(node.temp, 0) + 1
    return [
        replace(s, held=True)
        if isinstance(s, Let)
        and isinstance(s.value, Load)
        and s.temp.type.lanes * s.temp.type.dtype.size >= narrowest
        and s.temp.type.lanes > 1
        and uses.get(s.temp, 0) > 1
        else s
        for s in statements
    ]


def _chunks(start: Index, phase: Phase) -> Chunks:
    return [(start + sum(phase.lanes[:k]), n) for k, n in enumerate(phase.lanes)]


def _conditions(r: Reduce, element: Element) -> tuple[list[Cond], Scalar]:
    """The conditions around a sum's term, which hold for a whole tile or not at all, and the term."""
    if not isinstance(r.arg, Bracket):
        return [], r.arg
    m = Substitution(variables=element.at)
    conds = [m.condition(c) for c in r.arg.conds]
    assert False not in conds, "a term that is never there"
    return [c for c in conds if isinstance(c, Cond)], r.arg.arg


def _nest(loops: Sequence[Var], conds: list[Cond], body: list[Stmt]) -> list[Stmt]:
    """Loops around the body, each condition a bound of the innermost loop it is about where it can be."""
    if not loops:
        return [If(Holds(tuple(conds)), tuple(body))] if conds else body
    *outer, v = loops
    lowers, uppers, rest = [ZERO_INDEX], [v.extent], []
    for c in conds:
        factor = c.index.coefficient(v)
        if v in c.free and c.op == ">=" and factor is not None and factor.constant:
            bound, n = c.index - factor * as_index(v), factor.constant
            if n > 0:
                lowers.append(floor_divide(-bound + (n - 1), as_index(n)))
            else:
                uppers.append(floor_divide(bound, as_index(-n)) + 1)
        else:
            rest.append(c)
    tested = [c for c in rest if v in c.free]
    if tested:
        body = [If(Holds(tuple(tested)), tuple(body))]
    low: Bound = largest(*lowers)
    high: Bound = smallest(*uppers)
    return _nest(outer, [c for c in rest if v not in c.free], [For(v, low, high, tuple(body))])


def tiles(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for single builds as tiles of vectors."""
    s = work.statement
    found = plan_tile(s, work.address, machine) if isinstance(s, Build) else None
    if found is None:
        return

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, Build)
        builder.take(found.nest.buffers.values())
        return bring_plain(s, found.statements(), builder, machine)

    yield Candidate("tile", found.cycles, build, found.schedule)


def positions(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for positions of extremes."""
    s = work.statement
    found = find_position(s, work.address, machine) if isinstance(s, Build) else None
    if found is None:
        return

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, Build)
        builder.take(found.nest.buffers.values())

        def scratch(dtype: DType, count: int) -> Buffer:
            return builder.scratch("extremes", Buffer("", dtype, (), "arena", as_index(1)), count)

        return bring_plain(s, found.statements(builder.parameter(s.outs[0]), scratch), builder, machine)

    cycles = points_cycles(found.nest.values, found.nest.variables, machine) / found.lanes
    yield Candidate("position", cycles, build, Schedule((Vector(found.axis.name, found.lanes),)), exact=True)


def group_size(statements: Sequence[Statement]) -> int:
    """How many of the first statements may be one loop nest."""
    group = find_group(statements)
    return 1 if group is None else len(group.members)


def groups(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for neighbouring statements as one loop nest."""
    group, stored = find_group(work.statements), frozenset(work.outs)
    nest = None if group is None else GroupNest.of(group, work.address, stored)
    if group is None or nest is None or len(group.members) < len(work.statements):
        return

    def build(builder: KernelBuilder) -> Kernel:
        builder.take(nest.buffers.values())
        scratch = builder.rows()
        body = nest_loops(nest, machine, scratch)
        again = GroupNest.of(group, builder.address, stored) if machine.portable else None
        return builder.kernel(body, None if again is None else nest_loops(again, machine.plain, scratch))

    schedule = Schedule((Fuse(len(group.members)),)) + nest_schedule(nest, machine)
    yield Candidate("group", nest_cycles(nest, machine), build, schedule)
