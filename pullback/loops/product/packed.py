"""Packed, cache-blocked products: a contraction lowered to copies into panels and one register-blocked kernel.

    for blocks of K:
        for blocks of N:    panels of B := its block
            for blocks of M:    panels of A := its block
                for panels of B, panels of A:
                    multiply: rows x vectors accumulators += a panel of A times a panel of B
                in the last block of K: the rest of the statement, for this block of the output

`blocking` chooses the parts, the tile and the blocks, `packing` writes the copies. Partial sums go to the output
itself where its element is that sum or a function of it and lies where vectors can store it, else to working memory.
A statement y := y + α Σ, as the update of a parameter by its gradient, adds to y from the first block on.
A sum has one accumulator for each block of K, in order: the result does not depend on how the work is shared out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod

from pullback.ir import expr
from pullback.ir.expr import Add, Const, Get, Mul, Reduce, Ref
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Cond, Index, Var, as_index, cond
from pullback.ir.program import Build, statement_reads
from pullback.ir.traverse import Substitution, walk
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.analysis.joined import elements
from pullback.loops.memory.plan import mentioned
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position, free_variables
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.lower import bring_plain, without_units
from pullback.loops.product import blocking
from pullback.loops.product.blocking import FlatAxis, PackedPlan, best_packed_plan, form, runs, whole_levels
from pullback.loops.product.contraction import Contraction, size
from pullback.loops.product.finish import finish, scalar_loops
from pullback.loops.product.multiply import Walk, dots, multiply
from pullback.loops.product.orders import orders
from pullback.loops.product.packing import Packer, PanelBlock, Panels, around, blocks, over_panels, pieces
from pullback.loops.product.residues import Part, parts
from pullback.loops.product.sweep import find_sweep, sweep
from pullback.loops.product.turn import square, store_across
from pullback.loops.program import nodes
from pullback.loops.program.cover import is_open
from pullback.loops.program.nodes import Call, For, If, Kernel, LetIndex, Stmt, Store
from pullback.loops.program.schedule import PLAIN, Numbered, Schedule, Vector
from pullback.loops.program.values import Buffer, Holds, Load, Type, View, largest
from pullback.loops.vectors.nest import map_reductions
from pullback.loops.vectors.tile import plan_tile
from pullback.machine import Machine

PACKED = 1 << 14  # elements of B from which on panels pay, where vectors could read it as it lies and sizes are open
SHALLOW = 8  # steps of an open sum below which panels do not pay
WORTH = 0.98  # of a product's cycles that it takes in another order of its variables, for that to be taken


def products(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for contractions that are worth packing."""
    s = work.statement
    if not isinstance(s, Build):
        return
    whole = without_units(s)
    reads = _apart(whole, work)
    if not reads:
        return
    summed = (v for e in whole.values for n in walk(e) if isinstance(n, Reduce) for v in n.vars)
    opened = any(map(is_open, (*whole.vars, *summed)))
    found = [Part(whole, flat_position(whole.vars))] if opened else parts(whole)
    several = len(found) > 1 or found[0].build is not whole
    if several and _work(whole) < blocking.LEAST_WORK:
        return
    ways = [way for part in found if (way := _way(part, work, machine, several)) is not None]
    if len(ways) < len(found):
        return

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, Build)
        for r in reads:
            builder.parameter(r)
        body = [x for way in ways for x in way.statements(builder)]
        room = tuple(c for way in ways for c in way.room)
        if room:
            body = [If(Holds(room), tuple(body), (_small(s, builder, machine),))]
        return bring_plain(s, body, builder, machine)

    numbered = [(Numbered(k + 1, len(ways)),) if several else () for k in range(len(ways))]
    steps = [step for n, way in zip(numbered, ways, strict=True) for step in (*n, *way.schedule.steps)]
    yield Candidate(ways[0].name, sum(way.cycles for way in ways), build, Schedule(tuple(steps)))


@dataclass(frozen=True)
class _OrderedWay:
    """How one part is computed: its kind, estimate and schedule, what writes it, and when open sizes are enough."""

    name: str
    cycles: float
    schedule: Schedule
    statements: Callable[[KernelBuilder], list[Stmt]]
    room: tuple[Cond, ...] = ()


def _way(part: Part, work: Work, machine: Machine, alone: bool) -> _OrderedWay | None:
    """How to compute a part; None where that is left to other strategies.

    Args:
        alone: whether it is to be done here even where packing does not pay.
    """
    swept = find_sweep(part, work, machine)
    if swept is not None:
        lanes = machine.lanes(swept.total.dtype.size)
        lines = size((*swept.columns, *swept.total.vars)) * swept.total.dtype.size / machine.line  # each read once
        cycles = machine.widest * _work(part.build) / (machine.ports * lanes) + lines * machine.waits[1]
        vector = Vector(part.build.vars[-1].name, lanes)
        return _OrderedWay("sweep", cycles, Schedule((vector,)), lambda builder: sweep(swept, part, builder, machine))
    best: tuple[Part, PackedPlan] | None = None
    for way in orders(part, work.address):
        plan = best_packed_plan(way.build, way.position, work.address, machine, partial(_holds_sums, way, work=work))
        if plan is not None and (best is None or plan.cycles < WORTH * best[1].cycles):
            best = way, plan
    other = _unpacked(part, work, machine) if alone else None
    if best is None or (other is not None and other.name == "tiles" and other.cycles < best[1].cycles):
        return other
    own, packing = best
    return _OrderedWay("packed", packing.cycles, packing.schedule,
                lambda builder: _PackedWriter(own, packing, builder, machine).body(), tuple(_room(packing)))


def _unpacked(part: Part, work: Work, machine: Machine) -> _OrderedWay:
    """How to compute a part without packing: in tiles, else in plain loops."""
    s = part.build
    tiling = plan_tile(s, part.address(work), machine)
    if tiling is not None:
        def taken(builder: KernelBuilder) -> list[Stmt]:
            builder.take(tiling.nest.buffers.values())
            return list(tiling.statements())

        return _OrderedWay("tiles", tiling.cycles, tiling.schedule, taken)
    return _OrderedWay("loops", statement_cycles(s, machine), PLAIN, lambda builder: scalar_loops(
        s, s.vars, s.values, part.position, builder, builder.parameter))


def _room(plan: PackedPlan) -> Iterator[Cond]:
    """When open sizes are such that packing pays, and that there is room for a tile where it reads A as it lies."""
    c, t = plan.contraction, plan.tile
    m, n, k = (elements(v.extent for v in vs) for vs in (plan.rows.variables, c.columns, c.depth))
    least = [(m, t.rows), (n, t.lanes // 2), (k, SHALLOW)]
    if c.b.plain is not None and form(*(runs(whole_levels(vs), c.b.plain[1]) for vs in (c.columns, c.depth))) == "rows":
        least = [(m, 4 * t.rows), (n, t.lanes // 2), (n * k, PACKED)]
    for extent, enough in least:
        test = cond(">=", extent - enough)
        if extent.constant is None and isinstance(test, Cond):
            yield test


def _small(s: Build, builder: KernelBuilder, machine: Machine) -> Call:
    """The statement for small sizes, as a kernel of its own: beside others in one function it would share registers."""
    body = tuple(_unpacked(Part(s, flat_position(s.vars)), builder.work, machine).statements(builder))
    used = {b for x in nodes.walk(body) for b in mentioned(x)}
    params = tuple(b for b in builder.params.values() if b in used)
    kernel = Kernel(f"{s.outs[0].name}_tiles", params, free_variables(body), body, builder.comment)
    return Call(kernel, tuple(map(View, params)))


def _work(s: Build) -> int:
    """Terms of the statement's sums."""
    sums = dict.fromkeys(n for v in s.values for n in walk(v) if isinstance(n, Reduce))
    return sum(size((*s.vars, *r.vars)) for r in sums)


def _apart(s: Build, work: Work) -> list[Ref]:
    """What the statement's sums read; nothing where it has none, or they read what it writes."""
    outs = {work.parameter(o) for o in s.outs}
    sums = [n for v in s.values for n in walk(v) if isinstance(n, Reduce)]
    reads = [r for r in statement_reads(s) if any(r in n.refs for n in sums)]  # in an order: this names parameters
    return [] if any(work.parameter(r) in outs for r in reads) else reads


def _holds_sums(part: Part, c: Contraction, work: Work) -> bool:
    """Whether partial sums can stand in the output: its elements are of their type, and nothing else is read there."""
    s = part.build
    if len(s.outs) != 1 or s.outs[0].dtype is not c.total.dtype:
        return False
    out = work.parameter(s.outs[0])
    old = any(work.parameter(r) is out for r in statement_reads(s))
    return not old or _update(part, work) is not None


@dataclass(frozen=True)
class _Update:
    """A statement that adds a multiple of its sum to what its output holds: the factor, and an array of one number."""

    factor: float
    scale: Ref | None


def _update(part: Part, work: Work) -> _Update | None:
    """Whether a statement is y[i] + factor * scale * sum, y being where its output is; None where it is not."""
    s = part.build
    value = s.values[0]
    if len(s.outs) != 1 or not isinstance(value, Add) or len(value.args) != 2:
        return None
    if part.position is not flat_position(s.vars):
        return None
    olds = [
        t for t in value.args
        if isinstance(t, Get)
        and work.holds(t.ref, s.outs[0])
        and work.address(t.ref, t.indices)[1] is part.position
    ]  # fmt: skip
    sums = [t for t in value.args if t not in olds]
    if len(olds) != 1 or len(sums) != 1:
        return None
    factors = sums[0].args if isinstance(sums[0], Mul) else (sums[0],)
    numbers = [f for f in factors if isinstance(f, Const)]
    scales = [f.ref for f in factors if isinstance(f, Get) and f.ref.rank == 0 and not work.holds(f.ref, s.outs[0])]
    if len(numbers) + len(scales) + 1 != len(factors) or len(scales) > 1:
        return None
    if not any(isinstance(f, Reduce) for f in factors):
        return None
    return _Update(prod(float(n.value) for n in numbers), scales[0] if scales else None)


@dataclass(frozen=True)
class _Lying:
    """How tiles read a block of A.

    Attributes:
        first: where it begins.
        row: from where one row begins to where the next does.
        form: of a tile of so many rows, for `multiply`.
        numbers: what else the tile is told.
    """

    buffer: Buffer
    first: Index
    row: Index
    form: Callable[[int], bool | Walk]
    numbers: dict[str, Index]


@dataclass(frozen=True)
class _TileLine:
    """A tile in working memory: its width, the rows from the first that exists to behind the last, and the columns."""

    buffer: Buffer
    width: int
    first: Index
    end: Index
    used: Index


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
        self.a = None if plan.in_place else self._panel_memory("a", plan.rows)
        self.b = self._panel_memory("b", plan.columns)
        self.packer = Packer(builder, plan.tile.lanes, self._line, machine)
        self._working: Buffer | None = None
        self.whole = elements(v.extent for v in c.depth)
        self.inside = (*c.only_a, *c.rows, *c.only_b, *c.columns)  # axes of the partial sums
        self.direct = plan.storing != "aside"
        update = _update(part, builder.work) if self.direct else None
        self.update = update or _Update(1.0, None)
        self.adds = update is not None
        self.partial = self.out if self.direct else self._scratch("partial", size(self.inside))
        self.partial_ref = Ref("partial", c.total.dtype, (elements(v.extent for v in self.inside),))

    def _panel_memory(self, side: str, g: FlatAxis) -> Buffer:
        """Working memory for the panels of a block; where the last is smaller it may have wider panels."""
        sizes = (g.block,) if g.most else (g.block, size(g.variables) % g.block)
        lanes = max(self._panels(side, as_index(n)).packed.constant or 0 for n in sizes)
        return self._scratch(f"panels_{side}", lanes * self.plan.depth.block)

    def _scratch(self, name: str, count: int) -> Buffer:
        dtype = self.contraction.total.dtype
        return self.builder.scratch(name, Buffer(name, dtype, (), "parameter", as_index(count)), count)

    def _line(self, count: int) -> Buffer:
        """Working memory for a line or a tile."""
        self._working = self._working or self._scratch("line", count)
        self.builder.enlarge(self._working, count)
        return self._working

    def body(self) -> list[Stmt]:
        """The loops, outermost those over what both operands share and over blocks of the sum."""
        c = self.contraction
        shared = {v: as_index(Var(v.name, v.extent)) for v in c.shared}

        def deep(depth: PanelBlock) -> list[Stmt]:
            sides = ("a", "b") if self.plan.a_first else ("b", "a")
            return self._sides(sides, depth, shared, {})

        return around(shared, blocks(self.plan.depth, deep, independent=False))

    def _sides(
        self, sides: tuple[str, ...], depth: PanelBlock, at: dict[Var, Index], done: dict[str, PanelBlock]
    ) -> list[Stmt]:
        """Loops over the blocks of the operands named, each packed, around what is inside."""
        if not sides:
            return self._product(done["a"], done["b"], depth, at)
        side, *rest = sides
        c, plan = self.contraction, self.plan
        operand, group, others = (c.a, plan.rows, c.only_a) if side == "a" else (c.b, plan.columns, c.only_b)
        own = {v: as_index(Var(v.name, v.extent)) for v in others}

        def block(b: PanelBlock) -> list[Stmt]:
            inner = self._sides(tuple(rest), depth, {**at, **own}, {**done, side: b})
            into = self.a if side == "a" else self.b
            if into is None:
                return inner
            panels = self._panels(side, b.size)
            return [*self.packer.pack(operand, b, depth, panels, into, {**at, **own}), *inner]

        return around(own, blocks(group, block))

    def _panels(self, side: str, count: Index) -> Panels:
        t = self.plan.tile
        if side == "a":
            return Panels.of(count, t.rows, 1)
        alone = self.plan.lone and count.constant is not None and count.constant % t.columns == 1
        return Panels.of(count, t.columns, 1 if alone else t.lanes)

    def _product(self, rows: PanelBlock, columns: PanelBlock, depth: PanelBlock, at: dict[Var, Index]) -> list[Stmt]:
        """All register tiles of two packed blocks, and the rest of the statement after the last block of the sum."""
        out = self._tiles(rows, columns, depth, at)
        finish = self._finish(rows, columns, at)
        if not finish:
            return out
        last = cond("==", depth.start + depth.size - self.whole)
        if isinstance(last, bool):
            return [*out, *finish] if last else out
        return [*out, If(Holds((last,)), tuple(finish))]

    def _tiles(self, rows: PanelBlock, columns: PanelBlock, depth: PanelBlock, at: dict[Var, Index]) -> list[Stmt]:
        """The loops over the tiles of two packed blocks."""
        one = self._tile(rows, columns, depth, at)
        across, down = self._panels("b", columns.size), self._panels("a", rows.size)
        steps, width = (b.size.constant or b.group.block for b in (depth, columns))
        if steps * width * self.contraction.total.dtype.size <= blocking.Blocks.of(self.machine).inner:
            return over_panels(
                down, "row", lambda i, h, r: over_panels(across, "column", lambda j, w, u: one(i, h, r, j, w, u))
            )
        return over_panels(
            across, "column", lambda j, w, u: over_panels(down, "row", lambda i, h, r: one(i, h, r, j, w, u))
        )

    def _tile(self, rows: PanelBlock, columns: PanelBlock, depth: PanelBlock, at: dict[Var, Index]) -> _MakeTile:
        """What makes the tile at a row and a column of two blocks."""
        c, t, dtype = self.contraction, self.plan.tile, self.contraction.total.dtype
        base, row_step, column_step = self._place({**at, **rows.at, **columns.at})
        lying = self._lying(rows, depth, at)
        by = self.update
        scale = () if by.scale is None else (View(self.builder.parameter(by.scale)),)
        begun = as_index(1) if self.adds else depth.start

        def one(i: Index, height: int, present: Index, j: Index, width: int, used: Index) -> list[Stmt]:
            skip: list[Stmt] = []
            whole = present.constant == height
            if not whole and self.plan.in_place:  # rows before those of the tile, where none are behind them
                back = Var("back", height)
                over = rows.start + i + height - elements(v.extent for v in c.rows)
                skip = [LetIndex(back, largest(ZERO_INDEX, over))]
            before = as_index(back) if skip else ZERO_INDEX
            if width == 1:
                tile = dots(dtype, t.lanes, height, by.factor, bool(scale))
            else:
                tile = multiply(dtype, t.lanes, height, width // t.lanes, lying.form(height), by.factor, bool(scale))
            left = View(lying.buffer, lying.first + (i - before) * lying.row)
            operands = (left, View(self.b, j * depth.size), *scale)
            steps = depth.size
            if "steps0" not in lying.numbers:  # the sum is one loop
                steps = self._steps(depth, rows.start + i + height, columns.start + j + used)
            numbers: dict[str, Index | int] = {**lying.numbers, "steps": steps}
            at_c = base + i * row_step + j * column_step
            if whole and used.constant == width and self.plan.storing != "across":
                numbers |= {"stride": row_step, "begun": begun}
                return [Call.by_name(tile, (*operands, View(self.partial, at_c)), numbers)]
            line = _TileLine(self._line(height * width), width, before, before + present, used)
            numbers |= {"stride": as_index(width), "begun": ZERO_INDEX}
            made: list[Stmt] = [*skip, Call.by_name(tile, (*operands, View(line.buffer)), numbers)]
            if self.plan.storing == "across":
                return [*made, *self._across(line, at_c, row_step, column_step, begun)]
            return [*made, *self._part(line, at_c - before * row_step, row_step, begun)]

        return one

    def _steps(self, depth: PanelBlock, row: Index, column: Index) -> Index:
        """Steps of the sum that a tile needs, which ends before this row and column: a triangle ends with these."""
        c = self.contraction
        if depth.start is not ZERO_INDEX or len(c.depth) != 1:
            return depth.size
        for side, mine, end in ((c.a, c.rows, row), (c.b, c.columns, column)):
            g = side.term
            if not isinstance(g, Get) or g.ref not in self.builder.work.triangles or len(mine) != 1:
                continue
            p, q = self.builder.work.triangles[g.ref]
            whole = depth.size is c.depth[0].extent
            if g.indices[p].single is mine[0] and g.indices[q].single is c.depth[0] and whole:
                return end
        return depth.size

    def _lying(self, rows: PanelBlock, depth: PanelBlock, at: dict[Var, Index]) -> _Lying:
        """Where a block of A lies: in its panels, or in place."""
        if not self.plan.in_place:
            assert self.a is not None
            return _Lying(self.a, ZERO_INDEX, depth.size, lambda _: False, {"row": ZERO_INDEX})
        plain = self.contraction.a.plain
        assert plain is not None
        buffer, address = plain
        down, along = (runs(b.levels, address) for b in (rows, depth))
        base = Substitution(variables={**at, **rows.at, **depth.at}).index(address)
        row = down[0].step if down else ZERO_INDEX
        if blocking.is_run(along):
            return _Lying(buffer, base, row, lambda _: True, {"row": row})
        numbers: dict[str, Index] = {}
        for n, r in enumerate(reversed(along)):
            numbers |= {f"steps{n}": r.trips, f"step{n}": r.step}
        apart, loops = row.constant, len(along)
        assert apart is not None
        return _Lying(buffer, base, row, lambda n: Walk(tuple(apart * i for i in range(n)), loops), numbers)

    def _across(self, line: _TileLine, at: Index, apart: Index, stride: Index, begun: Index) -> list[Stmt]:
        """The columns of a tile that exist, written across or added to what is there."""
        out: list[Stmt] = []
        done, used, height = 0, line.used.constant, line.end.constant
        assert used is not None and height is not None and apart.constant is not None
        for lanes in (self.plan.tile.lanes, 1):
            n = square(line.buffer.dtype, height, apart.constant, lanes)
            if count := (used - done) // n * n:
                numbers: dict[str, Index | int] = {
                    "columns": count, "width": line.width, "stride": stride, "begun": begun
                }
                views = (View(line.buffer, as_index(done)), View(self.partial, at + stride * done))
                kernel = store_across(line.buffer.dtype, height, apart.constant, lanes)
                out.append(Call.by_name(kernel, views, numbers))
            done += count
        return out

    def _part(self, line: _TileLine, at: Index, stride: Index, begun: Index) -> list[Stmt]:
        """The part of a tile that exists, added to what is there once the sum has begun."""

        def stores(accumulate: bool) -> tuple[Stmt, ...]:
            i = Var("i", line.end)

            def piece(done: Index, n: int) -> list[Stmt]:
                value = Load(line.buffer, as_index(i) * line.width + done, Type(line.buffer.dtype, n))
                return [Store(self.partial, at + as_index(i) * stride + done, value, accumulate)]

            return (For(i, line.first, line.end, tuple(pieces(line.used, self.plan.tile.lanes, piece))),)

        more = cond(">=", begun - 1)
        if isinstance(more, bool):
            return list(stores(more))
        return [If(Holds((more,)), stores(True), stores(False))]

    def _place(self, at: dict[Var, Index]) -> tuple[Index, Index, Index]:
        """Where the partial sum at these variables lies, and the distances of two rows of a tile and of two columns."""
        flat = self.position if self.direct else flat_position(self.inside)
        rows = self.plan.rows
        steps = [
            runs(whole_levels(g), flat) for g in ((rows.cut, *rows.inner), self.contraction.columns)
        ]
        down, across = (s[0].step if s else ZERO_INDEX for s in steps)
        return Substitution(variables=at).index(flat), down, across

    # The rest of the statement ------------------------------------------------------------------------------------

    def _finish(self, rows: PanelBlock, columns: PanelBlock, at: dict[Var, Index]) -> list[Stmt]:
        """The statement's values for a block of the output, with the sum read from where its parts were added up."""
        if self.adds or (self.direct and isinstance(self.s.values[0], Reduce)):
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
        partial = (self.partial_ref, self.partial)
        return finish(self.s, local, values, m.index(self.position), partial, self.builder, self.machine)
