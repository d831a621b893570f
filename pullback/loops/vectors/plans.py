"""The choice of vectorization and tiling for the nest of a build.

A plan names the vector axis, how its size is cut into vectors, and the tiled axes. `best_plan` takes the cheapest by
estimated cycles: loads and multiply-adds on two ports each, the latency of a chain of sums, functions and stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from math import ceil, inf, prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Floor, Index, Mod, Var
from pullback.ir.traverse import walk
from pullback.loops.analysis.estimates import line_wait, operation_cycles
from pullback.loops.program.cover import is_open, narrower, typical, typical_count
from pullback.loops.program.schedule import Schedule, Tile, Vector
from pullback.loops.program.values import Buffer
from pullback.loops.vectors.nest import Nest, map_reductions, stride
from pullback.machine import Machine
from pullback.records import dataclass

SPREAD = 2.0  # an operation on numbers, and the copies of its result in all lanes


@dataclass(frozen=True)
class Phase:
    """A stretch of the vector axis: steps, each of vectors with these lane counts."""

    trips: int
    lanes: tuple[int, ...]

    @property
    def step(self) -> int:
        """Elements one step covers."""
        return sum(self.lanes)


@dataclass(frozen=True)
class Plan:
    """A choice of vector axis, widest lanes, whether it is summed, phases, and tile sizes."""

    axis: Var
    lanes: int
    reduced: bool
    phases: tuple[Phase, ...]
    tiles: tuple[tuple[Var, int], ...]
    cycles: float

    @property
    def schedule(self) -> Schedule:
        """The loop schedule of the plan."""
        together = max((sum(n == self.lanes for n in p.lanes) for p in self.phases), default=1)
        rest = tuple(n for p in self.phases if p.trips == 1 for n in p.lanes if n != self.lanes)
        tile = (Tile(tuple((v.name, n) for v, n in self.tiles)),) if self.tiles else ()
        return Schedule((*tile, Vector(self.axis.name, self.lanes, max(together, 1), rest)))

    @property
    def open_tiles(self) -> list[tuple[Var, int]]:
        """The tiles along axes of open size."""
        return [(v, t) for v, t in self.tiles if is_open(v)]


def vector_axes(nest: Nest, widest: int) -> list[tuple[Var, bool]]:
    """Axes that may be the vector axis: (variable, whether it is one of the sum's)."""
    tested = nest.inside(ir.Bracket, ir.FromIndex)
    out = [
        (v, False)
        for v in nest.variables
        if v not in tested
        and all(stride(o.offset, v) == 1 for o in nest.outs)
        and all(_reachable(i, v) for i in nest.gets_indices())
    ]
    if len(nest.reductions) == 1:
        r = nest.reductions[0]
        near = [v for v in r.vars if all(stride(i, v) in (0, 1) for i in nest.gets_indices())]
        out += [(v, True) for v in near if v not in tested]
    return [(v, reduced) for v, reduced in out if typical(v) >= 2 and widest > 1]


def plans(nest: Nest, choice: tuple[Var, bool], machine: Machine) -> Iterator[Plan]:
    """Tilings for a vector axis, each with its estimated cycles for the whole nest."""
    axis, reduced = choice
    extent = typical(axis)
    tested = nest.inside(ir.Bracket)
    estimate = _Blocks(nest, axis, reduced, machine)
    sizes = {v: typical(v) for v in nest.variables}
    others = [v for v in nest.variables if v is not axis and v not in tested]
    for lanes in widths(machine, nest.dtype.size, extent):
        for phases in [()] if reduced else _phases(extent, lanes, bool(nest.reductions)):
            block = 1 + (extent % lanes > 0) if reduced else max(len(p.lanes) for p in phases)
            steps = (Phase(1, (lanes,)),) if reduced else phases
            for tiles in _tilings(others, block, machine.vector_registers, reduced) if nest.reductions else [()]:
                at_a_time = dict(tiles)
                blocks = prod(n / at_a_time.get(v, 1) for v, n in sizes.items() if reduced or v is not axis)
                cycles = sum(p.trips * estimate.cycles(p.lanes, tiles) for p in steps)
                yield Plan(axis, lanes, reduced, phases, tiles, blocks * cycles)


class _Blocks:
    """Cycles of tiles of vectors along an axis; parts that tiles share are computed once."""

    def __init__(self, nest: Nest, axis: Var, reduced: bool, machine: Machine) -> None:
        self.nest, self.axis, self.reduced, self.machine = nest, axis, reduced, machine
        self.extent = typical(axis)
        loads = (dict.fromkeys(n for n in walk(r.arg) if isinstance(n, ir.Get)) for r in nest.reductions)
        addresses = [[g.indices[0] for g in gets] for gets in loads]
        self.sums = [(r, float(prod(typical(v) for v in r.vars)), [(i.free, stride(i, axis)) for i in own])
                     for r, own in zip(nest.reductions, addresses, strict=True)]  # fmt: skip
        self.operations = [_operations(r.arg) for r in nest.reductions]
        self._by_lanes: dict[int, tuple[float, list[float]]] = {}

    def cycles(self, pieces: tuple[int, ...], tiles: tuple[tuple[Var, int], ...]) -> float:
        """Cycles of one tile of vectors with these lanes: the sum's loops, then values and stores."""
        machine, axis, reduced = self.machine, self.axis, self.reduced
        lanes, vectors, size = max(pieces), len(pieces), self.nest.dtype.size
        count = vectors * prod(t for _, t in tiles)
        rest = list(narrower(self.extent % lanes, lanes)) if reduced else []
        weight = sum(machine.operation(n * size) for n in pieces) / vectors
        epilogue, functions = self._known(lanes)
        cycles = 4.0
        for (_, trips, gets), operations, own in zip(self.sums, self.operations, functions, strict=True):
            if reduced:
                trips = trips / self.extent * (self.extent // lanes + len(rest) / weight)
            loads = 0.0
            for free, step in gets:
                distinct = prod(t for v, t in tiles if v in free) * (vectors if axis in free else 1)
                match step:
                    case 0:
                        loads += distinct
                    case 1:
                        loads += distinct * (machine.split if lanes * size == machine.line else 1.0)
                    case _:
                        loads += distinct * 1.5 * lanes
            work = float(weight * count)
            if operations:
                each = ((n * prod(t for v, t in tiles if v in free), axis in free) for free, n in operations)
                work = max(work, sum(n * (vectors * weight if along else SPREAD) for n, along in each))
            busy = max(loads, work) / machine.ports
            busy += count * own
            cycles += trips * max(busy, machine.latency if not reduced or trips > 1 else 0.0)
        return cycles + (epilogue + machine.across * (reduced + len(set(rest)))) * count

    def _known(self, lanes: int) -> tuple[float, list[float]]:
        """For vectors of so many lanes: cycles of values and stores, and of the functions in each sum."""
        if lanes not in self._by_lanes:
            functions = [_functions([r.arg], lanes, self.machine) for r, *_ in self.sums]
            self._by_lanes[lanes] = self._epilogue(lanes), functions
        return self._by_lanes[lanes]

    def _epilogue(self, lanes: int) -> float:
        nest, axis, machine = self.nest, self.axis, self.machine
        near = (self.reduced or stride(g.indices[0], axis) in (0, 1) for g in nest.gets)
        epilogue = sum(1.0 if one else 1.5 * lanes for one in near)
        around = [map_reductions(v, lambda r: expr.const(1, r.dtype)) for v in nest.values]
        if nest.reductions:  # small compared to the sums, and packed products do not count it either
            around = [n for v in around for n in walk(v) if isinstance(n, ir.Apply) and n.primitive.transcendental]
        else:
            sums = dict.fromkeys(n for v in around for n in walk(v) if isinstance(n, ir.Add | ir.Mul))
            epilogue += sum(operation_cycles(n, lanes, machine) * (len(n.args) - 1) for n in sums)
        return epilogue + (2.0 + _functions(around, 1 if self.reduced else lanes, machine))


def _operations(term: ir.Scalar) -> list[tuple[frozenset[Var], int]]:
    """The additions, multiplications and choices of a sum's term, each with its variables.

    Those without a variable of a tile are computed once for it. A number is copied into all lanes.
    """
    found = (n for n in dict.fromkeys(walk(term)) if isinstance(n, ir.Add | ir.Mul | ir.Select))
    return [(n.free, 1 if isinstance(n, ir.Select) else sum(not isinstance(a, ir.Const) for a in n.args) - 1)
            for n in found]  # fmt: skip


def _functions(values: Iterable[ir.Scalar], lanes: int, machine: Machine) -> float:
    """The cycles of operations other than loads, additions and multiplications, each once."""
    found = dict.fromkeys(n for v in values for n in walk(v) if isinstance(n, ir.Apply | ir.Select | ir.Cast))
    return sum(operation_cycles(n, lanes, machine) for n in found)


def cache_cycles(nest: Nest, plan: Plan, machine: Machine) -> float:
    """The cycles that a plan waits for the second and third cache, where tiles reread operands.

    An operand causes no wait in innermost loops over variables it lacks, if its part stays in the first cache.
    """
    tiles, vectors = dict(plan.tiles), max((len(p.lanes) for p in plan.phases), default=1)
    trips = {}
    for v in nest.variables:
        whole = vectors * plan.lanes if v is plan.axis and not plan.reduced else tiles.get(v, 1)
        trips[v] = ceil(typical(v) / whole)
    order = [v for v in nest.variables if v is not plan.axis or plan.reduced]  # as loops, the vectors' own is innermost
    order += [plan.axis] * (len(order) < len(nest.variables))
    waits = 0.0
    for r in nest.reductions:
        for g in dict.fromkeys(n for n in walk(r.arg) if isinstance(n, ir.Get)):
            i = g.indices[0]
            one = wait(nest.buffers[g.ref], i, (*nest.variables, *r.vars), machine)
            if not one:
                continue
            elements = prod(t for v, t in tiles.items() if v in i.free)
            elements *= prod(typical(v) for v in r.vars if v in i.free)
            dense = plan.axis in i.free or any(stride(i, v) == 1 for v in r.vars)
            elements *= vectors * plan.lanes if plan.axis in i.free and not plan.reduced else 1
            lines = elements * (r.dtype.size / machine.line if dense else 1.0)
            stays = machine.line * lines <= machine.caches[0] / 2
            again = list(order)
            while again and stays and again[-1] not in i.free:
                again.pop()
            waits += prod(trips[v] for v in again) * lines * one
    return waits


def wait(b: Buffer, address: Index, variables: Iterable[Var], machine: Machine) -> float:
    """The cycles to wait for a line of a buffer's data: none within the first cache.

    Loops around the statement are not among `variables`: it reads, for example, one image of a batch at a time.
    """
    return line_wait(b.dtype.size * min(typical_count(b.elements), _span(address, variables)), machine)


def _span(address: Index, variables: Iterable[Var]) -> float:
    """The elements from first to last at the address for all variable values; infinite if unknown."""
    total = 1.0
    for v in set(variables) & address.free:
        total += abs(stride(address, v) or inf) * (typical(v) - 1)
    return total


def best_plan(nest: Nest, machine: Machine, fits: Callable[[Plan], bool]) -> Plan | None:
    """The cheapest of the plans that fit; a plan without leftovers on open axes gains a tenth."""
    found = (p for axis in vector_axes(nest, machine.lanes(nest.dtype.size)) for p in plans(nest, axis, machine))
    return min(filter(fits, found), key=lambda p: p.cycles * (1.1 if p.open_tiles else 1), default=None)


def _phases(extent: int, lanes: int, several: bool) -> list[tuple[Phase, ...]]:
    """The ways to cover a size: one to four full vectors at a time, or all in one block."""
    whole = extent // lanes
    out = []
    for vectors in (1, 2, 3, 4) if several else (1,):
        if vectors > max(whole, 1):
            break
        phases, rest = [], extent
        for count in dict.fromkeys((vectors, 1)):
            trips, rest = divmod(rest, lanes * count)
            phases += [Phase(trips, (lanes,) * count)] * bool(trips)
        out.append((*phases, *(Phase(1, (narrow,)) for narrow in narrower(rest, lanes))))
    pieces = (lanes,) * min(whole, 5) + tuple(narrower(extent - whole * lanes, lanes))
    if several and 1 < len(pieces) <= 4 and len(set(pieces)) > 1:
        out.append((Phase(1, pieces),))
    return out


def widths(machine: Machine, size: int, extent: int) -> Iterator[int]:
    """The lane counts worth trying along an axis: the most that fit, and half a cache line."""
    lanes = machine.lanes(size)
    while lanes > extent:
        lanes //= 2
    if lanes >= 2:
        yield lanes
        if lanes * size == machine.line and extent % lanes:
            yield lanes // 2


def _tilings(others: list[Var], vectors: int, there: int, reduced: bool) -> list[tuple[tuple[Var, int], ...]]:
    """Choices of at most two tiled axes with sizes; sums use up to three quarters of the registers."""
    room = 3 * there // 4 // vectors
    out: list[tuple[tuple[Var, int], ...]] = [()]
    sizes = {
        v: [t for t in range(2, 13) if t <= typical(v) and (typical(v) % t == 0 or typical(v) >= 4 * t)] for v in others
    }
    # one tiled axis: its rows share a row of vectors, which stays in registers with the sums and one factor
    rows = (there - 1 - vectors) // vectors
    out += [((v, t),) for v in others for t in sizes[v] if t <= min(room, rows)]
    # two open ones only if vectors are along the sum: otherwise one of them shares as much with a row of vectors
    pairs = [(a, b) for a, b in combinations(others, 2) if reduced or not (is_open(a) and is_open(b))]
    out += [((a, s), (b, t)) for a, b in pairs for s in sizes[a] for t in sizes[b] if s * t <= room]
    return out


def _reachable(i: Index, v: Var) -> bool:
    """Whether the lanes of a vector along v have expressible addresses."""
    if is_open(v):
        return i.coefficient(v) is not None
    return stride(i, v) is not None or _patterned(i, v)


def _patterned(i: Index, v: Var) -> bool:
    """Whether v occurs only under div and mod by constants, so lane offsets in a vector are known."""
    return all(
        isinstance(a, Floor | Mod) and a.denominator.constant is not None and v in a.free
        for a in i.atoms
        if v in a.free and a is not v
    )
