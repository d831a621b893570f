"""Tiled products: panels of operands in shared memory, sums in registers.

    z[m, n] = f(sum k { x[m, k] * y[k, n] })
    -->  group of a tile of z:  each thread has rows × columns sums in registers
         for panels of k:       all threads copy a panel of x and one of y to shared memory, then add their products
         each thread:           z[m, n] = f(its sums)

Each sum adds its terms in the order of a plain loop, so its bits are equal. The operands may be any expressions, and f
is the rest of the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final, NamedTuple

from pullback.device import Device
from pullback.grid.reductions import Reduction, leaves, moved, reduction, store_values
from pullback.grid.steps import (
    Grid,
    Registers,
    Shared,
    Threads,
    count_of,
    decoded,
    group_loop,
    local_buffer,
    thread_loop,
    unrolled,
)
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide, modulo
from pullback.ir.traverse import walk
from pullback.loops.plain.builder import Address, KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate, Declined
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.product.contraction import Contraction, Operand, contractions, is_affine
from pullback.loops.program.nodes import For, If, Kernel, Let, LetIndex, Stmt, Store
from pullback.loops.program.schedule import Schedule
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Binary, Buffer, Holds, Literal, Load, Read, Temp, scalar
from pullback.machine import Machine

LEAST: Final = (8, 8, 4)  # least rows, columns and terms; with fewer, tiles are mostly empty


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


TILES: Final = (Tile((16, 16), (8, 8), 8), Tile((16, 16), (4, 4), 16), Tile((16, 16), (2, 2), 16),
                Tile((8, 8), (2, 2), 16))  # fmt: skip


class _Shape(NamedTuple):
    """The sizes of a batch of products: their number, rows, columns and terms."""

    many: int
    rows: int
    columns: int
    terms: int


def products(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for sums of products of two operands."""
    r = reduction(work.statement)
    if r is None or r.total.op != "sum" or (found := _best(r, work.address)) is None:
        return
    (c, shape), least = found, moved(work.statement)
    for tile in TILES:
        a = Shared(((_name(c.a, "left"), tile.rows, tile.depth), (_name(c.b, "right"), tile.depth, tile.columns)))
        across = (-(-shape.rows // tile.rows), -(-shape.columns // tile.columns))
        grid = Grid((*((v.name, v.extent.constant or 0) for v in _around(r, c)), ("rows", across[0]),
                     ("columns", across[1])))  # fmt: skip
        schedule = Schedule((grid, Threads(tile.threads), a, Registers(*tile.results)))
        build = partial(_build, r, c, shape, tile, work.address)
        cycles = max(_cycles(shape, tile, device, r.total.dtype.bits > 32), device.cycles(0, 0, 1, 1, moved=least))
        yield Candidate("product", cycles, build, schedule)


def _best(r: Reduction, address: Address) -> tuple[Contraction, _Shape] | None:
    """The contraction that fills tiles best, among all readings of the statement as a product."""
    best: tuple[tuple[int, int], Contraction, _Shape] | None = None
    for c in contractions(r.build, address):
        rows, columns, terms, many = (count_of(v) or 0 for v in (c.rows, c.columns, c.depth, _around(r, c)))
        if rows < LEAST[0] or columns < LEAST[1] or terms < LEAST[2]:
            continue
        score = min(rows, 128) * min(columns, 128), (c.a.plain is not None) + (c.b.plain is not None)
        if best is None or score > best[0]:
            best = score, c, _Shape(many, rows, columns, terms)
    return None if best is None else best[1:]


def _around(r: Reduction, c: Contraction) -> tuple[Var, ...]:
    """The batch variables: variables of the result that are neither rows nor columns."""
    return tuple(v for v in r.build.vars if v not in c.rows and v not in c.columns)


def _cycles(shape: _Shape, tile: Tile, device: Device, wide: bool) -> float:
    """Estimate the cycles: groups run in rounds; a step is multiply-adds and shared memory loads."""
    groups = shape.many * -(-shape.rows // tile.rows) * -(-shape.columns // tile.columns)
    panels = -(-shape.terms // tile.depth)
    own = prod(tile.results)
    step = prod(tile.threads) * (own + sum(tile.results)) / (device.double if wide else device.single)
    waits = (tile.rows + tile.columns) / prod(tile.threads) * device.serial  # memory latency over a few loads
    rounds = -(-groups // device.multiprocessors)
    return device.launch + rounds * panels * (tile.depth * (step + waits) + 2 * device.meeting)


def _name(operand: Operand, otherwise: str) -> str:
    return operand.term.ref.name if isinstance(operand.term, ir.Get) else otherwise


def _build(r: Reduction, c: Contraction, shape: _Shape, tile: Tile, address: Address, builder: KernelBuilder) -> Kernel:
    for ref in sorted({ref for v in r.build.values for ref in v.refs}, key=lambda ref: ref.name):
        builder.parameter(ref)
    launch = _Product(r, c, shape, tile, address, builder).launch()
    if leaves(launch):
        raise Declined
    return builder.kernel((launch,))


@dataclass
class _Product:
    """The launch of a tiled product."""

    r: Reduction
    c: Contraction
    shape: _Shape
    tile: Tile
    address: Address
    builder: KernelBuilder

    def __post_init__(self) -> None:
        dtype, tile = self.r.total.dtype, self.tile
        self.lowering = ScalarLowering(self.builder.parameter, self.builder.site, self.r.build.values)
        self.lowering.sums = frozenset((self.r.total,))
        self.type = scalar(dtype)
        self.count = prod(tile.threads)
        self.left = local_buffer(f"{_name(self.c.a, 'left')}_panel", dtype, (tile.depth, tile.rows), "shared")
        self.right = local_buffer(f"{_name(self.c.b, 'right')}_panel", dtype, (tile.depth, tile.columns), "shared")
        self.sums = local_buffer("sums", dtype, (self.count, prod(tile.results)), "registers")

    def launch(self) -> For:
        """The group loop, with a group for each tile of each product."""
        shape, tile = self.shape, self.tile
        self.row_tile = Var("row_tile", as_index(-(-shape.rows // tile.rows)))
        self.column_tile = Var("column_tile", as_index(-(-shape.columns // tile.columns)))
        which = (*_around(self.r, self.c), self.row_tile, self.column_tile)
        g = Var("group", as_index(count_of(which) or 1))
        root = Scope()
        outer = root.inside(g, True)
        outer.statements += decoded(as_index(g), which)
        group = Scope(outer, frozenset(which), outer.known, loop=True, statements=outer.statements)
        group.statements.append(self._zeros())
        panel = Var("panel", as_index(-(-shape.terms // tile.depth)))
        step = group.inside(panel, True)
        for operand, axes, block, to in ((self.c.a, self.c.rows, self.row_tile, self.left),
                                         (self.c.b, self.c.columns, self.column_tile, self.right)):  # fmt: skip
            step.statements.append(self._copy(step, panel, operand, axes, block, to))
        step.statements.append(self._multiply())
        group.statements.append(For(panel, ZERO_INDEX, panel.extent, tuple(step.statements)))
        group.statements.append(self._results(group))
        return group_loop(g, (*root.statements, *group.statements))

    def _thread(self) -> Var:
        return Var("thread", as_index(self.count))

    def _sum_at(self, t: Var, i: Index | int, j: Index | int) -> Index:
        rows, columns = self.tile.results
        return as_index(t) * (rows * columns) + as_index(i) * columns + as_index(j)

    def _own(self) -> tuple[Var, Var]:
        return Var("i", as_index(self.tile.results[0])), Var("j", as_index(self.tile.results[1]))

    def _zeros(self) -> For:
        t, (i, j) = self._thread(), self._own()
        store = Store(self.sums, self._sum_at(t, as_index(i), as_index(j)), Literal(0.0, self.type))
        return thread_loop(t, (unrolled(i, (unrolled(j, (store,)),)),))

    def _copy(self, step: Scope, panel: Var, operand: Operand, axes: Sequence[Var], block: Var, to: Buffer) -> For:
        """Copy a panel with all threads; elements beyond the operand's end are zero."""
        width, depth = (to.shape[1].constant or 1), self.tile.depth
        size, t = width * depth, self._thread()
        turn = Var("turn", as_index(-(-size // self.count)))
        each = step.inside(t, True).inside(turn, True)
        flat = as_index(turn) * self.count + as_index(t)
        p, q = Var("p", as_index(width)), Var("q", as_index(depth))
        if self._runs_along_terms(operand):  # neighboring threads read neighbors
            split = [LetIndex(q, modulo(flat, q.extent)), LetIndex(p, floor_divide(flat, q.extent))]
        else:
            split = [LetIndex(p, modulo(flat, p.extent)), LetIndex(q, floor_divide(flat, p.extent))]
        count = count_of(axes) or 1
        along, term = Var("along", as_index(count)), Var("term", as_index(self.shape.terms))
        there, k = as_index(block) * width + as_index(p), as_index(panel) * depth + as_index(q)
        conds = [*_below(there, count, width), *_below(k, self.shape.terms, depth)]
        place = as_index(q) * width + as_index(p)
        each.statements += split
        inside = each.guard(conds) if conds else each
        scope = Scope(inside, frozenset((*axes, *self.c.depth)), inside.known, not conds, True,
                      statements=inside.statements)  # fmt: skip
        scope.statements += [LetIndex(along, there), LetIndex(term, k)]
        scope.statements += [*decoded(as_index(along), axes), *decoded(as_index(term), self.c.depth)]
        scope.statements.append(Store(to, place, self.lowering.value(operand.term, scope)))
        if conds:
            nothing = Store(to, place, Literal(0.0, self.type))
            each.statements.append(If(Holds(tuple(conds)), tuple(scope.statements), (nothing,)))
        body: tuple[Stmt, ...] = tuple(each.statements)
        if size % self.count:  # the last iteration has fewer elements than threads
            body = (If(Holds(tuple(_below(flat, size, self.count))), body),)
        assert each.parent is not None
        return thread_loop(t, (*each.parent.statements, unrolled(turn, body)))

    def _runs_along_terms(self, operand: Operand) -> bool:
        """Whether adjacent elements in memory are adjacent terms of the sum."""
        for g in walk(operand.term):
            if isinstance(g, ir.Get):
                _, flat = self.address(g.ref, g.indices)
                for m, factor in flat.terms if is_affine(flat) else ():
                    if factor == 1 and len(m) == 1:
                        return m[0] in self.c.depth
        return False

    def _multiply(self) -> For:
        """Add the products of a panel to the sums of each thread."""
        tile, t, k = self.tile, self._thread(), Var("k", as_index(self.tile.depth))
        row, column = _place(t, tile)
        lefts = [Temp(f"a{n}", self.type) for n in range(tile.results[0])]
        rights = [Temp(f"b{n}", self.type) for n in range(tile.results[1])]
        body: list[Stmt] = [Let(a, Load(self.left, as_index(k) * tile.rows + row + n, self.type))
                            for n, a in enumerate(lefts)]  # fmt: skip
        body += [Let(b, Load(self.right, as_index(k) * tile.columns + column + n, self.type))
                 for n, b in enumerate(rights)]  # fmt: skip
        body += [Store(self.sums, self._sum_at(t, i, j), Binary("*", Read(a), Read(b), self.type), accumulate=True)
                 for i, a in enumerate(lefts) for j, b in enumerate(rights)]  # fmt: skip
        return thread_loop(t, (unrolled(k, body),))

    def _results(self, group: Scope) -> For:
        """Compute each thread's part of the statement, with its sums in place of the reduction."""
        shape, tile, t, (i, j) = self.shape, self.tile, self._thread(), self._own()
        row, column = _place(t, tile)
        thread = group.inside(t, True)
        each = thread.inside(i, True).inside(j, True)
        m, n = Var("row", as_index(shape.rows)), Var("column", as_index(shape.columns))
        down = as_index(self.row_tile) * tile.rows + row + as_index(i)
        right = as_index(self.column_tile) * tile.columns + column + as_index(j)
        conds = [*_below(down, shape.rows, tile.rows), *_below(right, shape.columns, tile.columns)]
        inside = each.guard(conds) if conds else each
        total = self.r.total
        own = frozenset((*self.c.rows, *self.c.columns))
        scope = Scope(inside, own | total.free, inside.known, not conds, True, statements=inside.statements,
                      temps={total: Load(self.sums, self._sum_at(t, as_index(i), as_index(j)), self.type)})  # fmt: skip
        scope.statements += [LetIndex(m, down), LetIndex(n, right)]
        scope.statements += [*decoded(as_index(m), self.c.rows), *decoded(as_index(n), self.c.columns)]
        store_values(self.r.build, self.lowering, self.builder, scope)
        if conds:
            each.statements.append(If(Holds(tuple(conds)), tuple(scope.statements)))
        assert each.parent is not None
        rows = unrolled(i, (*each.parent.statements, unrolled(j, each.statements)))
        return thread_loop(t, (*thread.statements, rows))


def _place(t: Var, tile: Tile) -> tuple[Index, Index]:
    """The first row and column of a thread's results within the tile."""
    row, column = floor_divide(as_index(t), as_index(tile.threads[1])), modulo(as_index(t), as_index(tile.threads[1]))
    return row * tile.results[0], column * tile.results[1]


def _below(i: Index, count: int, by: int) -> list[Cond]:
    """The condition that an index is below `count`; none if `count` is a multiple of `by`."""
    found = cond(">=", as_index(count) - 1 - i) if count % by else True
    return [] if isinstance(found, bool) else [found]
