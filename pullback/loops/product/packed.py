"""Packed, cache-blocked products: a contraction becomes copies to panels and a register kernel.

    for blocks of K:
        for blocks of N:    panels of B := its block
            for blocks of M:    panels of A := its block
                for panels of B, panels of A:
                    multiply: rows x vectors accumulators += a panel of A times a panel of B
                in the last block of K: the rest of the statement, for this block of the output

`blocking` chooses the parts, the tile and the blocks, `packing` writes the copies. Partial sums go to the output itself
where its element is that sum or a function of it and lies where vectors can store it, else to working memory. A
statement y := y + α Σ, such as the update of a parameter by its gradient, adds to y from the first block on. A sum has
one accumulator for each block of K, in order, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide
from pullback.ir.program import statement_reads
from pullback.ir.traverse import Substitution, walk
from pullback.ir.types import DType, i64
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.analysis.joined import elements
from pullback.loops.memory.plan import mentioned
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position, free_variables
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.lower import bring_plain, element_loops, without_units
from pullback.loops.product import blocking
from pullback.loops.product.blocking import (
    FlatAxis,
    PackedPlan,
    best_packed_plan,
    form,
    in_place_runs,
    is_run,
    runs,
    whole_levels,
)
from pullback.loops.product.border import Border
from pullback.loops.product.contraction import Contraction, size
from pullback.loops.product.edge import edge, store_part
from pullback.loops.product.listed import MANY, list_steps
from pullback.loops.product.multiply import Form, Listed, Walk, dots, multiply
from pullback.loops.product.orders import orders
from pullback.loops.product.packing import Packer, PanelBlock, Panels, around, blocks, over_panels
from pullback.loops.product.residues import Part, parts
from pullback.loops.product.sweep import find_sweep, sweep
from pullback.loops.product.turn import square, store_across
from pullback.loops.program import nodes
from pullback.loops.program.cover import is_open
from pullback.loops.program.nodes import Call, If, Kernel, Stmt, either
from pullback.loops.program.schedule import PLAIN, Numbered, Schedule, Vector
from pullback.loops.program.values import Buffer, Holds, View
from pullback.loops.vectors.nest import map_reductions
from pullback.loops.vectors.tile import plan_tile, tile
from pullback.machine import Machine
from pullback.records import dataclass, replace

PACKED = 1 << 14  # elements of B from which panels pay, if vectors could read it in place and sizes are open
LONG = 128  # steps of a sum along memory from which on few rows or columns need no panels
SHALLOW = 8  # steps of an open sum below which panels do not pay
WORTH = 0.98  # another order of a product's variables must take at most this fraction of the cycles


def products(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for contractions that are worth packing."""
    s = work.statement
    if not isinstance(s, ir.Build):
        return
    whole = without_units(s)
    reads = _apart(whole, work)
    if not reads:
        return
    summed = (v for e in whole.values for n in walk(e) if isinstance(n, ir.Reduce) for v in n.vars)
    opened = any(map(is_open, (*whole.vars, *summed)))
    found = [Part(whole, flat_position(whole.vars))] if opened else parts(whole)
    several = len(found) > 1 or found[0].build is not whole
    if several and _work(whole) < blocking.LEAST_WORK:
        return
    ways = [way for part in found if (way := _way(part, work, machine, several)) is not None]
    if len(ways) < len(found):
        return

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, ir.Build)
        for r in reads:
            builder.parameter(r)
        body = [x for way in ways for x in way.statements(builder)]
        return bring_plain(s, body, builder, machine)

    numbered = [(Numbered(k + 1, len(ways)),) if several else () for k in range(len(ways))]
    steps = [step for n, way in zip(numbered, ways, strict=True) for step in (*n, *way.schedule.steps)]
    yield Candidate(ways[0].name, sum(way.cycles for way in ways), build, Schedule(tuple(steps)))


@dataclass(frozen=True)
class _OrderedWay:
    """A way to compute a part: kind, estimate, schedule, writer, and when open sizes suffice."""

    name: str
    cycles: float
    schedule: Schedule
    statements: Callable[[KernelBuilder], Sequence[Stmt]]
    room: tuple[Cond, ...] = ()


def _way(part: Part, work: Work, machine: Machine, alone: bool) -> _OrderedWay | None:
    """The way to compute a part; None to leave it to other strategies.

    Args:
        alone: whether to do it here even if packing does not pay.
    """
    ways: list[_OrderedWay] = []
    if (swept := find_sweep(part, work, machine)) is not None:
        lanes = machine.lanes(swept.total.dtype.size)
        lines = size((*swept.columns, *swept.total.vars)) * swept.total.dtype.size / machine.line  # each read once
        cycles = machine.widest * _work(part.build) / (machine.ports * lanes) + lines * machine.waits[1]
        schedule = Schedule((Vector(part.build.vars[-1].name, lanes),))
        ways.append(_OrderedWay("sweep", cycles, schedule, partial(sweep, swept, part, machine=machine), swept.room))
        if not swept.room:
            return ways[0]
    best: tuple[Part, PackedPlan] | None = None
    for way in orders(part, work.address):
        holds = partial(_holds_sums, way, work=work)
        plan = best_packed_plan(way.build, way.position, work.address, machine, holds, work.wish)
        if plan is not None and (best is None or plan.cycles < WORTH * best[1].cycles):
            best = way, plan
    other = _unpacked(part, work, machine) if alone else None
    if best is not None and (other is None or other.name != "tiles" or other.cycles >= best[1].cycles):
        own, packing = best
        room = tuple(_room(packing))
        ways += [_OrderedWay("tiles", packing.cycles, PLAIN, lambda _: [], few) for few in _few(packing) if room]
        ways.append(_OrderedWay("packed", packing.cycles, packing.schedule,
                    lambda builder: _PackedWriter(own, packing, builder, machine).body(), room))
    return _where_it_pays(ways, part, machine) if ways else other


def _where_it_pays(ways: list[_OrderedWay], part: Part, machine: Machine) -> _OrderedWay:
    """The last way; earlier ways and tiles are chosen at run time for sizes that favor them."""

    def statements(builder: KernelBuilder) -> list[Stmt]:
        made = [(w.room, tuple(w.statements(builder))) for w in ways]
        small = (_small(part.build, builder, machine),) if ways[-1].room else ()
        body: tuple[Stmt, ...] = small
        for room, way in reversed(made):
            body = (If(Holds(room), way or small, body),) if room else way
        return list(body)

    return replace(ways[-1], statements=statements, room=())


def _unpacked(part: Part, work: Work, machine: Machine) -> _OrderedWay:
    """The way to compute a part without packing: tiles if possible, else plain loops."""
    s = part.build
    tiling = plan_tile(s, part.address(work), machine)
    if tiling is not None:
        def taken(builder: KernelBuilder) -> list[Stmt]:
            builder.take(tiling.nest.buffers.values())
            return list(tiling.statements())

        return _OrderedWay("tiles", tiling.cycles, tiling.schedule, taken)
    return _OrderedWay("loops", statement_cycles(s, machine), PLAIN, lambda builder: element_loops(
        s, part.address(builder), builder))


def _room(plan: PackedPlan) -> Iterator[Cond]:
    """The conditions on open sizes under which packing pays; else few rows are swept, few columns tiled."""
    c, t = plan.contraction, plan.tile
    m, n, k = (elements(v.extent for v in vs) for vs in (plan.rows.variables, c.columns, c.depth))
    least = [(n, t.lanes // 2), (k, SHALLOW)]
    if c.b.plain is not None:
        across, along = (runs(whole_levels(vs), c.b.plain[1]) for vs in (c.columns, c.depth))
        if form(across, along) == "rows":
            least = [(m, 4 * t.rows), (n, t.lanes // 2), (n * k, PACKED)]
        elif is_run(along):
            least.append((m, t.rows // 2 + 1))
    for extent, enough in least:
        test = cond(">=", extent - enough)
        if extent.constant is None and isinstance(test, Cond):
            yield test


def _few(plan: PackedPlan) -> Iterator[tuple[Cond, ...]]:
    """The open sizes, few columns or rows and long sums along memory, for which tiles beat panels."""
    c = plan.contraction
    m, n, k = (elements(v.extent for v in vs) for vs in (plan.rows.variables, c.columns, c.depth))
    if all(o.plain is not None and is_run(runs(whole_levels(c.depth), o.plain[1])) for o in (c.a, c.b)):
        for few in (plan.tile.lanes - 1 - n, plan.tile.rows + 3 - m):
            tests = cond(">=", k - LONG), cond(">=", few)
            if False not in tests and few.constant is None:
                yield tuple(t for t in tests if isinstance(t, Cond))


def _small(s: ir.Build, builder: KernelBuilder, machine: Machine) -> Call:
    """The statement for small sizes in a separate kernel, so that it does not share registers."""
    body = tuple(_unpacked(Part(s, flat_position(s.vars)), builder.work, machine).statements(builder))
    used = {b for x in nodes.walk(body) for b in mentioned(x)}
    params = tuple(b for b in builder.params.values() if b in used)
    kernel = Kernel(f"{s.outs[0].name}_tiles", params, free_variables(body), body, builder.comment)
    return Call(kernel, tuple(map(View, params)))


def _work(s: ir.Build) -> int:
    """The number of terms of the statement's sums."""
    sums = dict.fromkeys(n for v in s.values for n in walk(v) if isinstance(n, ir.Reduce))
    return sum(size((*s.vars, *r.vars)) for r in sums)


def _apart(s: ir.Build, work: Work) -> list[ir.Ref]:
    """The arrays that the statement's sums read; empty without sums, or if they read what it writes."""
    outs = {work.parameter(o) for o in s.outs}
    sums = [n for v in s.values for n in walk(v) if isinstance(n, ir.Reduce)]
    reads = [r for r in statement_reads(s) if any(r in n.refs for n in sums)]  # in an order: this names parameters
    return [] if any(work.parameter(r) in outs for r in reads) else reads


def _holds_sums(part: Part, c: Contraction, work: Work) -> bool:
    """Whether the output can hold partial sums: of their type, and not read otherwise."""
    s = part.build
    if len(s.outs) != 1 or s.outs[0].dtype is not c.total.dtype:
        return False
    out = work.parameter(s.outs[0])
    old = any(work.parameter(r) is out for r in statement_reads(s))
    return not old or _update(part, work) is not None


@dataclass(frozen=True)
class _Update:
    """A statement that adds a multiple of its sum to its output: the factor, and a scalar array."""

    factor: float
    scale: ir.Ref | None


def _update(part: Part, work: Work) -> _Update | None:
    """The update y[i] + factor * scale * sum in place of y; None if the statement is no update."""
    s = part.build
    value = s.values[0]
    if len(s.outs) != 1 or not isinstance(value, ir.Add) or part.position is not flat_position(s.vars):
        return None
    rest = [t for t in value.args if not (isinstance(t, ir.Get) and work.holds(t.ref, s.outs[0])
                                          and work.address(t.ref, t.indices)[1] is part.position)]
    if len(value.args) != 2 or len(rest) != 1:
        return None
    factors = rest[0].args if isinstance(rest[0], ir.Mul) else tuple(rest)
    numbers = [f for f in factors if isinstance(f, ir.Const)]
    scales = [f.ref for f in factors if isinstance(f, ir.Get) and f.ref.rank == 0 and not work.holds(f.ref, s.outs[0])]
    others = [f for f in factors if not isinstance(f, ir.Const) and not (isinstance(f, ir.Get) and f.ref in scales)]
    if len(scales) > 1 or len(others) != 1 or not isinstance(others[0], ir.Reduce):
        return None
    return _Update(prod(float(n.value) for n in numbers), scales[0] if scales else None)


@dataclass(frozen=True)
class _Lying:
    """The way tiles read a block of A.

    Attributes:
        first: its first offset.
        row: the distance between the beginnings of two rows.
        form: a function that returns the form for `multiply` of a tile with a number of rows.
        numbers: further index arguments of the tile.
        lets: indices to set first.
        skipped: steps of the sum to leave out at the beginning.
    """

    buffer: Buffer
    first: Index
    row: Index
    form: Callable[[int], bool | Walk]
    numbers: dict[str, Index]
    lets: tuple[Stmt, ...] = ()
    skipped: Index = ZERO_INDEX


_MakeTile = Callable[[Index, int, Index, Index, int, Index], list[Stmt]]
"""The statements of a tile: its first row, its height and how many rows exist; the same of its columns."""


class _PackedWriter:
    """Writes the loops of a statement under a plan."""

    def __init__(self, part: Part, plan: PackedPlan, builder: KernelBuilder, machine: Machine) -> None:
        self.s = s = part.build
        self.position = part.position
        self.plan = plan
        self.builder = builder
        self.machine = machine
        c = self.contraction = plan.contraction
        self.out = builder.parameter(s.outs[0])
        self._working: dict[str, Buffer] = {}
        self.a = None if plan.in_place else self._panel_memory("a", plan.rows)
        self.b = self._panel_memory("b", plan.columns)
        self.lists = self._lists()
        self.packer = Packer(builder, plan.tile.lanes, self._memory, machine)
        self.whole = elements(v.extent for v in c.depth)
        self.inside = (*c.only_a, *c.rows, *c.only_b, *c.columns)  # axes of the partial sums
        self.direct = plan.storing != "aside"
        update = _update(part, builder.work) if self.direct else None
        self.update = update or _Update(1.0, None)
        self.adds = update is not None
        self.half = self._half()
        self.partial = self.out if self.direct else self._memory("partial", size(self.inside))
        self.partial_ref = ir.Ref("partial", c.total.dtype, (elements(v.extent for v in self.inside),))

    def _panel_memory(self, side: str, g: FlatAxis) -> Buffer:
        """The working memory for a block's panels; smaller blocks need no more."""
        lanes = self._panels(side, as_index(g.block)).packed.constant or 0
        return self._memory(f"panels_{side}", lanes * self.plan.depth.block)

    def _memory(self, name: str, count: int, dtype: DType | None = None) -> Buffer:
        """Working memory that may have several uses, with room for each."""
        if name not in self._working:
            like = Buffer(name, dtype or self.contraction.total.dtype, (), "parameter", as_index(count))
            self._working[name] = self.builder.scratch(name, like, count)
        self.builder.enlarge(self._working[name], count)
        return self._working[name]

    def body(self) -> list[Stmt]:
        """The loops: outermost those over shared variables and blocks of the sum."""
        c = self.contraction
        shared = {v: as_index(Var(v.name, v.extent)) for v in c.shared}

        def deep(depth: PanelBlock) -> list[Stmt]:
            sides = ("a", "b") if self.plan.a_first else ("b", "a")
            return self._sides(sides, depth, shared, {})

        return around(shared, blocks(self.plan.depth, deep, independent=False))

    def _sides(
        self, sides: tuple[str, ...], depth: PanelBlock, at: dict[Var, Index], done: dict[str, PanelBlock]
    ) -> list[Stmt]:
        """Loops over the blocks of the named operands, each packed, around the inner loops."""
        side, *rest = sides
        c, plan = self.contraction, self.plan
        operand, group, others = (c.a, plan.rows, c.only_a) if side == "a" else (c.b, plan.columns, c.only_b)
        own = {v: as_index(Var(v.name, v.extent)) for v in others}

        def block(b: PanelBlock) -> list[Stmt]:
            now, both = {**at, **own}, {**done, side: b}
            into = self.a if side == "a" else self.b
            packed = [] if into is None else self.packer.pack(operand, b, depth, self._panels(side, b.size), into, now)
            if side == "b" and self.lists is not None:
                packed += self._list_steps(self.lists, b.size, depth.size)
            if rest:
                return [*packed, *self._sides(tuple(rest), depth, now, both)]
            return self._product(both["a"], both["b"], depth, now, packed)

        return around(own, blocks(group, block))

    def _lists(self) -> Buffer | None:
        """The memory for lists of steps at which panels of B have nonzeros; None if they do not pay.

        Tiles that walk over A, or whose sums end early, take other steps.
        """
        c, plan = self.contraction, self.plan
        known = [self.builder.work.zeros.get(o.term.ref) if isinstance(o.term, ir.Get) else None for o in (c.a, c.b)]
        lying = in_place_runs(c.a, plan.rows, plan.depth) if plan.in_place else None
        if any(map(is_open, (*c.rows, *c.columns, *c.depth))) or (lying is not None and not is_run(lying[1])):
            return None
        if known[1] is None or any(z is not None and (z.triangle or any(z.inside)) for z in known):
            return None
        assert isinstance(c.b.term, ir.Get)
        seeded = {c.b.term.indices[p].single for p in known[1].seeds}
        tiles = (plan.rows.block if plan.a_first else size(c.rows)) // plan.tile.rows
        if seeded.isdisjoint((*c.columns, *c.depth)) or size(c.columns) <= plan.tile.columns or tiles < MANY:
            return None
        return self._memory("lists", -(-plan.columns.block // plan.tile.columns) * (plan.depth.block + 1), i64)

    def _list(self, lists: Buffer, column: Index, steps: Index) -> View:
        """The list of the panel that begins at a column."""
        return View(lists, floor_divide(column, as_index(self.plan.tile.columns)) * (steps + 1))

    def _list_steps(self, lists: Buffer, count: Index, steps: Index) -> list[Stmt]:
        """List the steps at which panels of B have nonzeros."""
        dtype, lanes = self.contraction.total.dtype, self.plan.tile.lanes

        def panel(first: Index, width: int, _: Index) -> list[Stmt]:
            views = View(self.b, first * steps), self._list(lists, first, steps)
            return [Call.by_name(list_steps(dtype, lanes, width), views, {"steps": steps})]

        return over_panels(self._panels("b", count), "panel", panel)

    def _panels(self, side: str, count: Index) -> Panels:
        t = self.plan.tile
        if side == "a":
            return Panels.of(count, t.rows, 1)
        alone = self.plan.lone and count.constant is not None and count.constant % t.columns == 1
        return Panels.of(count, t.columns, 1 if alone else t.lanes)

    def _product(
        self, rows: PanelBlock, columns: PanelBlock, depth: PanelBlock, at: dict[Var, Index], packed: list[Stmt]
    ) -> list[Stmt]:
        """All register tiles of two blocks, one just packed, and the epilogue after the sum's last block.

        A block of A that turns out to be one run per row, such as one image of a batch, is not packed.
        """
        lying = self._lying(rows, depth, at, self.plan.in_place)
        out = [*packed, *lying.lets, *self._tiles(rows, columns, depth, lying, at)]
        plain = self.contraction.a.plain if self.a is not None and not self.plan.a_first else None
        if plain is not None and rows.group.most and depth.group.most:
            down, along = (runs(b.levels, plain[1]) for b in (rows, depth))
            if len(down) == 1 and len(along) > 1 and along[-1].step is ONE_INDEX:
                lying = self._lying(rows, depth, at, True)
                tiles = [*lying.lets, *self._tiles(rows, columns, depth, lying, at)]
                out = either(cond("==", elements(r.trips for r in along[:-1]) - 1), tiles, out)
        finish = self._finish(rows, columns, at)
        return [*out, *either(cond("==", depth.start + depth.size - self.whole), finish)] if finish else out

    def _tiles(
        self, rows: PanelBlock, columns: PanelBlock, depth: PanelBlock, lying: _Lying, at: dict[Var, Index]
    ) -> list[Stmt]:
        """The loops over the tiles of two blocks."""
        make = self._tile(rows, columns, depth, lying, at)

        def one(i: Index, height: int, present: Index, j: Index, width: int, used: Index) -> list[Stmt]:
            test = self._is_read((rows.start + i, height), (columns.start + j, width))
            return [] if test is False else either(test, make(i, height, present, j, width, used))

        across, down = self._panels("b", columns.size), self._panels("a", rows.size)
        steps, width = (b.size.constant or b.group.block for b in (depth, columns))
        if steps * width * self.contraction.total.dtype.size <= blocking.Blocks.of(self.machine).inner:
            return over_panels(
                down, "row", lambda i, h, r: over_panels(across, "column", lambda j, w, u: one(i, h, r, j, w, u))
            )
        return over_panels(
            across, "column", lambda j, w, u: over_panels(down, "row", lambda i, h, r: one(i, h, r, j, w, u))
        )

    def _tile(
        self, rows: PanelBlock, columns: PanelBlock, depth: PanelBlock, lying: _Lying, at: dict[Var, Index]
    ) -> _MakeTile:
        """A function that makes the tile at a row and a column of two blocks."""
        t, dtype = self.plan.tile, self.contraction.total.dtype
        base, row_step, column_step = self._place({**at, **rows.at, **columns.at})
        scale = () if self.update.scale is None else (View(self.builder.parameter(self.update.scale)),)
        by = self.update.factor, bool(scale)
        begun = as_index(1) if self.adds else depth.start

        def one(i: Index, height: int, present: Index, j: Index, width: int, used: Index) -> list[Stmt]:
            panel = View(self.b, j * depth.size + lying.skipped * width)
            operands: tuple[View, ...] = (View(lying.buffer, lying.first + i * lying.row), panel, *scale)
            steps = lying.numbers.get("steps", depth.size)
            if steps is depth.size and "steps0" not in lying.numbers:  # the sum is one loop
                steps = self._steps(depth, rows.start + i + height, columns.start + j + used)
            how: Form = lying.form(height)
            if self.lists is not None and width > 1:
                assert isinstance(how, bool) and steps is depth.size
                operands, how = (*operands[:2], self._list(self.lists, j, steps), *scale), Listed(how)
            at_c = View(self.partial, base + i * row_step + j * column_step)
            numbers: dict[str, Index | int] = {**lying.numbers, "steps": steps, "stride": row_step, "begun": begun}
            if present.constant is None or used.constant is None:
                part = edge(dtype, t.lanes, (height, width // t.lanes), lying.form(height), by)
                line = self._memory("line", height * width)
                numbers |= {"present": present, "used": used}
                return [Call.by_name(part, (*operands, View(line), at_c), numbers)]
            if width == 1:
                tile = dots(dtype, t.lanes, height, by)
            else:
                tile = multiply(dtype, t.lanes, height, width // t.lanes, how, by)
            if used.constant == width and self.plan.storing != "across":
                return [Call.by_name(tile, (*operands, at_c), numbers)]
            line = self._memory("line", height * width)
            aside = numbers | {"stride": width, "begun": ZERO_INDEX}
            made: list[Stmt] = [Call.by_name(tile, (*operands, View(line)), aside)]
            if self.plan.storing == "across":
                assert used.constant is not None
                sizes = height, width, used.constant
                return [*made, *self._across(line, sizes, at_c.offset, row_step, column_step, begun)]
            return [*made, *store_part(line, width, at_c, (present, used), row_step, begun, t.lanes)]

        return one

    def _half(self) -> tuple[Var, Var] | None:
        """The axes of the result, if it is read only where the second variable is at most the first."""
        s = self.builder.work.statement
        axes = self.builder.work.halves.get(s.outs[0])
        if axes is None or not isinstance(s, ir.Build) or self.position is not flat_position(self.s.vars):
            return None
        i, j = (s.vars[axis] for axis in axes)
        return (i, j) if i in self.s.vars and j in self.s.vars else None

    def _is_read(self, rows: tuple[Index, int], columns: tuple[Index, int]) -> Cond | bool:
        """Whether an element of a tile is read, given its first row and column, and its size."""
        c = self.contraction
        for low, high, mine in ((rows, columns, (c.rows, c.columns)), (columns, rows, (c.columns, c.rows))):
            if self.half is not None and mine == ((self.half[0],), (self.half[1],)):
                return cond(">=", low[0] + (low[1] - 1) - high[0])
        return True

    def _steps(self, depth: PanelBlock, row: Index, column: Index) -> Index:
        """The steps of the sum that a tile needs before this row and column, where a triangle ends."""
        c = self.contraction
        if depth.start is not ZERO_INDEX or len(c.depth) != 1:
            return depth.size
        for side, mine, end in ((c.a, c.rows, row), (c.b, c.columns, column)):
            g = side.term
            zeros = self.builder.work.zeros.get(g.ref) if isinstance(g, ir.Get) else None
            if not isinstance(g, ir.Get) or zeros is None or zeros.triangle is None or len(mine) != 1:
                continue
            p, q = zeros.triangle
            whole = depth.size is c.depth[0].extent
            if g.indices[p].single is mine[0] and g.indices[q].single is c.depth[0] and whole:
                return end
        return depth.size

    def _lying(self, rows: PanelBlock, depth: PanelBlock, at: dict[Var, Index], in_place: bool) -> _Lying:
        """The location of a block of A: its panels, or in place, as one run per row unless planned otherwise."""
        if not in_place:
            assert self.a is not None
            return _Lying(self.a, ZERO_INDEX, depth.size, lambda _: False, {"row": ZERO_INDEX})
        plain = self.contraction.a.plain
        assert plain is not None
        buffer, address = plain
        down, along = (runs(b.levels, address) for b in (rows, depth))
        base = Substitution(variables={**at, **rows.at, **depth.at}).index(address)
        row = down[0].step if down else ZERO_INDEX
        border = Border.of(self.contraction.a, self.builder.work.zeros, rows, depth, at)
        if is_run(along) or not self.plan.in_place:
            lets, steps = border.block(depth.size)
            return _Lying(buffer, base, row, lambda _: True, {"row": row, "steps": steps}, tuple(lets))
        numbers: dict[str, Index] = {}
        lets, skipped = [], ZERO_INDEX
        for n, r in enumerate(reversed(along)):
            more, first, steps = border.loop(r, str(n))
            numbers |= {f"steps{n}": steps, f"step{n}": r.step, f"whole{n}": r.trips}
            base, skipped, lets = base + first * r.step, skipped + first * r.weight, [*lets, *more]
        apart, loops = row.constant, len(along)
        assert apart is not None
        part = bool(lets)
        return _Lying(buffer, base, row, lambda n: Walk(tuple(apart * i for i in range(n)), loops, part), numbers,
                      tuple(lets), skipped)

    def _across(
        self, line: Buffer, tile: tuple[int, int, int], at: Index, apart: Index, stride: Index, begun: Index
    ) -> list[Stmt]:
        """Store a tile's existing columns transposed, written or added."""
        height, width, used = tile
        out: list[Stmt] = []
        done = 0
        assert apart.constant is not None
        for lanes in (self.plan.tile.lanes, 1):
            n = square(line.dtype, height, apart.constant, lanes)
            if count := (used - done) // n * n:
                numbers: dict[str, Index | int] = {"columns": count, "width": width, "stride": stride, "begun": begun}
                views = (View(line, as_index(done)), View(self.partial, at + stride * done))
                out.append(Call.by_name(store_across(line.dtype, height, apart.constant, lanes), views, numbers))
            done += count
        return out

    def _place(self, at: dict[Var, Index]) -> tuple[Index, Index, Index]:
        """The location of the partial sum at these variables, and the row and column distances of a tile."""
        flat = self.position if self.direct else flat_position(self.inside)
        rows = self.plan.rows
        steps = [runs(whole_levels(g), flat) for g in ((rows.cut, *rows.inner), self.contraction.columns)]
        down, across = (s[0].step if s else ZERO_INDEX for s in steps)
        return Substitution(variables=at).index(flat), down, across

    # The rest of the statement ------------------------------------------------------------------------------------

    def _finish(self, rows: PanelBlock, columns: PanelBlock, at: dict[Var, Index]) -> list[Stmt]:
        """The statement's values for an output block, with the sum read from its accumulated parts."""
        if self.adds or (self.direct and isinstance(self.s.values[0], ir.Reduce)):
            return []
        where = {**at, **rows.at, **columns.at}
        trips = {v: n for b in (rows, columns) for v, n in b.levels}
        local = [Var(v.name, trips.get(v, ONE_INDEX)) for v in self.s.vars]
        for v, own in zip(self.s.vars, local, strict=True):
            if v in trips:
                where[v] = where[v] + as_index(own)
        total = expr.get(self.partial_ref, self._place(where)[0])
        m = Substitution(variables=where)
        values = tuple(m.scalar(map_reductions(v, lambda _: total)) for v in self.s.values)
        part = Part(replace(self.s, vars=tuple(local), values=values), m.index(self.position))
        self.builder.own[self.partial_ref] = self.partial
        loops = tile(part.build, part.address(self.builder), self.machine)
        return element_loops(part.build, part.address(self.builder), self.builder) if loops is None else list(loops)
