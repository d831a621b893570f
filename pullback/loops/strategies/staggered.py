"""Staggered statements: stages of a stencil along one axis as one loop, some lagging behind others.

Before    a = build i < N { f(y[i], y[i - 1]) }
          z = build i < N { g(a[i - 2], a[i + 1]) }
After     the first elements of a, then those of z
          for k in vectors of 8:
            now = f(y[k ..], y[k - 1 ..])
            z[k - 1 ..] = g(the lanes of (before, now) from k - 3 on, now)
            before = now
          the last elements of a, then those of z

A statement that reads an earlier one ahead lags by that distance. What it reads behind is in the vectors of this step
and of the step before; their lanes are moved into place. So an array that only later stages read is not stored
(shift-and-peel: Manjikian and Abdelrahman 1997, "Fusion of loops for parallelism and locality").

The first and last elements are those where a condition is not decided yet, or where there is no step before. Steps
depend on each other, so threads cannot share them. Longer arrays are left to `passes.fuse`, which computes stages
again in their readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index
from pullback.ir.program import statement_reads
from pullback.ir.traverse import Substitution, walk
from pullback.ir.types import DType, i32, i64
from pullback.loops.analysis.estimates import points_cycles, statement_cycles
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.lower import element_loops
from pullback.loops.program.nodes import Assign, For, Kernel, Let, Stmt, Store
from pullback.loops.program.schedule import Fuse, Schedule, Vector
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Load, Read, Shuffle, Temp, Type, Value, View
from pullback.loops.strategies.masked import part_of
from pullback.loops.vectors.lanes import CLASSES, COMPARISONS, FLOATING, LOGIC
from pullback.loops.vectors.writer import Writer
from pullback.machine import Machine
from pullback.passes.cost import cuts
from pullback.passes.fuse import STAGGERED
from pullback.records import dataclass, field

__all__ = ["staggered", "staggered_size"]

WIDEST: Final = 64  # bytes of the widest vectors
LEAST: Final = 8  # least steps of the loop
MOST: Final = 24  # most statements that are looked at
HELD: Final = 0.75  # the share of registers for vectors of the step before
MOVE: Final = 1.0  # cycles to move the lanes of two vectors into place
FUNCTIONS: Final = frozenset((*FLOATING, *LOGIC, *COMPARISONS, *CLASSES, "logical_not"))
EXPRESSIONS: Final = (ir.Const, ir.Zero, ir.Get, ir.Add, ir.Mul, ir.Apply, ir.Select, ir.Bracket)


@dataclass(frozen=True, eq=False)
class Stage:
    """A statement of the loop.

    Attributes:
        statement: a build over one axis.
        first, end: the stretch of elements on which all conditions are known.
        place, value: the value there, of the element at `first + place`.
    """

    statement: ir.Build
    first: int
    end: int
    place: Var
    value: ir.Scalar

    @staticmethod
    def of(s: ir.Build) -> Stage | None:
        """The stage of a build over one axis; None if it is unknown where conditions change."""
        axis, value = s.vars[0], s.values[0]
        first, end = 0, axis.extent.constant or 0
        if any(isinstance(n, ir.Bracket) for n in walk(value)):
            found = cuts(s)
            if found is None:
                return None
            first, end = max(pairwise((*found[1], end)), key=lambda p: p[1] - p[0])
        place = Var(axis.name, end - first)
        return Stage(s, first, end, place, Substitution(variables={axis: as_index(place) + first}).scalar(value))

    @property
    def out(self) -> ir.Ref:
        """The array that it computes."""
        return self.statement.outs[0]

    @property
    def gets(self) -> list[ir.Get]:
        """The elements that it reads on the stretch."""
        return [n for n in walk(self.value) if isinstance(n, ir.Get)]

    def at(self, i: Index) -> ir.Scalar:
        """The value of an element of the stretch."""
        return Substitution(variables={self.place: i - self.first}).scalar(self.value)

    def ahead(self, g: ir.Get) -> int | None:
        """The distance ahead at which it reads an element; None if that differs from point to point."""
        return (g.indices[0] - as_index(self.place) - self.first).constant if len(g.indices) == 1 else None

    def has_vector_form(self, dtype: DType) -> bool:
        """Whether a writer of vectors of `dtype` can write the value."""
        for n in walk(self.value):
            fits = n.dtype is dtype or n.dtype.is_bool
            known = isinstance(n, EXPRESSIONS) and (not isinstance(n, ir.Apply) or n.primitive.name in FUNCTIONS)
            if not fits or not known or (isinstance(n, ir.Get) and any(i.data for i in n.indices)):
                return False
        return True


@dataclass
class Stagger:
    """Statements over an axis of known size.

    Attributes:
        size, dtype: the number of elements, and the type of all arrays but bools.
        lanes: of the vectors.
        places: where arrays are, if known.
        stages: by the arrays that they compute, in order.
        lags: the distance of each stage behind the loop.
        behind: by stages that are read behind their vector, the farthest distance.
    """

    size: int
    dtype: DType
    lanes: int
    places: Mapping[ir.Ref, View]
    stages: dict[ir.Ref, Stage] = field(default_factory=dict)
    lags: dict[ir.Ref, int] = field(default_factory=dict)
    behind: dict[ir.Ref, int] = field(default_factory=dict)

    @staticmethod
    def begin(s: ir.Statement, width: int, places: Mapping[ir.Ref, View] | None = None) -> Stagger | None:
        """A stagger that a statement can begin, for vectors of so many bytes."""
        size = s.vars[0].extent.constant if isinstance(s, ir.Build) and len(s.vars) == 1 else None
        dtype = s.outs[0].dtype
        lanes = width // dtype.size
        if size is None or not dtype.is_floating or dtype.is_half or lanes < 2 or size < (LEAST + 2) * lanes:
            return None
        return Stagger(size, dtype, lanes, places or {})

    def join(self, s: ir.Statement) -> bool:
        """Add a statement if it fits."""
        if not isinstance(s, ir.Build) or len(s.vars) != 1 or s.vars[0].extent.constant != self.size or len(s.outs) > 1:
            return False
        stage = Stage.of(s) if s.outs[0].dtype is self.dtype or s.outs[0].dtype.is_bool else None
        lag = None if stage is None or not stage.has_vector_form(self.dtype) else self._lag(stage)
        if stage is None or lag is None:
            return False
        for g in stage.gets:
            if g.ref in self.stages:
                distance = lag - (stage.ahead(g) or 0) - self.lags[g.ref]
                if distance > self.lanes:
                    return False
                if distance:
                    self.behind[g.ref] = max(distance, self.behind.get(g.ref, 0))
        self.stages[stage.out], self.lags[stage.out] = stage, lag
        return True

    def _lag(self, stage: Stage) -> int | None:
        """The least lag at which what a stage reads is known, and what it overwrites has been read."""
        lag, own = 0, self.places.get(stage.out)
        for g in stage.gets:
            if g.ref in self.stages:
                ahead = stage.ahead(g)
                if ahead is None or g.dtype is not self.dtype:
                    return None
                lag = max(lag, self.lags[g.ref] + ahead)
        for reader in (*self.stages.values(), stage):
            for g in reader.gets:
                if own is not None and g.ref not in self.stages and own.same_place(self.places[g.ref]):
                    ahead = reader.ahead(g)
                    if ahead is None or (reader is stage and ahead):
                        return None
                    lag = max(lag, self.lags.get(reader.out, lag) - ahead)
        return lag

    @property
    def start(self) -> int:
        """The begin of the loop: conditions are known, and elements that are read behind are computed."""
        known = [s.first + self.lags[r] for r, s in self.stages.items()]
        return max(*known, *(self.lags[r] + distance for r, distance in self.behind.items()))

    @property
    def steps(self) -> int:
        """The number of steps of the loop."""
        return (min(s.end + self.lags[r] for r, s in self.stages.items()) - self.start) // self.lanes

    @property
    def stop(self) -> int:
        """The end of the loop."""
        return self.start + self.steps * self.lanes

    def parts(self, r: ir.Ref, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The stretches of a stage's elements from `begin` to `end`, on each of which conditions are known."""
        found = cuts(self.stages[r].statement)
        places = [begin, *(p for p in (found[1] if found else ()) if begin < p < end), end]
        return ((a, b) for a, b in pairwise(places) if a < b)

    def ends(self) -> Iterator[tuple[bool, Stage, int, int]]:
        """The stretches before the loop and, with True, after it."""
        for after in (False, True):
            for r, stage in self.stages.items():
                there = (self.stop - self.lags[r], self.size) if after else (0, self.start - self.lags[r])
                yield from ((after, stage, a, b) for a, b in self.parts(r, *there))

    def cycles(self, stored: Sequence[ir.Ref], machine: Machine) -> float:
        """The estimated cycles."""
        axis = Var("n", self.steps * self.lanes)
        values = [s.at(as_index(axis) + (self.start - self.lags[r])) for r, s in self.stages.items()]
        moved = {n for v in values for n in walk(v) if isinstance(n, ir.Get) and n.ref in self.stages}
        loop = points_cycles(values, (axis,), machine, self.lanes, axis, len(stored), moved)
        rest = sum(
            statement_cycles(part_of(s.statement, [(s.statement.vars[0], a, b)])[0], machine)
            for _, s, a, b in self.ends()
        )
        return loop + rest + MOVE * self.steps * sum(n.ref in self.behind for n in moved)


def staggered_size(statements: Sequence[ir.Statement]) -> int:
    """The number of first statements that may be one loop; those after which the fewest arrays are stored."""
    window = statements[:MOST]
    stagger = Stagger.begin(window[0], WIDEST) if len(window) > 1 else None
    if stagger is None or not any(_reads_beside(s, window[0].outs[0]) for s in window[1:]):
        return 1
    best, most = 1, 0
    for count, s in enumerate(window, 1):
        if not stagger.join(s):
            break
        later = {r for other in statements[count:] for r in statement_reads(other)}
        kept = sum(r in stagger.behind and r not in later for r in stagger.stages)
        if kept > most and stagger.steps >= LEAST:
            best, most = count, kept
    return best


def _reads_beside(s: ir.Statement, ref: ir.Ref) -> bool:
    """Whether a statement reads an array elsewhere than at its own point."""
    if not isinstance(s, ir.Build) or ref not in statement_reads(s):
        return False
    gets = (n for v in s.values for n in walk(v) if isinstance(n, ir.Get) and n.ref is ref)
    return any(i.single is None for g in gets for i in g.indices)


def staggered(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for the stages of a stencil along one axis."""
    stagger = Stagger.begin(work.statements[0], machine.vector_bytes, work.views)
    if stagger is None or not all(map(stagger.join, work.statements)) or stagger.steps < LEAST:
        return
    held, near = HELD * machine.vector_registers, stagger.size * stagger.dtype.size < STAGGERED
    if not near or not 0 < len(stagger.behind) <= held:
        return

    def build(builder: KernelBuilder) -> Kernel:
        for r in stagger.stages:
            if r not in work.outs:
                builder.own[r] = builder.scratch(r.name, work.parameter(r), stagger.size)
        body = _Writing(stagger, builder).statements()
        whole = [s.statement for s in stagger.stages.values()] if machine.portable else []
        plain = tuple(x for s in whole for x in element_loops(s, builder.address, builder))
        return builder.kernel(tuple(body), plain or None)

    axis = work.statements[0].vars[0].name  # type: ignore[union-attr]
    cycles = stagger.cycles(work.outs, machine)
    yield Candidate("staggered", cycles, build, Schedule((Fuse(len(stagger.stages)), Vector(axis, stagger.lanes))))


class _Writing:
    """Writes the loop and what is beside it."""

    def __init__(self, stagger: Stagger, builder: KernelBuilder) -> None:
        self.stagger = stagger
        self.builder = builder
        self.type = Type(stagger.dtype, stagger.lanes)

    def statements(self) -> list[Stmt]:
        """The first elements, the loop, and the last elements."""
        ends: dict[bool, list[Stmt]] = {False: [], True: []}
        for after, stage, a, b in self.stagger.ends():
            part, place = part_of(stage.statement, [(stage.statement.vars[0], a, b)])
            ends[after] += element_loops(part, place.among(self.builder.address), self.builder)
        return [*ends[False], *self._loop(), *ends[True]]

    def _loop(self) -> list[Stmt]:
        """The loop, around it the vectors of the step before."""
        g, b = self.stagger, self.builder
        before = {r: Temp(f"{r.name}_before", self.type) for r in g.behind}
        out: list[Stmt] = [Let(t, self._first(r), mutable=True) for r, t in before.items()]
        k, around = Var("n", g.stop - g.lanes + 1), Scope()
        body = self._step(k, around.step(as_index(k)), before)
        out += around.statements
        out.append(For(k, as_index(g.start), as_index(g.stop - g.lanes + 1), tuple(body), g.lanes, "vector"))
        for r, t in before.items():
            if r in b.own:  # the last elements of other stages read it
                out.append(Store(b.own[r], as_index(g.stop - g.lags[r] - g.lanes), Read(t)))
        return out

    def _first(self, r: ir.Ref) -> Value:
        """The vector of a stage before the first step; nothing reads its lanes before the first element."""
        at = self.stagger.start - self.stagger.lags[r] - self.stagger.lanes
        first = Load(self.builder.parameter(r), as_index(max(at, 0)), self.type)
        places = tuple(max(at + lane, 0) for lane in range(self.stagger.lanes))
        return first if at >= 0 else Shuffle(first, first, places, self.type)

    def _step(self, k: Var, scope: Scope, before: Mapping[ir.Ref, Temp]) -> list[Stmt]:
        """A vector of each stage; results are stored last, because they may overwrite what is read."""
        g, b = self.stagger, self.builder
        writer = Writer(b.parameter, b.site, i64 if g.dtype.bits == 64 else i32)
        writer.everywhere = True
        starts = {r: as_index(k) - g.lags[r] for r in g.stages}
        inside, _ = writer.inside(scope, as_index(k), g.lanes)
        values = {r: s.at(writer.inside(scope, starts[r], g.lanes)[1]) for r, s in g.stages.items()}
        writer.count(values.values())
        stores: list[Stmt] = []
        now: dict[ir.Ref, Temp] = {}
        for r, value in values.items():
            for n in walk(value):
                if isinstance(n, ir.Get) and n.ref in g.stages and n not in inside.temps:
                    ahead = (writer.first(n.indices[0], g.lanes) - starts[n.ref]).constant or 0
                    inside.temps[n] = Read(self._moved(-ahead, before.get(n.ref), now[n.ref], scope))
            stored = writer.stored(value, inside)
            now[r] = Temp(r.name, stored.type)
            scope.statements.append(Let(now[r], stored))
            if r not in b.own:
                stores.append(Store(b.parameter(r), starts[r], Read(now[r])))
        kept: list[Stmt] = [Assign(t, Read(now[r])) for r, t in before.items()]
        return [*scope.statements, *stores, *kept]

    def _moved(self, behind: int, before: Temp | None, now: Temp, scope: Scope) -> Temp:
        """The lanes of a stage so far behind its vector."""
        if before is None or behind == 0:
            return now
        if behind == self.stagger.lanes:
            return before
        first = self.stagger.lanes - behind
        out = Temp(now.name, self.type)
        places = tuple(range(first, first + self.stagger.lanes))
        scope.statements.append(Let(out, Shuffle(Read(before), Read(now), places, self.type)))
        return out
