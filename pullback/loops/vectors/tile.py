"""Tiled vector kernels: a build lowered to register tiles of explicit vectors.

Before    y = build o < 12, i < 8, j < 8 { f(sum c < 6, u < 5, v < 5 { k[o, c, u, v] * x[c, i + u, j + v] }) }
After     for o in steps of 3, i in steps of 4:
              12 accumulators of 8 lanes (3 of o, 4 of i, one vector of j)
              for c, u, v: 3 scalars of k, 4 vectors of x, 12 multiply-adds
              f of each accumulator, 12 stores

`vectors.nest` merges axes and chooses the vector axis, its vectors and the tiled axes. Here the body is expanded for
each element of the tile by substitution; hash-consing makes equal loads one node and so one temporary. Conditions
inside a sum become bounds of its loops. The rest of an extent takes narrower vectors, then single elements.

It does not block for the cache and does not pack. It declines conditions that depend on the vector axis, data-dependent
indices, and functions without a vector form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide
from pullback.ir.reduction import neutral
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.analysis.zeros import Zeros
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import Address, KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.lower import bring_plain
from pullback.loops.plain.scalar import named
from pullback.loops.program.cover import cover, halves, is_open, overlap, typical
from pullback.loops.program.nodes import If, Kernel, Let, Stmt, Store, values_in
from pullback.loops.program.schedule import PLAIN, Fuse, Schedule, Vector
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Buffer, Choice, Holds, Literal, Load, Read, Temp, Type, Value
from pullback.loops.vectors.accumulators import Accumulators
from pullback.loops.vectors.fused import nest_cycles, nest_loops, nest_schedule
from pullback.loops.vectors.group import find_group
from pullback.loops.vectors.lanes import widened
from pullback.loops.vectors.nest import Nest
from pullback.loops.vectors.plans import Phase, Plan, best_plan, cache_cycles
from pullback.loops.vectors.position import find_position
from pullback.loops.vectors.writer import Writer
from pullback.machine import Machine
from pullback.records import dataclass, replace

SMALL = 8  # plain code suffices for fewer element evaluations
NARROW = 4  # single elements suffice for fewer lanes
FEW = 4  # least elements of a tile (or half of it, if more) for the remainder of an open size
LONG = 4  # least vectors of a sum along memory for which that pays if tiles need none


@dataclass(frozen=True)
class Tiling:
    """A tiled build: the nest, and plans, each for sizes too small for the previous one."""

    nest: Nest
    plans: tuple[Plan, ...]
    machine: Machine

    @property
    def cycles(self) -> float:
        """The estimated cycles, cache waits included."""
        return self.plans[0].cycles + cache_cycles(self.nest, self.plans[0], self.machine)

    @property
    def schedule(self) -> Schedule:
        """The loop schedule of the first plan."""
        return self.plans[0].schedule

    def statements(self) -> tuple[Stmt, ...]:
        """The loops."""
        root = Scope()
        _write(self.nest, self.plans, self.machine, root)
        return tuple(root.statements)


def plan_tile(s: ir.Build, address: Address, machine: Machine, wish: Schedule = PLAIN,
              zeros: Mapping[ir.Ref, Zeros] | None = None) -> Tiling | None:
    """The tiling of a build; None if the scalar lowering must do it.

    Args:
        s: a build.
        address: returns an element's buffer and flat index.
        machine: the target.
        wish: schedule steps that it must have.
        zeros: where arrays are zero.
    """
    nest = Nest.of(s, address, zeros)
    if nest is None or nest.elements * nest.trips < SMALL:
        return None
    plan = best_plan(nest, machine, lambda p: wish is PLAIN or p.schedule.has(wish))
    if plan is None:
        return None
    return Tiling(nest, tuple(_every(nest, plan, machine)), machine)


def _every(nest: Nest, plan: Plan, machine: Machine) -> Iterator[Plan]:
    """The plan, then fallbacks for small open sizes: one tiled axis, not summed, narrower vectors."""
    across = single = None
    if plan.reduced and is_open(plan.axis):
        across = best_plan(nest, machine, lambda p: not p.reduced and bool(p.tiles))
    if plan.open_tiles or across is not None:
        single = best_plan(nest, machine, lambda p: not p.open_tiles) or replace(plan, tiles=())
    apart = [replace(plan, tiles=(one,)) for one in plan.open_tiles if len(plan.open_tiles) > 1]
    for p in filter(None, (plan, *apart, across, single)):
        yield p
        lanes = 1 if p.reduced or not is_open(p.axis) else p.phases[0].lanes[0]
        while lanes > 1:
            lanes = lanes // 2 if lanes > NARROW else 1
            yield replace(p, phases=(Phase(1, (lanes,)),))


def tile(s: ir.Build, address: Address, machine: Machine) -> tuple[Stmt, ...] | None:
    """The statements of a vector kernel for a build, or None; arguments as for `plan_tile`."""
    found = plan_tile(s, address, machine)
    return None if found is None else found.statements()


Sizes = dict[Var, tuple[Index, int]]
Chunks = Sequence[tuple[Index, int]]  # the start of a vector on the axis, and its lanes


@dataclass(frozen=True, eq=False)
class Element:
    """A tile element: the values of its variables, with the lane's on the axis, and its lanes."""

    at: Substitution
    lanes: int


def _write(nest: Nest, plans: Sequence[Plan], machine: Machine, scope: Scope) -> None:
    """Loops over output axes, outermost first, by the first plan that fits the sizes."""
    plan, lower = plans[0], plans[1:]
    axis, writer = plan.axis, _TileWriter(nest, plan, machine)
    order = [v for v in nest.variables if v is not axis or plan.reduced]
    least = [(v, min(t, max(FEW, t // 2))) for v, t in plan.open_tiles]
    if is_open(axis) and not plan.reduced:
        least.append((axis, plan.phases[0].lanes[0]))
    elif is_open(axis) and any(not p.reduced and p.tiles for p in lower):
        least.append((axis, LONG * plan.lanes))
    tests = [cond(">=", v.extent - n) for v, n in least if n > 1]
    room = tuple(c for c in tests if isinstance(c, Cond))
    if writer.disjoint or not lower or all(c is True for c in tests):
        return writer.loops(order, {}, scope)
    if False in tests:
        return _write(nest, lower, machine, scope)
    inside, outside = scope.guard(room), scope.guard()
    writer.loops(order, {}, inside)
    _write(nest, lower, machine, outside)
    scope.statements.append(If(Holds(room), tuple(inside.statements), tuple(outside.statements)))
    return None


class _TileWriter:
    """Writes the loops of a nest under a plan, into a given scope."""

    def __init__(self, nest: Nest, plan: Plan, machine: Machine) -> None:
        self.nest = nest
        self.plan = plan
        self.machine = machine
        self.writer = Writer.of(nest.buffers, nest.dtype)

    @property
    def disjoint(self) -> bool:
        """Whether each element must be computed once: overlaps waste work without sums, and break updates."""
        read = {self.nest.buffers[g.ref] for g in self.nest.gets}
        return not self.nest.reductions or any(o.buffer in read for o in self.nest.outs)

    def loops(self, order: list[Var], sizes: Sizes, scope: Scope) -> None:
        """The loops over axes by tiles, with a narrower remainder, then over vectors."""
        if not order:
            return self._block(sizes, (), scope) if self.plan.reduced else self._vectors(sizes, scope)
        v, *rest = order
        t = dict(self.plan.tiles).get(v, 1)

        def tile(start: Index, size: int) -> list[Stmt]:
            inside = scope.step(start, not is_open(v))
            self.loops(rest, {**sizes, v: (start, size)}, inside)
            return inside.statements

        if t == 1 or self.disjoint or not is_open(v):
            scope.statements += cover(v, (t, 1 if is_open(v) else typical(v) % t), tile)
        else:
            scope.statements += overlap(v, (t, min(t, max(FEW, t // 2))), tile)
        return None

    def _vectors(self, sizes: Sizes, scope: Scope) -> None:
        """The loop over the vector axis by phases; for open sizes the first phase and its halves."""
        axis, phases = self.plan.axis, {p.step: p for p in self.plan.phases}
        first = self.plan.phases[0]

        def block(start: Index, size: int) -> list[Stmt]:
            inside = scope.step(start, not is_open(axis))
            phase = phases.get(size, Phase(1, (size,)))
            chunks = [(start + sum(phase.lanes[:k]), n) for k, n in enumerate(phase.lanes)]
            self._block(sizes, chunks, inside)
            return inside.statements

        if not is_open(axis):
            scope.statements += cover(axis, tuple(phases), block, "vector", self._patterned())
        elif not self.disjoint and first.step > 1:
            scope.statements += overlap(axis, (first.step, first.lanes[0]), block, "vector")
        else:
            scope.statements += cover(axis, (first.step, *halves(first.lanes[0])), block, "vector")

    def _patterned(self) -> bool:
        """Whether there are quotients or remainders of the axis."""
        axis = self.plan.axis
        return any(a is not axis for i in self.nest.gets_indices() for a in i.atoms if axis in a.free)

    def _elements(self, sizes: Sizes, chunks: Chunks) -> list[Element]:
        """The elements of a tile, the longest axis outermost, to keep shared values in registers."""
        order = sorted(sizes.items(), key=lambda item: -item[1][1])
        out = []
        for offsets in product(*(range(size) for _, (_, size) in order)):
            at = {v: start + k for (v, (start, _)), k in zip(order, offsets, strict=True)}
            if self.plan.reduced:
                out.append(Element(Substitution(variables=at), 1))
            out += [self._along_axis(at, start, lanes) for start, lanes in chunks]
        return out

    def _along_axis(self, at: Mapping[Var, Index], start: Index, lanes: int) -> Element:
        """A vector along the axis."""
        _, place = self.writer.inside(Scope(), start, lanes)
        return Element(Substitution(variables={**at, self.plan.axis: place}), lanes)

    def _inside(self, scope: Scope, lanes: int) -> Scope:
        return self.writer.inside(scope, ZERO_INDEX, lanes)[0]

    def _block(self, sizes: Sizes, chunks: Chunks, scope: Scope) -> None:
        """One tile: accumulators, the loops of each reduction, then values and stores."""
        elements = self._elements(sizes, chunks)
        self.writer.sums = {e.at.scalar(r) for e in elements for r in self.nest.reductions}
        last = {v: start + (size - 1) for v, (start, size) in sizes.items()}
        if chunks:
            start, lanes = chunks[-1]
            last[self.plan.axis] = start + (lanes - 1)
        for r in self.nest.reductions:
            different = {(e.at.scalar(r), e.lanes): e for e in elements}
            if self.plan.reduced:
                totals = self._across(r, list(different.values()), scope)
            else:
                totals = self._along(r, list(different.values()), last, scope)
            for (one, lanes), total in zip(different, totals, strict=True):
                self._inside(scope, lanes).temps[one] = total
        values = [[e.at.scalar(v) for v in self.nest.values] for e in elements]
        self.writer.count(v for row in values for v in row)
        for e, row in zip(elements, values, strict=True):
            inside = self._inside(scope, e.lanes)
            # Compute all values before any store: a result may overwrite another one's input.
            found = [widened(self.writer.value(v, inside), e.lanes) for v in row]
            if len(found) > 1:
                found = [named(v, "value", inside) for v in found]
            for o, value in zip(self.nest.outs, found, strict=True):
                scope.statements.append(Store(o.buffer, self.writer.first(e.at.index(o.offset), e.lanes), value))

    def _along(self, r: ir.Reduce, elements: list[Element], last: Mapping[Var, Index], scope: Scope) -> list[Value]:
        """The reduction for vectors of elements: a loop over all its variables, up to where a triangle ends."""
        sums = [Accumulators(r.op, r.dtype) for _ in elements]
        conds, body = _conditions(r, elements[0])
        needed = [cond(">=", last[i] - as_index(j)) for i, j in self.nest.ends if j in r.vars]
        conds += [c for c in needed if isinstance(c, Cond)]
        mark = len(scope.statements)
        nest = LoopNest(self.writer, scope, r.vars, conds)
        self._accumulate(body, elements, sums, nest.innermost)
        scope.statements[mark:mark] = _started(sums)
        nest.close()
        return [Read(t) for s in sums for t in s.temps.values()]

    def _across(self, r: ir.Reduce, elements: list[Element], scope: Scope) -> list[Value]:
        """The reduction with one of its variables along the lanes, which are combined at the end."""
        axis, widest, machine = self.plan.axis, self.plan.lanes, self.machine
        ways = self._ways(r, typical(axis) // widest)
        conds, body = _conditions(r, elements[0])
        sums = [Accumulators(r.op, r.dtype) for _ in elements]
        mark = len(scope.statements)
        nest = LoopNest(self.writer, scope, [v for v in r.vars if v is not axis], conds)
        inner = nest.innermost

        def step(start: Index, size: int) -> list[Stmt]:
            inside, lanes = inner.step(start, not is_open(axis)), min(size, widest)
            for way in range(size // lanes):
                wide = [self._along_axis(e.at.variables, start + way * widest, lanes) for e in elements]
                self._accumulate(body, wide, sums, inside, way)
            return inside.statements

        masked = is_open(axis) and self.nest.dtype.is_floating and self.nest.dtype.size * widest >= machine.narrowest
        steps = (widest,) if masked else halves(widest)
        inner.statements += cover(axis, (ways * widest, *steps), step, "vector")
        if masked:
            self._rest(r, body, elements, sums, inner)
        scope.statements[mark:mark] = _started(sums)
        nest.close()
        return [s.total(scope.statements) for s in sums]

    def _rest(
        self, r: ir.Reduce, body: ir.Scalar, elements: list[Element], sums: Sequence[Accumulators], scope: Scope
    ) -> None:
        """Add the remainder of an open axis after whole vectors, as one vector with some lanes in use."""
        axis, lanes = self.plan.axis, self.plan.lanes
        start = floor_divide(axis.extent, as_index(lanes)) * lanes
        wide = [self._along_axis(e.at.variables, start, lanes) for e in elements]
        there, some = (cond(">=", axis.extent - 1 - i) for i in (wide[0].at.variables[axis], start))
        if not isinstance(there, Cond) or not isinstance(some, Cond):
            assert some is False, "a rest of full vectors"
            return
        inside = scope.guard((some,))
        vectors = self._inside(inside, lanes)
        mask, none = self.writer.holding((there,), vectors), Literal(neutral(r.op, r.dtype), Type(r.dtype, lanes))
        terms = [e.at.scalar(body) for e in wide]
        self.writer.count(terms)
        for term, s in zip(terms, sums, strict=True):
            value = widened(self.writer.value(term, vectors.masked(mask)), lanes)
            counted = Choice(self.writer.mask(mask, r.dtype, vectors), value, none, none.type)
            inside.statements.append(s.add(counted, lanes))
        scope.statements.append(If(Holds((some,)), tuple(inside.statements)))

    def _ways(self, r: ir.Reduce, vectors: int) -> int:
        """Accumulators for each element, so that a chain of additions does not wait for itself.

        The remainder of an axis has as many as full tiles, so every element is summed in the same order.
        """
        ways, elements = self.machine.chains, prod(t for v, t in self.plan.tiles if v in r.free)
        while ways > 1 and (ways * elements > 8 or vectors < 2 * ways):
            ways //= 2
        return ways

    def _accumulate(
        self, body: ir.Scalar, elements: list[Element], sums: Sequence[Accumulators], scope: Scope, way: int = 0
    ) -> None:
        """Add the term of each element to its sum."""
        terms = [e.at.scalar(body) for e in elements]
        self.writer.count(terms)
        for e, term, s in zip(elements, terms, sums, strict=True):
            value = self.writer.value(term, self._inside(scope, e.lanes))
            scope.statements.append(s.add(value, e.lanes, way))
        scope.statements[:] = _held(scope.statements, self.machine.narrowest)


def _started(sums: Sequence[Accumulators]) -> list[Stmt]:
    """Initialize all accumulators with neutral elements, grouped by kind."""
    return [s for same in zip(*(t.start() for t in sums), strict=True) for s in same]


def _held(statements: list[Stmt], narrowest: int) -> list[Stmt]:
    """Keep in a register each full vector that is loaded once and used several times."""
    uses: dict[Temp, int] = {}
    for s in statements:
        for v in values_in(s):
            if isinstance(v, Read):
                uses[v.temp] = uses.get(v.temp, 0) + 1
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


def _conditions(r: ir.Reduce, element: Element) -> tuple[list[Cond], ir.Scalar]:
    """The conditions around a sum's term, which hold for a whole tile or not at all, and the term."""
    if not isinstance(r.arg, ir.Bracket):
        return [], r.arg
    conds = [element.at.condition(c) for c in r.arg.conds]
    assert False not in conds, "a term that is never there"
    return [c for c in conds if isinstance(c, Cond)], r.arg.arg


def tiles(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for single builds as tiles of vectors."""
    s = work.statement
    found = plan_tile(s, work.address, machine, work.wish, work.zeros) if isinstance(s, ir.Build) else None
    if found is None:
        return

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, ir.Build)
        builder.take(found.nest.buffers.values())
        return bring_plain(s, found.statements(), builder, machine)

    yield Candidate("tile", found.cycles, build, found.schedule, exact=found.nest.dtype.is_integer)


def positions(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for positions of extremes."""
    s = work.statement
    found = find_position(s, work.address, machine) if isinstance(s, ir.Build) else None
    if found is None:
        return

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, ir.Build)
        builder.take(found.nest.buffers.values())

        def scratch(dtype: DType, count: int) -> Buffer:
            return builder.scratch("extremes", Buffer("", dtype, (), "arena", as_index(1)), count)

        return bring_plain(s, found.statements(builder.parameter(s.outs[0]), scratch), builder, machine)

    cycles = points_cycles(found.nest.values, found.nest.variables, machine) / found.lanes
    yield Candidate("position", cycles, build, Schedule((Vector(found.axis.name, found.lanes),)), exact=True)


def group_size(statements: Sequence[ir.Statement]) -> int:
    """The number of first statements that may be one loop nest."""
    group = find_group(statements)
    return 1 if group is None else len(group.members)


def groups(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for neighboring statements as one loop nest."""
    group, stored = find_group(work.statements), frozenset(work.outs)
    nest = None if group is None else Nest.of_group(group, work.address, stored)
    if group is None or nest is None or len(group.members) < len(work.statements):
        return

    def build(builder: KernelBuilder) -> Kernel:
        builder.take(nest.buffers.values())
        scratch = builder.rows()
        plain = nest_loops(nest, machine.plain, scratch) if machine.portable else None
        return builder.kernel(nest_loops(nest, machine, scratch), plain)

    schedule = Schedule((Fuse(len(group.members)),)) + nest_schedule(nest, machine)
    yield Candidate("group", nest_cycles(nest, machine), build, schedule)
