"""Packed products whose sizes are known when the program runs.

    for blocks of K:
        for blocks of N:    panels of B := its block
            for blocks of M:    panels of A := its block, unless A's rows lie as the tile reads them
                for panels of B, panels of A:
                    multiply: rows x vectors accumulators += a panel of A times a panel of B
    the rest of the statement, where the sum is not all of it

Blocks are as large as in `blocking` and the register tile is the same kernel; a block at an end is smaller, and a
tile over an end goes by way of a line, of which the part that exists is added to the output. Where an operand is so
small that tiles without packing do as well, or there is no room for a tile, they are taken when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

from pullback.ir import expr
from pullback.ir.expr import Reduce, Ref
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide
from pullback.ir.program import Build, statement_reads
from pullback.ir.traverse import Substitution
from pullback.loops.memory.plan import mentioned
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position, free_variables
from pullback.loops.plain.candidates import Candidate, Declined
from pullback.loops.plain.lower import bring_plain
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.product import blocking
from pullback.loops.product.blocking import Blocks, Contraction, Operand, RegisterTile, contractions
from pullback.loops.product.finish import finish, scalar_loops
from pullback.loops.product.multiply import multiply
from pullback.loops.product.packing import around
from pullback.loops.product.turn import WIDEST_TURN, turn
from pullback.loops.program import schedule
from pullback.loops.program.cover import blocked, cover, is_open
from pullback.loops.program.nodes import (
    Buffer,
    Call,
    For,
    Holds,
    If,
    Kernel,
    LetIndex,
    Load,
    Stmt,
    Store,
    Type,
    View,
    largest,
    smallest,
    walk,
)
from pullback.loops.program.scope import Scope
from pullback.loops.vectors.nest import map_reductions
from pullback.loops.vectors.tile import plan_tile
from pullback.machine import Machine

COLUMNS: Final = 512  # of a block of B
PACKED: Final = 1 << 14  # elements of B from which on panels pay, where vectors could read it as it lies
SHALLOW: Final = 8  # steps of the sum below which panels do not pay


@dataclass(frozen=True)
class OpenProduct:
    """A contraction with one variable as M, one as N, and the sum's as K; all others are loops around these.

    Attributes:
        row, column: the variables of M and N.
        cut: the variable of the sum that is cut into blocks.
        inner: those that are whole in each block, whose extents are numbers.
        outer: those around the blocks.
    """

    contraction: Contraction
    row: Var
    column: Var
    cut: Var
    inner: tuple[Var, ...]
    outer: tuple[Var, ...]

    @staticmethod
    def of(c: Contraction, position: Index, depth: int) -> OpenProduct | None:
        """The parts of a contraction in blocks of `depth`; None where vectors of the output would not run along N."""
        row, column = c.rows[-1], c.columns[-1]
        if position.coefficient(column) is not ONE_INDEX or position.coefficient(row) is None:
            return None
        opened = [v for v in c.depth if is_open(v)]
        cut = opened[-1] if opened else max(c.depth, key=lambda v: v.extent.constant or 0)
        inner = tuple(v for v in c.depth if v is not cut and not is_open(v))
        if blocking.size(inner) > depth:
            return None
        return OpenProduct(c, row, column, cut, inner, tuple(v for v in opened if v is not cut))

    @property
    def run(self) -> int:
        """Steps of the sum for one of the cut variable."""
        return prod(v.extent.constant or 1 for v in self.inner)

    def is_run(self, o: Operand) -> bool:
        """Whether the steps of a block are neighbours in an operand's memory."""
        if o.plain is None:
            return False
        weight = 1
        for v in (*reversed(self.inner), self.cut):
            if o.plain[1].coefficient(v) is not as_index(weight):
                return False
            weight *= v.extent.constant or 1
        return True

    @cached_property
    def lies(self) -> bool:
        """Whether the tile can read A as it lies: steps of the sum are neighbours."""
        a = self.contraction.a
        return self.is_run(a) and a.plain is not None and a.plain[1].coefficient(self.row) is not None

    @cached_property
    def form(self) -> str:
        """How B is packed: rows of vectors, turned, or element by element."""
        b = self.contraction.b
        if b.plain is not None and b.plain[1].coefficient(self.column) is ONE_INDEX:
            return "rows"
        turned = self.is_run(b) and b.plain is not None and b.plain[1].coefficient(self.column) is not None
        return "turned" if turned else "elements"


def open_products(
    s: Build, whole: Build, reads: Sequence[Ref], work: Work, machine: Machine
) -> Iterator[Candidate]:
    """The strategy for contractions with open sizes: packed panels, or tiles where these are small.

    Args:
        s: the statement without variables of extent 1.
        whole: the statement with them.
        reads: what its sum reads.
    """
    found = _best(s, work, Blocks.of(machine).depth)
    if found is None or machine.lanes(found.contraction.total.dtype.size) < 2:
        return
    small = plan_tile(whole, work.address, machine)
    lanes = machine.lanes(found.contraction.total.dtype.size)
    ideal = blocking.size((*s.vars, *found.contraction.depth)) / (lanes * machine.ports)

    def build(builder: KernelBuilder) -> Kernel:
        for r in (*reads, *statement_reads(s)):
            builder.parameter(r)
        if small is None:
            below = tuple(scalar_loops(s, s.vars, s.values, flat_position(s.vars), builder, builder.parameter))
        else:
            builder.take(small.nest.buffers.values())
            below = small.statements()
        emitter = _OpenProductWriter(s, found, builder, machine)
        tests = [_at_least(extent, least) for extent, least in emitter.needs()]
        if False in tests:
            raise Declined
        room = [c for c in tests if isinstance(c, Cond)]
        body = emitter.body()
        if room:
            body = [If(Holds(tuple(room)), tuple(body), (_called(s, below, builder),))]
        return bring_plain(whole, body, builder, machine)

    block, tile = schedule.Block(found.cut.name, Blocks.of(machine).depth), schedule.Tile(((found.row.name, 8),))
    steps = (block, schedule.Pack("B"), tile, schedule.Vector(found.column.name, lanes, 2))
    yield Candidate("open", ideal, build, schedule.Schedule(steps))


def _called(s: Build, body: tuple[Stmt, ...], builder: KernelBuilder) -> Call:
    """Loops as a kernel of their own: beside others in one function they would share its registers."""
    used = {b for x in walk(body) for b in mentioned(x)}
    params = tuple(b for b in builder.params.values() if b in used)
    kernel = Kernel(f"{s.outs[0].name}_tiles", params, free_variables(body), body, builder.comment)
    return Call(kernel, tuple(map(View, params)))


def _best(s: Build, work: Work, depth: int) -> OpenProduct | None:
    """The way to see a statement as a product that leaves least to copy."""
    if len(s.outs) != 1 or not any(is_open(v) for v in s.vars):
        return None
    position = flat_position(s.vars)
    ways = [p for c in contractions(s, work.address) if (p := OpenProduct.of(c, position, depth)) is not None]
    if not ways or s.outs[0].dtype is not ways[0].contraction.total.dtype:
        return None
    out = work.parameter(s.outs[0])
    if any(work.parameter(r) is out for r in statement_reads(s)):
        return None
    return max(ways, key=lambda p: (p.lies, ("elements", "turned", "rows").index(p.form)))


def _at_least(extent: Index, least: int) -> Cond | bool:
    return cond(">=", extent - least)


class _OpenProductWriter:
    """Writes the loops of a product."""

    def __init__(self, s: Build, p: OpenProduct, builder: KernelBuilder, machine: Machine) -> None:
        self.s = s
        self.p = p
        self.c = c = p.contraction
        self.builder = builder
        self.machine = machine
        self.dtype = c.total.dtype
        self.tile = RegisterTile(min(8, (machine.vector_registers - 3) // 2), 2, machine.lanes(self.dtype.size))
        self.out = builder.parameter(s.outs[0])
        self.position = flat_position(s.vars)
        largest = Blocks.of(machine)
        self.steps = max(1, largest.depth // p.run)  # of the cut variable
        depth = self.steps * p.run
        self.height = -(-largest.second // (depth * self.dtype.size) // self.tile.rows) * self.tile.rows
        self.width = COLUMNS // self.tile.columns * self.tile.columns
        self.b = self._scratch("panels_b", self.width * depth)
        self.a = None if p.lies else self._scratch("panels_a", self.height * depth)
        self.line = self._scratch("line", self.tile.rows * self.tile.columns)

    def needs(self) -> list[tuple[Index, int]]:
        """Extents, and what each must be at least for panels to pay."""
        p = self.p
        rows, columns, depth = p.row.extent, p.column.extent, p.cut.extent * p.run
        if p.form == "rows":
            return [(rows, 4 * self.tile.rows), (columns, self.tile.columns), (columns * depth, PACKED)]
        return [(rows, self.tile.rows), (columns, self.tile.lanes), (depth, SHALLOW)]

    def _scratch(self, name: str, count: int) -> Buffer:
        return self.builder.scratch(name, Buffer(name, self.dtype, (), "parameter", as_index(count)), count)

    def body(self) -> list[Stmt]:
        """The loops, outermost those over what both operands share and over blocks of the sum, then the rest."""
        c, p = self.c, self.p
        shared, outer = ({v: as_index(Var(v.name, v.extent)) for v in vs} for vs in (c.shared, p.outer))

        def deep(start: Index, count: Index) -> list[Stmt]:
            begun = sum(outer.values(), start)
            block = _Depth({p.cut: start, **outer}, count, count * p.run, begun)
            a_first = not p.lies and bool(self._others("b"))
            return self._sides(("a", "b") if a_first else ("b", "a"), block, shared, {})

        loops = around(shared, around(outer, blocked(p.cut, self.steps, "steps", deep)), independent=True)
        return [*loops, *self._rest()]

    def _others(self, side: str) -> list[Var]:
        """The variables of the output in one operand alone that are loops."""
        c, p = self.c, self.p
        mine, only = (c.rows, c.only_a) if side == "a" else (c.columns, c.only_b)
        return [v for v in (*mine, *only) if v is not p.row and v is not p.column]

    def _sides(
        self, sides: tuple[str, ...], depth: _Depth, at: dict[Var, Index], done: dict[str, _Side]
    ) -> list[Stmt]:
        """Loops over the blocks of the operands named, each packed, around what is inside."""
        if not sides:
            return self._tiles(done["a"], done["b"], depth, at)
        side, *rest = sides
        own = {v: as_index(Var(v.name, v.extent)) for v in self._others(side)}
        v, most = (self.p.row, self.height) if side == "a" else (self.p.column, self.width)

        def block(start: Index, count: Index) -> list[Stmt]:
            b = _Side(start, count)
            inner = self._sides(tuple(rest), depth, {**at, **own}, {**done, side: b})
            return [*self._pack(side, b, depth, {**at, **own}), *inner]

        loops = blocked(v, most, "rows" if side == "a" else "columns", block, independent=True)
        return around(own, loops, independent=True)

    # Tiles ----------------------------------------------------------------------------------------------------------

    def _tiles(self, a: _Side, b: _Side, depth: _Depth, at: dict[Var, Index]) -> list[Stmt]:
        """All register tiles of two blocks."""
        p, t = self.p, self.tile
        i, j = Var("i", a.count), Var("j", b.count)
        row = a.start + as_index(i)
        stride = self.position.coefficient(p.row)
        assert stride is not None
        kernel = multiply(self.dtype, t.lanes, t.rows, t.vectors, p.lies)
        right = View(self.b, as_index(j) * depth.size)
        numbers: dict[str, Index | int] = {"steps": depth.size}

        def place(first: Index) -> Index:
            return Substitution(variables={**at, p.row: first, p.column: b.start + as_index(j)}).index(self.position)

        def call(first: Index, c: View, c_stride: Index | int, begun: Index | int) -> Stmt:
            left, lead = self._left(first, i, depth, at)
            more = {**numbers, "stride": c_stride, "begun": begun, "row": lead}
            return Call.by_name(kernel, (left, right, c), more)

        whole: Stmt = call(row, View(self.out, place(row)), stride, depth.begun)
        first, edge = row, list[Stmt]()
        if p.lies:  # nothing is read beyond the last row
            v = Var("first", p.row.extent)
            edge.append(LetIndex(v, smallest(row, p.row.extent - t.rows)))
            first = as_index(v)
        edge.append(call(first, View(self.line), t.columns, 0))
        edge += self._part(place(first), stride, row - first, a.start + a.count - first, b.count - as_index(j), depth)
        tests = (_at_least(a.count - as_index(i), t.rows), _at_least(b.count - as_index(j), t.columns))
        full = [c for c in tests if isinstance(c, Cond)]
        one = [If(Holds(tuple(full)), (whole,), tuple(edge))] if full else [whole]
        inner = For(i, ZERO_INDEX, a.count, tuple(edge if False in tests else one), t.rows, independent=True)
        return [For(j, ZERO_INDEX, b.count, (inner,), t.columns, independent=True)]

    def _left(self, row: Index, i: Var, depth: _Depth, at: dict[Var, Index]) -> tuple[View, Index | int]:
        """Where a panel of A begins, and the distance of its rows where it is not packed."""
        plain = self.c.a.plain
        if self.a is not None or plain is None:
            assert self.a is not None
            return View(self.a, as_index(i) * depth.size), 0
        where = {**at, **depth.at, **dict.fromkeys(self.p.inner, ZERO_INDEX), self.p.row: row}
        lead = plain[1].coefficient(self.p.row)
        assert lead is not None
        return View(plain[0], Substitution(variables=where).index(plain[1])), lead

    def _part(self, at: Index, stride: Index, skip: Index, rows: Index, columns: Index, depth: _Depth) -> list[Stmt]:
        """The part of a tile that exists, from the line to the output: rows from `skip` on, so many, and columns."""
        t = self.tile
        used = Var("used", t.columns + 1)
        r = Var("r", t.rows)

        def stores(accumulate: bool) -> tuple[Stmt, ...]:
            def piece(w: Index, lanes: int) -> list[Stmt]:
                value = Load(self.line, as_index(r) * t.columns + w, Type(self.dtype, lanes))
                return [Store(self.out, at + as_index(r) * stride + w, value, accumulate)]

            body = cover(Var("w", as_index(used)), (t.lanes, 1), piece)
            return (For(r, largest(ZERO_INDEX, skip), smallest(as_index(t.rows), rows), tuple(body)),)

        begun = _at_least(depth.begun, 1)
        found: list[Stmt] = [LetIndex(used, smallest(as_index(t.columns), columns))]
        if isinstance(begun, bool):
            return [*found, *stores(begun)]
        return [*found, If(Holds((begun,)), stores(True), stores(False))]

    # Packing --------------------------------------------------------------------------------------------------------

    def _pack(self, side: str, block: _Side, depth: _Depth, at: dict[Var, Index]) -> list[Stmt]:
        """Copy a block of an operand to panels; what a panel has beyond the block is not read by anybody."""
        p, t = self.p, self.tile
        into, v, width = (self.a, p.row, t.rows) if side == "a" else (self.b, p.column, t.columns)
        if into is None:
            return []
        if side == "b" and p.form == "rows":
            return self._rows(block, depth, at)
        if side == "b" and p.form == "turned":
            return self._turned(block, depth, at)
        operand = self.c.a if side == "a" else self.c.b
        lane = Var(v.name, block.count)

        def value_at(k: tuple[Var, ...]) -> dict[Var, Index]:
            return {**self._steps(at, depth, k), v: block.start + as_index(lane)}

        steps = (Var(p.cut.name, depth.count), *(Var(x.name, x.extent) for x in p.inner))
        term = Substitution(variables=value_at(steps)).scalar(operand.term)
        root = Scope()
        lowering = ScalarLowering(self.builder.parameter, self.builder.site, (term,))
        nest = LoopNest(lowering, root, (lane, *steps), ())
        value = lowering.value(term, nest.innermost)
        panel = floor_divide(as_index(lane), as_index(width)) * width
        to = panel * depth.size + self._flat(steps) * width + as_index(lane) - panel
        nest.innermost.statements.append(Store(into, to, value))
        nest.close()
        return root.statements

    def _steps(self, at: dict[Var, Index], depth: _Depth, steps: Sequence[Var]) -> dict[Var, Index]:
        """The variables of the sum at some of a block's steps."""
        cut, *inner = steps
        own = {v: as_index(x) for v, x in zip(self.p.inner, inner, strict=True)}
        return {**at, **depth.at, self.p.cut: depth.at[self.p.cut] + as_index(cut), **own}

    def _flat(self, steps: Sequence[Var]) -> Index:
        """The place of a step in its block."""
        flat = ZERO_INDEX
        for x, v in zip(steps, (self.p.cut, *self.p.inner), strict=True):
            flat = flat * (v.extent if v is not self.p.cut else 1) + as_index(x)
        return flat

    def _rows(self, block: _Side, depth: _Depth, at: dict[Var, Index]) -> list[Stmt]:
        """The lanes are neighbours in memory: vectors of each step, panel by panel."""
        assert self.c.b.plain is not None
        buffer, address = self.c.b.plain
        t, p = self.tile, self.p
        steps = (Var(p.cut.name, depth.count), *(Var(x.name, x.extent) for x in p.inner))

        def panel(first: Index, make: Callable[[Index, Index], list[Stmt]]) -> list[Stmt]:
            where = {**self._steps(at, depth, steps), p.column: block.start + first}
            source = Substitution(variables=where).index(address)
            body = make(source, first * depth.size + self._flat(steps) * t.columns)
            for x in reversed(steps):
                body = [For(x, ZERO_INDEX, x.extent, tuple(body))]
            return body

        def copies(source: Index, to: Index) -> list[Stmt]:
            wide = Type(self.dtype, t.lanes)
            return [Store(self.b, to + n, Load(buffer, source + n, wide)) for n in range(0, t.columns, t.lanes)]

        def some(source: Index, to: Index) -> list[Stmt]:
            rest = Var("w", block.count - done)
            one = Load(buffer, source + as_index(rest), Type(self.dtype))
            return [For(rest, ZERO_INDEX, rest.extent, (Store(self.b, to + as_index(rest), one),))]

        j = Var("j", block.count)
        done = floor_divide(block.count, as_index(t.columns)) * t.columns
        return [For(j, ZERO_INDEX, done, tuple(panel(as_index(j), copies)), t.columns), *panel(done, some)]

    def _turned(self, block: _Side, depth: _Depth, at: dict[Var, Index]) -> list[Stmt]:
        """Memory runs along the sum: squares of lanes and steps are read as rows and written as columns."""
        assert self.c.b.plain is not None
        buffer, address = self.c.b.plain
        t, p = self.tile, self.p
        lead = address.coefficient(p.column)
        assert lead is not None
        n = min(t.lanes, WIDEST_TURN // self.dtype.size)
        where = {**at, **depth.at, **dict.fromkeys(p.inner, ZERO_INDEX), p.column: block.start}
        base = Substitution(variables=where).index(address)
        lane, k = Var("lane", block.count), Var("k", depth.size)

        def place(at_lane: Index) -> Index:
            panel = floor_divide(at_lane, as_index(t.columns)) * t.columns
            return panel * depth.size + at_lane - panel

        def group(first: Index, count: int) -> list[Stmt]:
            if count == 1:
                one = Load(buffer, base + first * lead + as_index(k), Type(self.dtype))
                return [For(k, ZERO_INDEX, depth.size, (Store(self.b, place(first) + as_index(k) * t.columns, one),))]
            whole = floor_divide(depth.size, as_index(n)) * n
            views = (View(buffer, base + first * lead), View(self.b, place(first)))
            lanes = tuple(lead * x for x in range(n))
            loads = [Load(buffer, base + (first + x) * lead + as_index(k), Type(self.dtype)) for x in range(n)]
            stores = [Store(self.b, place(first) + as_index(k) * t.columns + x, v) for x, v in enumerate(loads)]
            return [
                Call(turn(self.dtype, n), views, (*lanes, whole, as_index(t.columns))),
                For(k, whole, depth.size, tuple(stores)),
            ]

        return cover(lane, (n, 1) if n * self.dtype.size >= 16 and n > 1 else (1,), group)

    # The rest of the statement --------------------------------------------------------------------------------------

    def _rest(self) -> list[Stmt]:
        """The statement's values where the sum is only a part of them: a pass over the output, in place."""
        s = self.s
        if isinstance(s.values[0], Reduce):
            return []
        sums = Ref("partial", self.dtype, (self.out.elements,))
        value = map_reductions(s.values[0], lambda _: expr.get(sums, self.position))
        return finish(s, s.vars, (value,), self.position, (sums, self.out), self.builder, self.machine)


@dataclass(frozen=True)
class _Depth:
    """A block of the sum: where its variables stand, steps of the cut one, all steps, and 0 for the first block."""

    at: dict[Var, Index]
    count: Index
    size: Index
    begun: Index


@dataclass(frozen=True)
class _Side:
    """A block of M or N: where it begins, and how many there are."""

    start: Index
    count: Index
