"""Plans of packed products: blocks of M, N and K, the register tile, and the cost.

Adjacent variables of M, N or K are one flat axis (`FlatAxis`), cut along one of them. Those before it are loops; those
after it are whole in every block. For open sizes the program chooses the cut at run time.

Vectors run along N. A register tile has `rows` of M times `vectors` of N. Blocks follow Goto and van de Geijn
(Anatomy of high-performance matrix multiplication, 2008). A block of A, M block × K block, stays in the second cache,
a block of B in the third. If one block of A is all of A, the block of B shares the second cache with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil, inf, isfinite
from typing import Literal

from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, Index, Var, as_index
from pullback.loops.plain.builder import Address
from pullback.loops.product.contraction import Contraction, Operand, contractions, size
from pullback.loops.product.turn import square
from pullback.loops.program import schedule
from pullback.loops.program.cover import is_open, narrower
from pullback.loops.vectors.plans import wait, widths
from pullback.machine import Machine
from pullback.passes.cost import TYPICAL
from pullback.records import dataclass, replace
from pullback.state import cached


@dataclass(frozen=True)
class Blocks:
    """Block sizes.

    Attributes:
        depth: steps of the sum; one cache line per step fills the first cache. The output is rarely updated.
        second: bytes of a block that stays in the second cache.
        shared: bytes of a block of B that stays in the second cache if one block is all of A.
        inner: bytes of a block of B that stays in the first cache; its panels are then the inner loop.
        third: bytes of a block that stays in the third cache.
    """

    depth: int
    second: int
    shared: int
    inner: int
    third: int

    @staticmethod
    def of(machine: Machine) -> Blocks:
        """Block sizes for this machine's caches, leaving room for other data."""
        first, second, third = machine.caches
        return Blocks(first // machine.line, second // 4, second // 2, first // 2, third // 8)


FEW = 8  # rows of a tile below which waiting for B matters
MOST_LOOPS = 3  # loops over the steps of a sum, if A is read in place
SHORT = 4  # shorter runs are copied element by element
LEAST_WORK = 16 * 1024  # packing is not considered for fewer multiply-adds
TILE, STORES = 20, 16  # the overhead of a tile in cycles; one cycle of waiting per this many stored sums
ASIDE = (3, 8)  # cycles to move a partial sum from working memory to the output, straight or transposed
ACROSS = (0.3, 1.5)  # cycles to store an element of a tile across, in squares or by itself
OPEN_ROWS, OPEN_COLUMNS = 8, 256  # most rows of a tile and columns of a block of B, if sizes are open


@dataclass(frozen=True)
class FlatAxis:
    """Adjacent variables as one flat axis: loops over `outer`, blocks of `chunk` of `cut`, `inner` whole.

    An axis of open size is cut at run time, into blocks of at most `most` elements. Only then is it known which
    variable is cut, so all of them are in `inner` or are `cut`.
    """

    outer: tuple[Var, ...]
    cut: Var
    chunk: int
    inner: tuple[Var, ...]
    most: int = 0

    @property
    def variables(self) -> tuple[Var, ...]:
        """All variables of the axis, in order."""
        return (*self.outer, self.cut, *self.inner)

    @property
    def run(self) -> int:
        """Elements of one step of `cut`."""
        return size(self.inner)

    @property
    def block(self) -> int:
        """Elements of a full block."""
        return self.most or self.chunk * self.run

    @property
    def levels(self) -> list[tuple[Var, Index]]:
        """The variables inside a block with their trips; for an open axis, those of the whole axis."""
        return [(self.cut, self.cut.extent if self.most else as_index(self.chunk)), *whole_levels(self.inner)]


@dataclass(frozen=True)
class RegisterTile:
    """A register tile: rows, and vectors of lanes."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.vectors * self.lanes


Storing = Literal["along", "across", "aside"]
"""Partial sums go to the output, whose vectors are those of the tile or lie across them, or to working memory."""


@dataclass(frozen=True)
class PackedPlan:
    """A plan for a contraction: tile, blocks, which operand is packed outermost, and the estimate.

    Attributes:
        a_first: whether blocks of A are outside those of B.
        in_place: whether A is read in place.
        storing: the destination of partial sums.
        lone: whether a single column beside whole tiles is a dot product along the sum; A's steps are then neighbors.
    """

    contraction: Contraction
    tile: RegisterTile
    rows: FlatAxis
    columns: FlatAxis
    depth: FlatAxis
    a_first: bool
    in_place: bool
    storing: Storing
    lone: bool
    cycles: float

    @property
    def schedule(self) -> schedule.Schedule:
        """The loop schedule of the plan."""
        t, groups = self.tile, (self.depth, self.columns, self.rows)
        cuts = [schedule.Block(g.variables[-1].name if g.most else g.cut.name, g.most or g.chunk)
                for g in groups if g.block < size(g.variables)]  # fmt: skip
        packs = [schedule.Pack("B")] if self.in_place else [schedule.Pack(o) for o in ("AB" if self.a_first else "BA")]
        tile = schedule.Tile(((self.rows.variables[-1].name, t.rows),))
        vector = schedule.Vector(self.columns.variables[-1].name, t.lanes, t.vectors)
        return schedule.Schedule((*cuts, *packs, tile, vector))


# Runs of memory -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryLoop:
    """A loop over part of a block: its trips, the step in memory, and the step along the flat axis."""

    trips: Index
    step: Index
    weight: Index

    @property
    def distance(self) -> int:
        """The step used in estimates: a typical one if its value is unknown."""
        return TYPICAL if self.step.constant is None else self.step.constant

    @property
    def length(self) -> int:
        """The trip count used in estimates: a typical one if its value is unknown."""
        return TYPICAL if self.trips.constant is None else self.trips.constant


def runs(levels: Sequence[tuple[Var, Index]], address: Index) -> list[MemoryLoop]:
    """The loops over a block at an affine address, outermost first, with contiguous levels merged.

    A block that spans several values of a variable spans all values of the inner variables.
    """
    return list(_runs(tuple(levels), address))


@cached(1024)
def _runs(levels: tuple[tuple[Var, Index], ...], address: Index) -> tuple[MemoryLoop, ...]:
    """The merged loops, cached because plans for other tiles need the same."""
    out: list[MemoryLoop] = []
    weight, reached = ONE_INDEX, None
    for v, trips in reversed(levels):
        step = address.coefficient(v)
        assert step is not None
        if trips is not ONE_INDEX:
            if out and step is reached:
                out[-1] = MemoryLoop(trips * out[-1].trips, out[-1].step, out[-1].weight)
            else:
                out.append(MemoryLoop(trips, step, weight))
            reached = step * v.extent
        weight = weight * trips
    return tuple(reversed(out))


def whole_levels(variables: Sequence[Var]) -> list[tuple[Var, Index]]:
    """The levels of whole variables."""
    return [(v, v.extent) for v in variables]


# Plans ----------------------------------------------------------------------------------------------------------


def tiles_of(c: Contraction, machine: Machine) -> list[RegisterTile]:
    """The register tiles to try; of usual height or width if the neighboring sizes are unknown."""
    found = tiles(machine, c.total.dtype.size, size(c.columns))
    if any(map(is_open, c.rows)):
        found = [t for t in found if t.rows <= OPEN_ROWS]
    if any(map(is_open, c.columns)):
        found = [t for t in found if t.vectors == 2 and t.lanes == machine.lanes(c.total.dtype.size)]
    return found


@cached(256)
def tiles(machine: Machine, element: int, columns: int) -> list[RegisterTile]:
    """The register tiles that leave room for a row of B and an element of A."""
    return [
        RegisterTile(rows, vectors, lanes)
        for lanes in widths(machine, element, max(columns, machine.lanes(element)))
        for vectors in (1, 2, 3, 4)
        for rows in range(2, 15)
        if rows * vectors + vectors + 1 <= machine.vector_registers and rows * vectors >= 8
    ]


def packed_plans(
    s: ir.Build, c: Contraction, position: Index, machine: Machine, holds: Callable[[Contraction], bool],
    most: float = inf, wish: schedule.Schedule = schedule.PLAIN,
) -> Iterator[PackedPlan]:
    """Plans by register tile, with A packed or in place, each cheaper than those before.

    Args:
        position: the flat position of output elements.
        holds: whether the output can hold partial sums.
        most: the cycles of a known plan; dearer plans are dropped.
        wish: schedule steps that they must have.
    """
    element = c.total.dtype.size
    work = size(s.vars) * size(c.depth)
    if work < LEAST_WORK or machine.lanes(element) < 2:
        return
    storing = _storing(c, position) if holds(c) else "aside"
    inside = (*c.rows, *c.columns, *(() if storing == "across" else (*c.only_a, *c.only_b)))
    if storing != "along" and any(map(is_open, inside)):  # all other buffers are smaller
        return
    readings = (False,) if c.a.plain is None else (False, True)
    ways = [_TiledWay(s, c, machine, position, storing, in_place) for in_place in readings]
    bounds = [(way.least(t), way, t) for t in tiles_of(c, machine) for way in ways]
    for least, way, t in sorted(bounds, key=lambda b: b[0]):
        if least >= most:
            return
        plan = way.plan(t)
        if plan is not None and plan.cycles < most and plan.schedule.has(wish):
            most = plan.cycles
            yield plan


def _storing(c: Contraction, position: Index) -> Storing:
    """The storing mode for tiles that the output allows."""
    across, down = (runs(whole_levels(g), position) for g in (c.columns, c.rows))
    if len(across) > 1 or any(r.step.constant is None for r in across):
        return "aside"
    return "along" if across[0].step is ONE_INDEX and len(down) <= 1 else "across"


class _TiledWay:
    """A contraction with A packed or read in place: the state shared by its tiles."""

    def __init__(
        self, s: ir.Build, c: Contraction, machine: Machine, position: Index, storing: Storing, in_place: bool
    ) -> None:
        self.contraction, self.element, self.position = c, c.total.dtype.size, position
        self.machine, self.blocks = machine, Blocks.of(machine)
        self.storing, self.in_place = storing, in_place
        seen = [c.a.plain[1]] if in_place and c.a.plain is not None else []
        if storing == "across":
            seen.append(position)
        self.around, self.tail = _even(c.rows, seen)
        self.run, self.m, self.n, self.k = size(self.tail), size(c.rows), size(c.columns), size(c.depth)
        self.open_rows = any(map(is_open, self.tail))
        self.walked = in_place and c.a.plain is not None and not is_run(runs(whole_levels(c.depth), c.a.plain[1]))
        self.a_packs = size(c.shared) * size(c.only_a) * self.m * self.k
        self.b_packs = size(c.shared) * size(c.only_b) * self.n * self.k
        self.batch = size(c.shared) * size(c.only_a) * size(c.only_b)
        own = (*s.vars, *c.depth)
        self.a_wait, self.b_wait = waiting(c.a, own, machine), waiting(c.b, own, machine)
        self.turned = s.vars.index(c.rows[-1]) > s.vars.index(c.columns[-1])
        self._depths: dict[int, FlatAxis] = {}

    def least(self, t: RegisterTile) -> float:
        """The cycles of the tiles alone: a lower bound for every plan."""
        blocks = ceil(self.k / self._depth(t).block)
        cycles = self._tiles(t, blocks, lone=False)
        return min(cycles, self._tiles(t, blocks, lone=True)) if self._may_be_lone(t) else cycles

    def _may_be_lone(self, t: RegisterTile) -> bool:
        """Whether a column is left that may be summed along its lanes."""
        known = not any(map(is_open, self.contraction.columns))
        return known and self.in_place and self.storing != "across" and self.n % t.columns == 1

    def plan(self, t: RegisterTile) -> PackedPlan | None:
        """The plan with this tile; None if A is too irregular to be read in place."""
        c, n, k, element, storing = self.contraction, self.n, self.k, self.element, self.storing
        largest, page = self.blocks, self.machine.page
        depth = self._depth(t)
        kc = depth.block
        blocks = ceil(k / kc)
        outside = largest.third // 4 // (kc * element)  # rows of all of A, packed once
        a_first = size(c.only_b) > 1 and (self.m <= outside or (self.open_rows and not self.in_place))
        high = (largest.shared if self.walked else largest.second) // (kc * element)
        high = (min(self.run, outside) if self.open_rows else self.run) if a_first else max(high, t.rows)
        rows = cut(self.tail, high, t.rows)
        rows = replace(rows, outer=(*self.around, *rows.outer))
        single = rows.block == self.m and size(c.only_a) == 1
        wide = (largest.shared if single else largest.third) // (kc * element)
        wide = min(wide, OPEN_COLUMNS) if any(map(is_open, c.columns)) else wide
        columns = cut(c.columns, max(wide, t.columns), t.columns)
        found = in_place_runs(c.a, rows, depth)
        lies = found is not None and is_run(found[1])
        if self.open_rows and not self.in_place and lies:  # sizes are unknown; reading A in place costs little
            return None
        lone = lies and self._may_be_lone(t)
        cycles = self._tiles(t, blocks, lone)
        a_packs, b_packs = self.a_packs, self.b_packs
        if a_first:
            b_packs *= ceil(self.m / rows.block) * size(c.only_a)
        else:
            a_packs *= ceil(n / columns.block) * size(c.only_b)
        reads = min(a_packs, c.a.elements) if self.walked else a_packs
        cycles += reads * self.a_wait + b_packs * self.b_wait
        if self.in_place:
            cycles += cycles * _in_place_cost(c.a, rows, depth, min(t.rows, rows.block), self.machine)
        else:
            cycles += a_packs * _pack_cycles(c.a, c.rows, c.depth, t.rows, t.lanes, page)
        cycles += b_packs * _pack_cycles(c.b, c.columns, c.depth, t.columns, t.lanes, page)
        if self.batch // size(c.shared) * self.m * n * element > self.machine.caches[1]:  # sums leave the second cache
            lines = self.batch * self.m * n * element / self.machine.line
            cycles += 2 * (blocks - 1) * lines * self.machine.waits[1]
        if storing == "aside":
            cycles += ASIDE[self.turned] * self.batch * self.m * n
        elif storing == "across":
            apart = runs(whole_levels(self.tail), self.position)
            singly = bool(apart) and square(c.total.dtype, t.rows, apart[0].distance, t.lanes) == 1
            cycles += ACROSS[singly] * blocks * self.batch * self.m * n
        if not isfinite(cycles):
            return None
        return PackedPlan(c, t, rows, columns, depth, a_first, self.in_place, storing, lone, cycles)

    def _depth(self, t: RegisterTile) -> FlatAxis:
        """The cut of the sum for panels of B as wide as a tile."""
        deep = self.blocks.depth
        if self.walked:
            panel = max(t.columns, 2 * t.lanes) * self.element
            deep = max(deep, self.blocks.second // panel)  # a panel of B alone stays in the second cache
        if deep not in self._depths:  # a second block for a small remainder does not pay
            most, opened = deep + deep // 4, any(map(is_open, self.contraction.depth))
            target = most if opened else self.k if self.k <= most else deep
            self._depths[deep] = cut(self.contraction.depth, target, 1)
        return self._depths[deep]

    def _tiles(self, t: RegisterTile, blocks: int, lone: bool) -> float:
        own = _tile_cycles((self.run, self.n, self.k), blocks, t, self.element, lone, self.machine)
        return self.batch * (self.m // self.run) * own


def _even(variables: tuple[Var, ...], addresses: Sequence[Index]) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
    """Split the variables so that elements of the second part are equally spaced."""
    position = 0
    while any(len(runs(whole_levels(variables[position:]), a)) > 1 for a in addresses):
        position += 1
    return variables[:position], variables[position:]


def waiting(o: Operand, variables: Iterable[Var], machine: Machine) -> float:
    """The wait per element if the touched part of the operand exceeds the first cache."""
    return 0.0 if o.plain is None else wait(*o.plain, variables, machine) * o.term.dtype.size / machine.line


def cut(variables: tuple[Var, ...], target: int, multiple: int) -> FlatAxis:
    """Cut the group into equal blocks of about `target` elements at most, multiples where possible."""
    if any(map(is_open, variables)):
        return FlatAxis((), variables[0], 1, variables[1:], ceil(target / multiple) * multiple)
    position = 0
    while position < len(variables) - 1 and size(variables[position + 1 :]) > target:
        position += 1
    v, inner = variables[position], variables[position + 1 :]
    extent, run = v.extent.constant or 1, size(inner)
    most = max(1, target // run)
    blocks = ceil(extent / most)
    chunk = ceil(extent / blocks)
    if blocks > 1 and not inner:
        chunk = min(extent, ceil(chunk / multiple) * multiple)
    return FlatAxis(variables[:position], v, chunk, inner)


def _tile_cycles(
    extents: tuple[int, int, int], blocks: int, t: RegisterTile, element: int, lone: bool, machine: Machine
) -> float:
    """The cycles of an m × n × k product's register tiles, with the sum cut into blocks."""
    m, n, k = extents
    total, weight = 0.0, machine.operation(t.lanes * element)
    last = 0 if lone else ceil(n % t.columns / t.lanes)
    if lone:
        total += m * (k / t.lanes * 1.2 * weight + blocks * 8)  # loads, and sums of lanes
    for rows, many in ((t.rows, m // t.rows), (m % t.rows, 1)):
        for vectors, more, ragged in ((t.vectors, n // t.columns, 0), (last, 1, n % t.lanes)):
            if rows and vectors:
                step = max(weight * rows * vectors / machine.ports, (rows + vectors) / machine.ports, machine.latency)
                sums = rows * vectors
                finish = TILE + rows + sums + sums * sums / STORES + (5 * rows if ragged else 0)
                total += many * more * (k * step + blocks * finish)
    return total


def _in_place_cost(o: Operand, rows: FlatAxis, depth: FlatAxis, tile: int, machine: Machine) -> float:
    """The relative extra cycles of reading A in place for tiles of this height; infinite if irregular."""
    found = in_place_runs(o, rows, depth)
    if found is None:
        return float("inf")
    down, along = found
    element, line, page = o.term.dtype.size, machine.line, machine.page
    numbers = [r.step.constant for r in (*((down,) if down else ()), *along)]
    if not is_run(along) and (None in numbers or rows.most):  # a walk has known distances
        return inf
    row = down.distance * element if down else 0
    steps = [r.distance * element for r in along]
    stream = 0.45 / tile  # B comes anew for each tile
    if is_run(along):
        crowded = bool(row) and row % page == 0  # rows collide in one set of the first cache
        return 0.12 if tile < FEW else 0.1 if crowded else 0.04
    lone = 2 * row > line and bool(steps) and abs(steps[-1]) >= line  # an element of each line, then evicted
    if row < 0 or len(steps) > MOST_LOOPS or lone:
        return float("inf")
    crowded = any(step % page == 0 for step in (row, *steps) if step)
    return (0.5 if crowded else 0.1 if row >= line else 0.0) + stream


def is_run(along: Sequence[MemoryLoop]) -> bool:
    """Whether the steps of a sum are neighbors."""
    return not along or (len(along) == 1 and along[0].step is ONE_INDEX)


def in_place_runs(o: Operand, rows: FlatAxis, depth: FlatAxis) -> tuple[MemoryLoop | None, list[MemoryLoop]] | None:
    """The rows of a block of A in place, and loops over its steps; None if rows are irregular."""
    if o.plain is None:
        return None
    down, along = (runs(g.levels, o.plain[1]) for g in (rows, depth))
    return None if len(down) > 1 else (down[0] if down else None, along)


def _pack_cycles(o: Operand, lanes: tuple[Var, ...], depth: tuple[Var, ...], width: int, most: int, page: int) -> float:
    """The cycles to pack one element into panels: by vectors, transposed vectors, elements or values."""
    if o.plain is None:
        return 5.0
    across, along = (runs(whole_levels(g), o.plain[1]) for g in (lanes, depth))
    vectors = 2 * sum(1 for _ in narrower(width, most)) / width
    match form(across, along):
        case "rows":
            return vectors
        case "lines":
            return vectors + 4 / most if across[-1].step is ONE_INDEX else 1.2
        case "turned":
            return 0.9 if across and abs(across[-1].distance) * o.term.dtype.size >= page else 0.62  # many pages
        case _:
            return 1.5


def form(across: Sequence[MemoryLoop], along: Sequence[MemoryLoop]) -> str:
    """The way to copy elements for this memory layout of lanes and sum steps."""
    if len(across) == 1 and across[0].step is ONE_INDEX:
        return "rows"
    if along and along[-1].step is ONE_INDEX and along[-1].length >= 2 * SHORT:
        return "turned"
    if across and across[-1].length >= SHORT:
        return "lines"
    return "elements"


def best_packed_plan(
    s: ir.Build, position: Index, address: Address, machine: Machine, holds: Callable[[Contraction], bool],
    wish: schedule.Schedule = schedule.PLAIN,
) -> PackedPlan | None:
    """The cheapest packed plan; None without a large enough contraction. Arguments as `packed_plans`."""
    best: PackedPlan | None = None
    for c in contractions(s, address):
        for p in packed_plans(s, c, position, machine, holds, inf if best is None else best.cycles, wish):
            best = p
    return best
