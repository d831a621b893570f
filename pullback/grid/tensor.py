"""Products on tensor cores: panels in shared memory are multiplied by warps, sums stay in registers.

    z[m, n] = f(sum k { x[m, k] * y[k, n] })        with x and y of 16 bits
    -->  group of a tile of z:  each thread has sums of its warp's part
         for panels of k:       threads fetch panels ahead, into slots of shared memory;  warps multiply the next ones
         each thread:           z[m, n] = f(its sums)

Operands are of f16 or bf16, or f32 where the program permits TF32. Products are exact in f32. A device adds terms in an
order of its own, and rounds in its own way; the plain reading adds them in order.

A panel has lines of 128 bytes along the axis on which its operand is contiguous: along the terms, or across them. An
operand with aligned chunks of 16 bytes is fetched by asynchronous copies; any other one is computed and stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    axes_of,
    count_of,
    decoded,
    group_loop,
    local_buffer,
    thread_loop,
    unrolled,
)
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide, modulo
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType, f32
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position
from pullback.loops.plain.candidates import Candidate, Declined
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.product.contraction import Contraction, Operand, contractions, is_affine
from pullback.loops.program.ahead import EndBatch, Finish, Instruction, Prefetch, Run, Wait, WarpTile
from pullback.loops.program.nodes import Copy, For, If, Kernel, LetIndex, Multiply, Stmt, Store
from pullback.loops.program.schedule import EVERY, Schedule, Step
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Binary, Buffer, Holds, Literal, Load, View, scalar
from pullback.machine import Machine

LINE: Final = 128  # bytes of a line of a panel
CHUNK: Final = 16  # bytes that one copy fetches
LEAST: Final = (16, 16, 16)  # least rows, columns and terms; with fewer, tiles are mostly empty
BAND: Final = 8  # rows of tiles that groups walk through column by column, so that panels stay in the cache


class TensorTile(NamedTuple):
    """The tile of a group: warps in rows and columns, the part of each, and the slots for panels.

    Instructions of four warps multiply 64 rows. Those of one thread multiply 128 rows and all columns.
    """

    warps: tuple[int, int]
    part: tuple[int, int]
    slots: int
    instruction: Instruction = "mma"

    @property
    def together(self) -> bool:
        """Whether warps multiply together, while others go on."""
        return self.instruction != "mma"

    @property
    def threads(self) -> int:
        """The threads of a group."""
        return 32 * prod(self.warps)

    @property
    def rows(self) -> int:
        """The rows of the result that a group computes."""
        return self.warps[0] * self.part[0]

    @property
    def columns(self) -> int:
        """The columns of the result that a group computes."""
        return self.warps[1] * self.part[1]

    @property
    def sums(self) -> int:
        """The sums of a thread."""
        return prod(self.part) // 32

    @property
    def held(self) -> int:
        """The number of panels that are read while others are copied: one more if warps multiply together."""
        return 1 + self.together


TILES: Final = (
    TensorTile((4, 2), (32, 128), 4, "tcgen05"), TensorTile((4, 1), (32, 128), 4, "tcgen05"),
    TensorTile((8, 1), (16, 256), 4, "wgmma"), TensorTile((8, 1), (16, 128), 3, "wgmma"),
    TensorTile((4, 1), (16, 128), 4, "wgmma"), TensorTile((2, 2), (64, 64), 3),
    TensorTile((2, 2), (32, 32), 3))  # fmt: skip
MORE_TILES: Final = (  # for tuners
    TensorTile((8, 1), (16, 256), 3, "wgmma"), TensorTile((8, 1), (16, 128), 4, "wgmma"),
    TensorTile((4, 1), (16, 256), 4, "wgmma"), TensorTile((4, 1), (16, 128), 3, "wgmma"),
    TensorTile((2, 4), (64, 64), 3), TensorTile((4, 2), (64, 64), 3), TensorTile((2, 2), (64, 64), 2),
    TensorTile((2, 2), (64, 64), 4), TensorTile((4, 2), (32, 64), 3),
    TensorTile((2, 2), (64, 32), 3), TensorTile((2, 2), (32, 64), 3), TensorTile((2, 2), (32, 32), 2),
    TensorTile((2, 2), (32, 32), 4))  # fmt: skip


@dataclass(frozen=True)
class TensorCores(Step):
    """The step that multiplies panels with tensor cores."""

    kind: str
    slots: int
    instruction: Instruction

    def __str__(self) -> str:
        return f"tensor cores {self.instruction} {self.kind}, {self.slots} slots"


@dataclass(frozen=True)
class TensorPanel:
    """An operand and its panels.

    Attributes:
        name: the name of its array.   term: the operand as its elements are stored.   conds: it is 0 unless they hold.
        along: whether lines run along the terms.   fetched: whether chunks are contiguous and aligned.
        axes: the variables of its rows (or columns).
    """

    name: str
    term: ir.Scalar
    conds: tuple[Cond, ...]
    along: bool
    fetched: bool
    axes: tuple[Var, ...]

    @property
    def dtype(self) -> DType:
        """The type of the elements in memory."""
        return self.term.dtype


class Found(NamedTuple):
    """A product for tensor cores: its contraction, operands, and the number of products."""

    c: Contraction
    left: TensorPanel
    right: TensorPanel
    many: int

    @property
    def rows(self) -> int:
        """The rows of a product."""
        return count_of(self.c.rows) or 1

    @property
    def columns(self) -> int:
        """The columns of a product."""
        return count_of(self.c.columns) or 1

    @property
    def terms(self) -> int:
        """The terms of a sum."""
        return count_of(self.c.depth) or 1

    @property
    def depth(self) -> int:
        """The terms of a panel: a line has as many."""
        return LINE // self.left.dtype.size


def tensor_products(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for sums of products of two operands that tensor cores multiply."""
    r = reduction(work.statement)
    if not device.tensor or r is None or r.total.op != "sum" or r.total.dtype is not f32:
        return
    if (found := _best(r, work, device)) is None:
        return
    least = moved(work.statement)
    for tile in TILES + MORE_TILES * (work.wish is EVERY):
        depth = found.depth
        if tile.instruction not in device.instructions or (tile.together and not found.left.dtype.is_half):
            continue
        a = Shared(((found.left.name, tile.rows, depth), (found.right.name, depth, tile.columns)))
        across = (-(-found.rows // tile.rows), -(-found.columns // tile.columns))
        grid = Grid((*axes_of(_around(r, found.c)), ("rows", across[0]), ("columns", across[1])))
        kind = TensorCores(found.left.dtype.name, tile.slots, tile.instruction)
        schedule = Schedule((grid, Threads((tile.threads,)), a, kind, Registers(tile.sums // 2, 2)))
        cycles = max(_cycles(found, tile, device), device.cycles(0, 0, 1, 1, moved=least))
        has_run = tile.instruction != "tcgen05"
        yield Candidate("tensor", cycles, partial(_build, r, found, tile), schedule, has_run=has_run)


def _best(r: Reduction, work: Work, device: Device) -> Found | None:
    """The contraction whose operands are fetched, among all readings of the statement as a product."""
    best: tuple[tuple[int, int], Found] | None = None
    for c in contractions(r.build, work.address):
        sizes = [count_of(v) or 0 for v in (c.rows, c.columns, c.depth)]
        if any(n < least for n, least in zip(sizes, LEAST, strict=True)):
            continue
        left, right = (_panel(o, axes, c, work, device) for o, axes in ((c.a, c.rows), (c.b, c.columns)))
        if left is None or right is None or left.dtype is not right.dtype:
            continue
        many = count_of(_around(r, c)) or 0
        score = left.fetched + right.fetched, min(sizes[0], 128) * min(sizes[1], 128)
        if many and (best is None or score > best[0]):
            best = score, Found(c, left, right, many)
    return None if best is None else best[1]


def _around(r: Reduction, c: Contraction) -> tuple[Var, ...]:
    """The batch variables: variables of the result that are neither rows nor columns."""
    return tuple(v for v in r.build.vars if v not in c.rows and v not in c.columns)


def _panel(operand: Operand, axes: tuple[Var, ...], c: Contraction, work: Work, device: Device) -> TensorPanel | None:
    """The operand as panels; None if tensor cores may not multiply its elements."""
    whole = operand.term
    term, conds = (whole.arg, whole.conds) if isinstance(whole, ir.Bracket) else (whole, ())
    if isinstance(term, ir.Cast) and term.arg.dtype.is_half:
        term = term.arg
    elif not device.tf32:
        return None
    if not isinstance(term, ir.Get):
        return TensorPanel("left" if axes is c.rows else "right", term, conds, True, False, axes)
    ways = [(along, _is_chunked(term, conds, c.depth if along else axes, work)) for along in (True, False)]
    along, fetched = next((w for w in ways if w[1]), (True, False))
    return TensorPanel(term.ref.name, term, conds, along, fetched, axes)


def _is_chunked(term: ir.Get, conds: Sequence[Cond], line: Sequence[Var], work: Work) -> bool:
    """Whether aligned chunks of elements are neighbors in memory along the last of some variables."""
    buffer, flat = work.address(term.ref, term.indices)
    place = work.place(buffer)
    count, last = CHUNK // term.dtype.size, line[-1]
    whole = flat + place.offset
    if not is_affine(flat) or any(last in c.free for c in conds) or (last.extent.constant or 0) % count:
        return False
    own = whole.coefficient(last)
    return own is not None and own.constant == 1 and all(
        k % count == 0 for m, k in whole.terms if m != (last,))


WARPS: Final = 0.6  # the part of the tensor cores' rate that instructions of one warp reach
TOGETHER: Final = 0.8  # the same for four warps
LATENCY: Final = 800.0  # cycles from a copy to its elements
ENDS: Final = 1500.0  # cycles for the first panels and the results


def _cycles(f: Found, tile: TensorTile, device: Device) -> float:
    """Estimate the cycles: groups run in rounds, and those on one multiprocessor share its units."""
    groups = f.many * -(-f.rows // tile.rows) * -(-f.columns // tile.columns)
    panels = -(-f.terms // f.depth)
    rate = device.tensor * 2 / f.left.dtype.size * (TOGETHER if tile.together else WARPS)
    bytes_ = (tile.rows + tile.columns) * LINE
    computed = 2 - f.left.fetched - f.right.fetched
    speed = device.tensor / 32 / (1 + 3 * computed)  # bytes that a multiprocessor takes from the cache in a cycle
    step = max(tile.rows * tile.columns * f.depth / rate, bytes_ / speed)
    registers = tile.threads * (tile.sums + 96)
    room = max(1, min(device.most_shared // (bytes_ * tile.slots), device.registers // registers))
    rounds, rest = divmod(groups, device.multiprocessors * room)
    shares = [room] * rounds + [-(-rest // device.multiprocessors)] * (rest > 0)
    return device.launch + sum(
        panels * max(n * step, LATENCY / (tile.slots - tile.held), device.meeting) + ENDS for n in shares)


def _build(r: Reduction, found: Found, tile: TensorTile, builder: KernelBuilder) -> Kernel:
    for ref in sorted({ref for v in r.build.values for ref in v.refs}, key=lambda ref: ref.name):
        builder.parameter(ref)
    launch = _TensorProduct(r, found, tile, builder).launch()
    if leaves(launch):
        raise Declined
    return builder.kernel((launch,))


class Sums(NamedTuple):
    """The sums of a thread.

    Attributes:
        lets: the definitions of its warp, and of its number there.
        own: the variables that number its sums; the last one numbers neighbors in a row.
        row, column: the place of a sum in the tile.   at: the place in the buffer of sums.
    """

    lets: tuple[LetIndex, LetIndex]
    own: tuple[Var, ...]
    row: Index
    column: Index
    at: Index

    def loop(self, body: Sequence[Stmt]) -> Stmt:
        """A loop over the sums."""
        for v in reversed(self.own):
            body = (unrolled(v, body),)
        return body[0]


@dataclass
class _TensorProduct:
    """The launch of a product."""

    r: Reduction
    f: Found
    tile: TensorTile
    builder: KernelBuilder

    def __post_init__(self) -> None:
        tile, depth, dtype = self.tile, self.f.depth, self.f.left.dtype
        self.lowering = ScalarLowering(self.builder.parameter, self.builder.site, self.r.build.values)
        self.lowering.sums = frozenset((self.r.total,))
        self.panels = -(-self.f.terms // depth)
        self.slots = min(tile.slots, self.panels + tile.held)
        self.left, self.right = (
            replace(local_buffer(f"{p.name}_panels", dtype, (self.slots, width * depth), "shared"), slots=self.slots,
                    swizzled=True)
            for p, width in ((self.f.left, tile.rows), (self.f.right, tile.columns)))  # fmt: skip
        self.sums = local_buffer("sums", f32, (tile.threads, tile.sums), "registers")
        self.type = scalar(f32)

    def launch(self) -> For:
        """The group loop, with a group for each tile of each product."""
        f, tile = self.f, self.tile
        self.row_tile = Var("row_tile", as_index(-(-f.rows // tile.rows)))
        self.column_tile = Var("column_tile", as_index(-(-f.columns // tile.columns)))
        tiles = self.row_tile.extent.constant or 1
        band = next(n for n in range(BAND, 0, -1) if tiles % n == 0)
        down, within = Var("band", as_index(tiles // band)), Var("within", as_index(band))
        which = (*_around(self.r, f.c), down, self.column_tile, within)
        g = Var("group", as_index(count_of(which) or 1))
        root = Scope()
        outer = root.inside(g, True)
        outer.statements += decoded(as_index(g), which)
        outer.statements.append(LetIndex(self.row_tile, as_index(down) * band + as_index(within)))
        group = Scope(outer, frozenset((*which, self.row_tile)), outer.known, loop=True, statements=outer.statements)
        group.statements.append(self._zeros())
        ahead = self.slots - tile.held
        group.statements += [self._copies(group, as_index(n)) for n in range(ahead)]
        panel = Var("panel", as_index(self.panels))
        step = group.inside(panel, True)
        step.statements.append(self._wait(panel, ahead - 1))
        copies = self._copies(step, as_index(panel) + ahead)
        step.statements += [self._multiply(panel), copies] if tile.together else [copies, self._multiply(panel)]
        group.statements.append(For(panel, ZERO_INDEX, panel.extent, tuple(step.statements)))
        group.statements += [thread_loop(self._thread(), (self._finish(),))] * tile.together
        group.statements.append(self._results(group))
        return group_loop(g, (*root.statements, *group.statements))

    def _thread(self) -> Var:
        return Var("thread", as_index(self.tile.threads))

    def _sizes(self) -> tuple[int, int]:
        """The blocks of 16 rows, and of 8 columns, of a warp."""
        return self.tile.part[0] // 16, self.tile.part[1] // 8

    def _warp_tile(self) -> WarpTile:
        return WarpTile(*self._sizes(), self.tile.warps[1], self.f.depth, self.tile.instruction)

    def _finish(self) -> Finish:
        return Finish(self.sums, self._warp_tile(), self.panels)

    def _sums(self, t: Var) -> Sums:
        """The sums of a thread."""
        (rows, columns), (down, across), (height, width) = self._sizes(), self.tile.warps, self.tile.part
        warp, lane = Var("warp", as_index(self.tile.threads // 32)), Var("lane", as_index(32))
        lets = LetIndex(warp, floor_divide(as_index(t), lane.extent)), LetIndex(lane, modulo(as_index(t), lane.extent))
        if self.tile.instruction == "tcgen05":
            run = CHUNK // max(o.dtype.size for o in self.r.build.outs)
            pair = Var("j", as_index(width // run)), Var("next", as_index(run))
            column = as_index(pair[0]) * run + as_index(pair[1])
            first = floor_divide(as_index(warp), as_index(down)) * width
            row = modulo(as_index(warp), as_index(down)) * height + as_index(lane)
            return Sums(lets, pair, row, first + column, as_index(t) * self.tile.sums + column)
        own = Var("i", as_index(rows)), Var("low", as_index(2)), Var("j", as_index(columns)), Var("next", as_index(2))
        i, low, j, after = map(as_index, own)
        row = floor_divide(as_index(warp), as_index(across)) * height + floor_divide(as_index(lane), as_index(4))
        column = modulo(as_index(warp), as_index(across)) * width + modulo(as_index(lane), as_index(4)) * 2
        at = as_index(t) * self.tile.sums + (i * columns + j) * 4 + low * 2 + after
        return Sums(lets, own, row + i * 16 + low * 8, column + j * 8 + after, at)

    def _zeros(self) -> For:
        t = self._thread()
        sums = self._sums(t)
        return thread_loop(t, (sums.loop((Store(self.sums, sums.at, Literal(0.0, self.type)),)),))

    def _slot(self, panel: Index | Var, to: Buffer) -> Index:
        """The first element of a panel's slot."""
        return modulo(as_index(panel), as_index(self.slots)) * to.shape[1]

    def _copies(self, step: Scope, panel: Index) -> For:
        """Copy panels of both operands to their slots, if there are so many."""
        t = self._thread()
        known = cond(">=", as_index(self.panels) - 1 - panel)
        each = step.inside(t, True)
        inside = each if isinstance(known, bool) else each.guard((known,))
        if known is not False:
            for p, block, to in ((self.f.left, self.row_tile, self.left), (self.f.right, self.column_tile, self.right)):
                inside.statements.append(self._copy(inside, t, panel, p, block, to))
        if not isinstance(known, bool):
            each.statements.append(If(Holds((known,)), tuple(inside.statements)))
        each.statements.append(EndBatch())
        return thread_loop(t, each.statements)

    def _copy(self, outer: Scope, t: Var, panel: Index, p: TensorPanel, block: Var, to: Buffer) -> For:
        """Copy a panel, a chunk or an element at a time; elements beyond the operand's end are zero."""
        depth, size, threads = self.f.depth, to.shape[1].constant or 1, self.tile.threads
        line, count = LINE // p.dtype.size, CHUNK // p.dtype.size if p.fetched else 1
        turn = Var("turn", as_index(size // count // threads))
        place = (as_index(turn) * threads + as_index(t)) * count
        i, q = floor_divide(place, as_index(line)), modulo(place, as_index(line))
        if not p.along:
            i, q = floor_divide(i, as_index(depth)) * line + q, modulo(i, as_index(depth))
        rows, terms, width = count_of(p.axes) or 1, self.f.terms, size // depth
        there, k = as_index(block) * width + i, panel * depth + q
        along, term = Var("along", as_index(rows)), Var("term", as_index(terms))
        conds = [*_below(there, rows, width), *_below(k, terms, depth)]
        each = outer.inside(turn, True)
        inside = each.guard(conds) if conds and not p.fetched else each
        scope = Scope(inside, frozenset((*p.axes, *self.f.c.depth)), inside.known, inside is each, True,
                      statements=inside.statements)  # fmt: skip
        scope.statements += [LetIndex(along, there), LetIndex(term, k)]
        scope.statements += [*decoded(as_index(along), p.axes), *decoded(as_index(term), self.f.c.depth)]
        at = self._slot(panel, to) + place
        if p.fetched:
            scope.statements.append(self._fetch(p, View(to, at), conds, scope))
        else:
            scope.statements.append(Store(to, at, self.lowering.value(expr.bracket(p.conds, p.term), scope)))
        if inside is not each:
            nothing = Store(to, at, Literal(0, scalar(p.dtype)))
            each.statements.append(If(Holds(tuple(conds)), tuple(inside.statements), (nothing,)))
        return unrolled(turn, each.statements)

    def _fetch(self, p: TensorPanel, to: View, conds: Sequence[Cond], scope: Scope) -> Prefetch:
        """Fetch a chunk; it is zero unless conditions hold."""
        assert isinstance(p.term, ir.Get)
        source = View(self.builder.parameter(p.term.ref), self.lowering.flat(p.term.ref, p.term.indices, scope))
        tests = (*conds, *self.lowering.conditions(p.conds, scope))
        return Prefetch(to, source, CHUNK // p.dtype.size, Holds(tests) if tests else None)

    def _wait(self, panel: Var, pending: int) -> For:
        """Wait for the copies of a panel."""
        runs = tuple(Run(to, self._slot(panel, to), to.shape[1])
                     for p, to in ((self.f.left, self.left), (self.f.right, self.right)) if p.fetched)  # fmt: skip
        return thread_loop(self._thread(), (Wait(runs, pending, self.tile.together),))

    def _multiply(self, panel: Var) -> For:
        """Add the products of a panel to the sums."""
        t, k = self._thread(), Var("k", as_index(self.f.depth))
        sums = self._sums(t)
        places = [(to, self._slot(panel, to), p, i) for p, to, i in
                  ((self.f.left, self.left, sums.row), (self.f.right, self.right, sums.column))]  # fmt: skip
        a, b = (Load(to, slot + self._within(p, i, as_index(k)), self.type) for to, slot, p, i in places)
        add = Store(self.sums, sums.at, Binary("*", a, b, self.type), accumulate=True)
        body = *sums.lets, sums.loop((For(k, ZERO_INDEX, k.extent, (add,)),))
        (left, at_left, *_), (right, at_right, *_) = places
        both = self.f.left.along, self.f.right.along
        before = as_index(panel) + (self.slots - 1)
        pending = [Run(to, self._slot(before, to), to.shape[1]) for to in (left, right)] * self.tile.together
        views = View(left, at_left), View(right, at_right)
        made = Multiply(body, self._warp_tile(), self.sums, *views, both, as_index(panel), tuple(pending))
        return thread_loop(t, (made,))

    def _within(self, p: TensorPanel, i: Index, k: Index) -> Index:
        """The place of a row (or column) and a term in a panel."""
        line = LINE // p.dtype.size
        if p.along:
            return i * line + k
        return (floor_divide(i, as_index(line)) * self.f.depth + k) * line + modulo(i, as_index(line))

    def _results(self, group: Scope) -> For:
        """Compute each thread's part of the statement, with its sums in place of the reduction.

        Neighbors in a row are stored together if they are neighbors in memory.
        """
        t, build, last = self._thread(), self.r.build, self.f.c.columns[-1]
        sums = self._sums(t)
        scopes = [group.inside(t, True)]
        scopes[0].statements += sums.lets
        for v in sums.own:
            scopes.append(scopes[-1].inside(v, True))
        run = sums.own[-1].extent.constant or 1
        if last is build.vars[-1] and (last.extent.constant or 1) % run == 0:
            scopes.pop()
            after = as_index(sums.own[-1])
            first = sums._replace(column=sums.column - after, at=sums.at - after)
            self._element(scopes[-1], first, partial(self._run, t, first, run))
        else:
            self._element(scopes[-1], sums, partial(store_values, build, self.lowering, self.builder))
        for v, outer, inner in reversed([*zip(sums.own, scopes, scopes[1:], strict=False)]):
            outer.statements.append(unrolled(v, inner.statements))
        return thread_loop(t, scopes[0].statements)

    def _run(self, t: Var, sums: Sums, count: int, scope: Scope) -> None:
        """Store an element and its neighbors, `count` in all."""
        build, last, own = self.r.build, self.r.build.vars[-1], as_index(t) * count
        after = [Substitution(variables={last: as_index(last) + k}) for k in range(count)]
        for k, neighbor in enumerate(s.scalar(self.r.total) for s in after[1:]):
            scope.temps[neighbor] = Load(self.sums, sums.at + (k + 1), self.type)
            self.lowering.sums |= {neighbor}
        for o, v in zip(build.outs, build.values, strict=True):
            run = local_buffer(f"{o.name}_run", o.dtype, (self.tile.threads, count), "registers")
            for k, s in enumerate(after):
                scope.statements.append(Store(run, own + k, self.lowering.value(s.scalar(v), scope)))
            to = View(self.builder.parameter(o), flat_position(build.vars))
            scope.statements.append(Copy(to, View(run, own), as_index(count)))

    def _element(self, each: Scope, sums: Sums, write: Callable[[Scope], None]) -> None:
        """Write statements in the scope of an element of the result, if there is such an element."""
        f, c, tile, total = self.f, self.f.c, self.tile, self.r.total
        m, n = Var("row", as_index(f.rows)), Var("column", as_index(f.columns))
        down, right = (as_index(block) * width + place for block, width, place in (
            (self.row_tile, tile.rows, sums.row), (self.column_tile, tile.columns, sums.column)))
        conds = [*_below(down, f.rows, tile.rows), *_below(right, f.columns, tile.columns)]
        inside = each.guard(conds) if conds else each
        scope = Scope(inside, frozenset((*c.rows, *c.columns)) | total.free, inside.known, not conds, True,
                      statements=inside.statements, temps={total: Load(self.sums, sums.at, self.type)})  # fmt: skip
        scope.statements += [LetIndex(m, down), LetIndex(n, right)]
        scope.statements += [*decoded(as_index(m), c.rows), *decoded(as_index(n), c.columns)]
        write(scope)
        if conds:
            each.statements.append(If(Holds(tuple(conds)), tuple(inside.statements)))


def _below(i: Index, count: int, by: int) -> list[Cond]:
    """The condition that an index is below `count`; none if `count` is a multiple of `by`."""
    found = cond(">=", as_index(count) - 1 - i) if count % by else True
    return [] if isinstance(found, bool) else [found]
