"""Tiled products: panels of operands in shared memory, sums in registers.

    z[m, n] = f(sum k { x[m, k] * y[k, n] })
    -->  group of a tile of z:  each thread has rows × columns sums in registers
         for panels of k:       all threads load the next panels of x and y, add the products of the present ones,
                                and store the next panels to the other half of shared memory
         each thread:           z[m, n] = f(its sums)

Each sum adds its terms in the order of a plain loop, so its bits are equal. The operands may be any expressions, and f
is the rest of the statement. If there are few tiles, groups share the terms of a tile in parts. They store their sums,
and a second launch adds these in order.

Neighboring threads have neighboring runs of rows and columns, 16 bytes each. A thread with 8 rows has two such runs,
half a tile apart. So a warp reads each panel in whole lines of shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Final, NamedTuple

from pullback.device import Device
from pullback.grid.panels import ACCESS, Panel, below, lanes_of, layout
from pullback.grid.reductions import Reduction, leaves, moved, named_values, reduction, spread_loops
from pullback.grid.spread import THREADS
from pullback.grid.steps import (
    Grid,
    Registers,
    Shared,
    Threads,
    axes_of,
    count_of,
    decoded,
    group_loop,
    local_buffer,
    parts_schedule,
    thread_loop,
    unrolled,
)
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index, floor_divide, modulo
from pullback.ir.traverse import rewrite
from pullback.loops.plain.builder import Address, KernelBuilder, Work, flat_position
from pullback.loops.plain.candidates import Candidate, Declined
from pullback.loops.plain.lower import element_loops
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.product.contraction import Contraction, Operand, contractions
from pullback.loops.program.nodes import Copy, For, If, Kernel, LetIndex, Stmt, Store
from pullback.loops.program.schedule import EVERY, Schedule
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Binary, Buffer, Holds, Literal, Load, Value, View, scalar
from pullback.machine import Machine

LEAST: Final = (8, 8, 4)  # least rows, columns and terms; with fewer, tiles are mostly empty
LANES: Final = (4, 8)  # the threads of a warp, along rows and columns
DEEPEST: Final = 32  # most terms of a panel; half as many if threads load single elements, and hold their places
PARTS: Final = (1, 2, 4, 8, 16, 32, 64)  # parts of the terms
LEAST_PANELS: Final = 4  # in a part
MOST_SUMS: Final = 256  # bytes of the sums of a thread
MOST_REGISTERS: Final = 128  # of a thread
BETWEEN: Final = 300.0  # cycles from the products of one panel to those of the next
WAITING: Final = 1.15  # cycles for each cycle in which a multiprocessor starts an instruction
FLOW: Final = 24.0  # bytes that a multiprocessor loads in a cycle
ISSUED: Final = 8.0  # elements of panels that an instruction of a warp copies


class Tile(NamedTuple):
    """The tile of a group: its threads, the results per thread, and the terms of a panel."""

    threads: tuple[int, int]
    results: tuple[int, int]
    depth: int

    @property
    def rows(self) -> int:
        """The rows of the result that a group computes."""
        return self.threads[0] * self.results[0]

    @property
    def columns(self) -> int:
        """The columns of the result that a group computes."""
        return self.threads[1] * self.results[1]

    @property
    def all_threads(self) -> int:
        """The threads of a group."""
        return prod(self.threads)


TILES: Final = (Tile((16, 16), (8, 8), 8), Tile((8, 16), (8, 4), 16), Tile((8, 16), (8, 4), 32),
                Tile((8, 8), (4, 4), 16), Tile((8, 8), (4, 4), 32), Tile((8, 8), (2, 2), 16))  # fmt: skip
MORE_TILES: Final = (  # for tuners
    Tile((16, 16), (8, 8), 16), Tile((16, 16), (4, 4), 16), Tile((16, 8), (4, 8), 16),
    Tile((8, 8), (8, 8), 16), Tile((8, 8), (8, 4), 16), Tile((16, 16), (8, 4), 16))  # fmt: skip


class _Shape(NamedTuple):
    """The sizes of a batch of products: their number, rows, columns and terms."""

    many: int
    rows: int
    columns: int
    terms: int

    def across(self, tile: Tile) -> tuple[int, int]:
        """The tiles along rows and columns."""
        return -(-self.rows // tile.rows), -(-self.columns // tile.columns)


class _Plan(NamedTuple):
    """The tile of a group, the parts into which groups divide the terms, and the panels in a part."""

    tile: Tile
    parts: int
    panels: int


def products(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for sums of products of two operands."""
    r = reduction(work.statement)
    if r is None or r.total.op != "sum" or (found := _best(r, work.address)) is None:
        return
    (c, shape), least = found, moved(work.statement)
    dtype, sides = r.total.dtype, ((c.a, c.rows), (c.b, c.columns))
    wide = all(layout(operand, axes, c.depth, dtype, work.address).lanes > 1 for operand, axes in sides)
    deepest = DEEPEST if wide else DEEPEST // 2
    for plan in _plans(shape, device, dtype.size, deepest, work.wish is EVERY):
        cycles = max(_cycles(shape, plan, device, dtype.size), device.cycles(0, 0, 1, 1, moved=least))
        cycles += _adding(shape, plan, device, dtype.size)
        build = partial(_build, r, c, shape, plan, work.address)
        yield Candidate("product", cycles, build, _schedule(r, c, shape, plan))


def _best(r: Reduction, address: Address) -> tuple[Contraction, _Shape] | None:
    """The contraction that fills tiles best, among all readings of the statement as a product."""
    best: tuple[tuple[int, int, bool], Contraction, _Shape] | None = None
    for c in contractions(r.build, address):
        rows, columns, terms, many = (count_of(v) or 0 for v in (c.rows, c.columns, c.depth, _around(r, c)))
        if rows < LEAST[0] or columns < LEAST[1] or terms < LEAST[2]:
            continue
        plain = (c.a.plain is not None) + (c.b.plain is not None)
        score = min(rows, 128) * min(columns, 128), plain, r.build.vars[-1] in c.columns
        if best is None or score > best[0]:
            best = score, c, _Shape(many, rows, columns, terms)
    return None if best is None else best[1:]


def _around(r: Reduction, c: Contraction) -> tuple[Var, ...]:
    """The batch variables: variables of the result that are neither rows nor columns."""
    return tuple(v for v in r.build.vars if v not in c.rows and v not in c.columns)


def _plans(shape: _Shape, device: Device, size: int, deepest: int, every: bool) -> Iterator[_Plan]:
    for tile in TILES + MORE_TILES * every:
        shared = 2 * tile.depth * (tile.rows + tile.columns + device.warp) * size
        if prod(tile.results) * size > MOST_SUMS or tile.depth > deepest or shared > device.shared:
            continue
        panels, groups = -(-shape.terms // tile.depth), shape.many * prod(shape.across(tile))
        for parts in PARTS:
            own = -(-panels // parts)
            busy = groups * parts // 2 < 2 * device.multiprocessors  # with half as many parts some would be idle
            if parts == 1 or (own >= LEAST_PANELS and (busy or every) and own * (parts - 1) < panels):
                yield _Plan(tile, parts, own)


def _cycles(shape: _Shape, plan: _Plan, device: Device, size: int) -> float:
    """Estimate the cycles: the groups of a multiprocessor compute together, in rounds.

    A round is bound by multiply-adds, or by loads from shared memory or from memory.
    """
    tile, threads = plan.tile, plan.tile.all_threads
    groups = shape.many * prod(shape.across(tile)) * plan.parts
    registers = min(2 * (tile.depth + prod(tile.results) * size // 4) + device.warp, MOST_REGISTERS)
    most = min(device.resident // threads, device.registers // (threads * registers))
    multiply = threads * prod(tile.results) / (device.double if size > 4 else device.single)
    reads, width = threads / device.warp * sum(tile.results) * size / ACCESS, tile.rows + tile.columns
    step = max(multiply + (reads + width / ISSUED) / 4, 2 * reads, width * size / FLOW)
    alone = prod(tile.results)  # of a group that has a multiprocessor to itself
    rounds, rest = divmod(-(-groups // device.multiprocessors), most)
    panel = [WAITING * tile.depth * max(n * step, alone) + BETWEEN for n in (most, rest)]
    return device.launch + plan.panels * (rounds * panel[0] + (rest > 0) * panel[1])


def _adding(shape: _Shape, plan: _Plan, device: Device, size: int) -> float:
    """Estimate the cycles of the launch that adds the parts."""
    partials = 2 * plan.parts * shape.many * shape.rows * shape.columns * size
    return device.cycles(0, 0, 1, 1, moved=partials) if plan.parts > 1 else 0.0


def _schedule(r: Reduction, c: Contraction, shape: _Shape, plan: _Plan) -> Schedule:
    tile, (rows, columns) = plan.tile, shape.across(plan.tile)
    parts = (("parts", plan.parts),) * (plan.parts > 1)
    grid = Grid((*axes_of(_around(r, c)), ("rows", rows), ("columns", columns), *parts))
    panels = Shared(((_name(c.a, "left"), tile.rows, tile.depth), (_name(c.b, "right"), tile.depth, tile.columns)))
    launches = [(grid, Threads(tile.threads), panels, Registers(*tile.results))]
    added = ((Grid(axes_of(r.build.vars)), Threads((THREADS,))),) * (plan.parts > 1)
    return parts_schedule((*launches, *added))


def _name(operand: Operand, otherwise: str) -> str:
    return operand.term.ref.name if isinstance(operand.term, ir.Get) else otherwise


def _build(r: Reduction, c: Contraction, shape: _Shape, plan: _Plan, address: Address,
           builder: KernelBuilder) -> Kernel:  # fmt: skip
    for ref in sorted({ref for v in r.build.values for ref in v.refs}, key=lambda ref: ref.name):
        builder.parameter(ref)
    if plan.parts == 1:
        launches = [_Product(r, c, shape, plan, address, builder).launch()]
    else:
        partials = ir.Ref("partials", r.total.dtype, (as_index(plan.parts), *(v.extent for v in r.build.vars)))
        like = Buffer("like", partials.dtype, (), "arena", ONE_INDEX)
        builder.own[partials] = builder.scratch("partials", like, r.results * plan.parts)
        first = _Product(r, c, shape, plan, address, builder, builder.own[partials]).launch()
        launches = [first, *_added(r, partials, builder)]
    if any(map(leaves, launches)):
        raise Declined
    return builder.kernel(tuple(launches))


def _added(r: Reduction, partials: ir.Ref, builder: KernelBuilder) -> list[For]:
    """The launch that adds the parts of each sum in order, and computes the statement."""
    part, variables = Var("part", partials.shape[0]), r.build.vars
    total = expr.reduce("sum", (part,), expr.get(partials, as_index(part), *map(as_index, variables)))
    changed: dict[ir.Scalar, ir.Scalar] = {r.total: total}
    build = replace(r.build, values=tuple(rewrite(v, changed.get) for v in r.build.values))

    def address(ref: ir.Ref, at: tuple[Index, ...]) -> tuple[Buffer, Index]:
        merged = ref in build.outs  # its axes may be one variable here
        return (builder.parameter(ref), flat_position(variables)) if merged else builder.address(ref, at)

    return spread_loops(element_loops(build, address, builder, beside=False), variables, builder)


@dataclass
class _Product:
    """The launch of a tiled product; with `partials` it stores the sums of parts of the terms."""

    r: Reduction
    c: Contraction
    shape: _Shape
    plan: _Plan
    address: Address
    builder: KernelBuilder
    partials: Buffer | None = None

    def __post_init__(self) -> None:
        dtype, self.tile = self.r.total.dtype, self.plan.tile
        tile, c = self.tile, self.c
        self.lowering = ScalarLowering(self.builder.parameter, self.builder.site, self.r.build.values)
        self.lowering.sums = frozenset((self.r.total,))
        self.type = scalar(dtype)
        self.run = tuple(min(n, lanes_of(dtype)) for n in tile.results)  # of neighboring rows or columns of a thread
        sides = ((c.a, c.rows, "left", tile.rows), (c.b, c.columns, "right", tile.columns))
        ends = self.plan.parts * self.plan.panels * tile.depth
        self.panels = list[Panel]()
        for operand, axes, name, width in sides:
            own = layout(operand, axes, c.depth, dtype, self.address)
            self.panels.append(Panel(_name(operand, name), operand, axes, c.depth, own, dtype, width, tile.depth,
                                     tile.all_threads, ends, self.lowering))  # fmt: skip
        self.own = [local_buffer(name, dtype, (tile.all_threads, n), "registers")
                    for name, n in zip(("a", "b"), tile.results, strict=True)]  # fmt: skip
        self.sums = local_buffer("sums", dtype, (tile.all_threads, prod(tile.results)), "registers")

    def launch(self) -> For:
        """The group loop, with a group for each tile of each product."""
        across = self.shape.across(self.tile)
        self.blocks = [Var(f"{name}_tile", as_index(n)) for name, n in zip(("row", "column"), across, strict=True)]
        self.part = Var("part", as_index(self.plan.parts))
        which = (*_around(self.r, self.c), *self.blocks, *((self.part,) * (self.plan.parts > 1)))
        g = Var("group", as_index(count_of(which) or 1))
        root = Scope()
        outer = root.inside(g, True)
        outer.statements += decoded(as_index(g), which)
        group = Scope(outer, frozenset(which), outer.known, loop=True, statements=outer.statements)
        group.statements.append(self._zeros())
        group.statements += [*self._fetch(group, ZERO_INDEX), *self._put(0)]
        pairs, rest = divmod(self.plan.panels - 1, 2)
        if pairs:
            pair = Var("pair", as_index(pairs))
            step = group.inside(pair, True)
            for half in (0, 1):
                step.statements += self._step(step, as_index(pair) * 2 + half, half)
            group.statements.append(For(pair, ZERO_INDEX, pair.extent, tuple(step.statements)))
        if rest:
            group.statements += self._step(group, as_index(2 * pairs), 0)
        group.statements += [self._multiply(rest), self._results(group)]
        return group_loop(g, (*root.statements, *group.statements))

    def _step(self, scope: Scope, panel: Index, half: int) -> list[For]:
        """Multiply a panel in one half of shared memory, while the next one is on its way to the other half."""
        return [*self._fetch(scope, panel + 1), self._multiply(half), *self._put(1 - half)]

    def _fetch(self, scope: Scope, panel: Index) -> list[For]:
        first = as_index(self.part) * self.plan.panels if self.plan.parts > 1 else ZERO_INDEX
        return [p.fetch(scope, as_index(block), first + panel)
                for p, block in zip(self.panels, self.blocks, strict=True)]  # fmt: skip

    def _put(self, half: int) -> list[For]:
        return [p.put(half) for p in self.panels]

    def _thread(self) -> Var:
        return Var("thread", as_index(self.tile.all_threads))

    def _sum_at(self, t: Var, i: Index | int, j: Index | int) -> Index:
        rows, columns = self.tile.results
        return as_index(t) * (rows * columns) + as_index(i) * columns + as_index(j)

    def _zeros(self) -> For:
        t, n = self._thread(), Var("n", as_index(prod(self.tile.results)))
        store = Store(self.sums, as_index(t) * n.extent + as_index(n), Literal(0.0, self.type))
        return thread_loop(t, (unrolled(n, (store,)),))

    def _first(self, t: Var) -> tuple[list[Stmt], tuple[Index, Index]]:
        """The first row and column of a thread's results within the tile."""
        size, warps = prod(LANES), self.tile.threads[1] // LANES[1]  # warps along columns
        names = {"warp": self.tile.all_threads // size, "lane": size, "y": self.tile.threads[0],
                 "x": self.tile.threads[1]}  # fmt: skip
        warp, lane, y, x = (Var(name, as_index(n)) for name, n in names.items())
        down, right = floor_divide(as_index(lane), as_index(LANES[1])), modulo(as_index(lane), as_index(LANES[1]))
        lets: list[Stmt] = [
            LetIndex(warp, floor_divide(as_index(t), as_index(size))),
            LetIndex(lane, modulo(as_index(t), as_index(size))),
            LetIndex(y, floor_divide(as_index(warp), as_index(warps)) * LANES[0] + down),
            LetIndex(x, modulo(as_index(warp), as_index(warps)) * LANES[1] + right)]  # fmt: skip
        return lets, (as_index(y) * self.run[0], as_index(x) * self.run[1])

    def _apart(self, side: int) -> int:
        """The distance of a thread's runs of rows (side 0) or columns (side 1)."""
        return self.tile.threads[side] * self.run[side]

    def _multiply(self, half: int) -> For:
        """Add the products of a panel to the sums of each thread."""
        tile, t, k = self.tile, self._thread(), Var("k", as_index(self.tile.depth))
        lets, first = self._first(t)
        body: list[Stmt] = []
        for side, (panel, own) in enumerate(zip(self.panels, self.own, strict=True)):
            at, n, run = panel.place(half, as_index(k), first[side]), tile.results[side], self.run[side]
            body += [Copy(View(own, as_index(t) * n + m * run), View(panel.panel, at + m * self._apart(side)),
                          as_index(run)) for m in range(n // run)]  # fmt: skip
        i, j = (Var(name, as_index(n)) for name, n in zip("ij", tile.results, strict=True))
        a, b = (Load(own, as_index(t) * v.extent + as_index(v), self.type)
                for own, v in zip(self.own, (i, j), strict=True))  # fmt: skip
        add = Store(self.sums, self._sum_at(t, as_index(i), as_index(j)), Binary("*", a, b, self.type), accumulate=True)
        return thread_loop(t, (*lets, unrolled(k, (*body, unrolled(i, (unrolled(j, (add,)),))))))

    def _results(self, group: Scope) -> For:
        """Compute each thread's part of the statement, and store runs of columns that are neighbors in memory."""
        tile, t, i = self.tile, self._thread(), Var("i", as_index(self.tile.results[0]))
        last = self.c.columns[-1]
        lanes = self.run[1] if last is self.r.build.vars[-1] and not (last.extent.constant or 1) % self.run[1] else 1
        b, j = Var("run", as_index(tile.results[1] // lanes)), Var("j", as_index(lanes))
        lets, (y, x) = self._first(t)
        thread = group.inside(t, True)
        each = thread.inside(i, True).inside(b, True)
        down = as_index(self.blocks[0]) * tile.rows + y + self._place(0, as_index(i))
        right = as_index(self.blocks[1]) * tile.columns + x + self._place(1, as_index(b) * lanes)
        conds = [*below(down, self.shape.rows, tile.rows), *below(right, self.shape.columns, tile.columns)]
        inside = each.guard(conds) if conds else each
        one = inside.inside(j, True)
        ahead = as_index(j) if lanes > 1 else ZERO_INDEX
        total, at = self.r.total, self._sum_at(t, as_index(i), as_index(b) * lanes + ahead)
        scope = Scope(one, frozenset((*self.c.rows, *self.c.columns)) | total.free, one.known, not conds, True,
                      statements=one.statements, temps={total: Load(self.sums, at, self.type)})  # fmt: skip
        scope.statements += self._decoded(down, right + ahead)
        outs, place = self._outs(scope)
        if lanes == 1:
            scope.statements += [Store(o, place, v) for o, v in outs]
            inside.statements += one.statements
        else:
            kept = [local_buffer(f"{o.name}_run", o.dtype, (tile.all_threads, lanes), "registers") for o, _ in outs]
            scope.statements += [Store(k, as_index(t) * lanes + as_index(j), v)
                                 for k, (_, v) in zip(kept, outs, strict=True)]  # fmt: skip
            copies = [Copy(View(o, place), View(k, as_index(t) * lanes), j.extent)
                      for k, (o, _) in zip(kept, outs, strict=True)]  # fmt: skip
            inside.statements += [unrolled(j, one.statements), *self._decoded(down, right), *copies]
        if conds:
            each.statements.append(If(Holds(tuple(conds)), tuple(inside.statements)))
        assert each.parent is not None
        rows = unrolled(i, (*each.parent.statements, unrolled(b, each.statements)))
        return thread_loop(t, (*lets, *thread.statements, rows))

    def _place(self, side: int, n: Index) -> Index:
        """The place of a thread's n-th row or column, from its first one on."""
        run = as_index(self.run[side])
        return floor_divide(n, run) * self._apart(side) + modulo(n, run)

    def _decoded(self, row: Index, column: Index) -> list[Stmt]:
        """Bind the variables of rows and columns."""
        m, n = Var("row", as_index(self.shape.rows)), Var("column", as_index(self.shape.columns))
        return [LetIndex(m, row), LetIndex(n, column), *decoded(as_index(m), self.c.rows),
                *decoded(as_index(n), self.c.columns)]  # fmt: skip

    def _outs(self, scope: Scope) -> tuple[list[tuple[Buffer, Value]], Index]:
        """The written arrays with the values of an element, and its place."""
        build, place = self.r.build, flat_position(self.r.build.vars)
        if self.partials is not None:
            return [(self.partials, scope.temps[self.r.total])], as_index(self.part) * self.r.results + place
        values = named_values(build, self.lowering, scope)
        return [(self.builder.parameter(o), v) for o, v in zip(build.outs, values, strict=True)], place
