"""Masked vectors: builds with conditions on the vector axis, comparisons, integers and casts.

Before    y = build i < N, j < N { [i >= j] x[i, j] + f32(m[j] == j // 2) }
After     for i, for j in vectors: a mask of the lanes with i >= j; x[i, j ..] or 0; the lanes of m[j ..] against j // 2

The last axis of the result lies along the lanes. The scalar lowering writes values that do not vary there, in the
outermost possible loop. Others are vectors of their own element type, all with the same number of lanes. A bool is a
mask: integers with all bits set or none. An index, with its data, is a vector of integers. Under a condition, a
load that may leave its array takes the lanes that are in it. Reductions are loops over vectors of results. A reduction
over a window, with conditions about places on the axis alone, is written term by term for each vector of the row.
Shifted rows are added up in this way, and only vectors across an end of the window have a mask. The remainder of the
axis takes plain loops.

Where an array is updated in place on some rows, x[i, j] + [i >= k] y[i, j], loops run over these rows alone.

It comes after `tile` and `parts`, which are more specialized. It declines reads at data-dependent places along the
lanes, columns, checked indices, and conversions of floating-point numbers to integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Final

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, floor_divide
from pullback.ir.traverse import Substitution, walk
from pullback.ir.types import i32, i64
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.analysis.joined import stretch_of
from pullback.loops.plain.bounds import LoopNest, narrowed
from pullback.loops.plain.builder import Address, KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.lower import bring_plain, element_loops, without_units
from pullback.loops.plain.updates import update_of
from pullback.loops.program.cover import cover, halves, is_open, narrower, typical
from pullback.loops.program.nodes import For, Kernel, Stmt, Store
from pullback.loops.program.schedule import Mask, Schedule, Vector
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Bound, Buffer, largest, smallest
from pullback.loops.vectors.writer import WINDOW, Writer, count_terms, is_window, makes_indices
from pullback.machine import Machine
from pullback.records import dataclass, replace

NEAR: Final = 4  # the longest step of a gather along the lanes
SMALL: Final = 32  # plain code suffices for fewer element evaluations
FEWER: Final = 2  # the part of the rows that change where conditions bound them
MASKED: Final = 1.3  # the overhead of unused lanes and of computing masks


@dataclass(frozen=True)
class Masking:
    """A build as vectors with masks; missing vector forms show only while it is written."""

    build: ir.Build
    machine: Machine
    cycles: float
    schedule: Schedule
    some: bool = False  # whether only the rows change where the conditions of the added term hold

    @staticmethod
    def of(s: ir.Build, machine: Machine, some: bool = False) -> Masking | None:
        """The masked form with its estimate; None if there is no axis for vectors."""
        whole = without_units(s)
        lanes = _lanes_of(whole, machine)
        if lanes < 2:
            return None
        axis = whole.vars[-1]
        rest = 0 if is_open(axis) else typical(axis) % lanes
        inside = points_cycles(whole.values, whole.vars, machine, lanes, axis)  # one step for the remainder
        left = points_cycles(whole.values, whole.vars[:-1], machine) * rest
        schedule = Schedule((Mask(axis.name), Vector(axis.name, lanes, rest=(1,) * bool(rest))))
        cycles = (inside * MASKED + left) / (FEWER if some else 1)
        return Masking(s, machine, cycles, schedule, some)

    def statements(self, places: Address, builder: KernelBuilder) -> list[Stmt]:
        """Vectors along the last axis, then the remainder.

        Args:
            places: gives the buffer and flat index of an element.

        Raises:
            Declined: vectors cannot do it.
        """
        s, machine = without_units(self.build), self.machine
        element, some, along = _split(s) if self.some else (s.values[0], [], [])
        lanes = _lanes_of(s, machine)
        axis = s.vars[-1]
        integer = i64 if s.outs[0].dtype.bits == 64 else i32
        writer = Writer(builder.parameter, builder.site, integer, _step(s))
        outer = LoopNest(writer, root := Scope(), s.vars[:-1], some)
        rows = outer.innermost
        units = {v: as_index(v) for v in s.vars}
        out, position = places(s.outs[0], tuple(units.get(v, ZERO_INDEX) for v in self.build.vars))

        def vector(start: Index, lanes: int) -> list[Stmt]:
            """The elements from `start` on."""
            inside, place = writer.inside(rows.step(start, not is_open(axis)), start, lanes)
            value = Substitution(variables={axis: place}).scalar(element)
            writer.count([value])
            stored = writer.stored(value, inside)
            offset = Substitution(variables={axis: start}).index(position)
            inside.statements.append(Store(out, offset, stored))
            return inside.statements

        done = ZERO_INDEX
        for width in _row(s, machine):
            rows.statements += vector(done, width)
            done = done + width
        if done is ZERO_INDEX:
            steps = halves(lanes) if is_open(axis) or self.some else (lanes,)
            loops = cover(axis, steps, vector, "vector", counted=True)
            if along and not is_open(axis):
                lower, upper, _ = narrowed(writer, rows, axis, along)
                loops = [_within(lower, upper, lanes, loop) for loop in loops]
            rows.statements += loops
            done = floor_divide(axis.extent, as_index(steps[-1])) * steps[-1]
        outer.close()
        remainder, place = part_of(self.build, [(axis, done, axis.extent)])
        rest = element_loops(remainder, place.among(places), builder) if done is not axis.extent else []
        return [*root.statements, *rest]


def masks(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy of masked vectors for single builds. Missing vector forms show while writing."""
    s = work.statement
    if not isinstance(s, ir.Build) or len(s.outs) != 1:
        return
    change = _change(without_units(s)) if update_of(s, work) is not None else None
    found = Masking.of(s, machine, change is not None)
    if found is None or (change is not None and _is_narrow(change, s.vars[-1], machine)):
        return

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, ir.Build)
        return bring_plain(s, found.statements(builder.address, builder), builder, machine)

    yield Candidate("masked", found.cycles, build, found.schedule)


def _split(s: ir.Build) -> tuple[ir.Scalar, list[Cond], list[Cond]]:
    """The value where the conditions on the outer axes hold, these conditions, and those on the last axis."""
    change = _change(s)
    assert change is not None
    assert isinstance(s.values[0], ir.Add)
    some, along = ([c for c in change.conds if (s.vars[-1] in c.free) is last] for last in (False, True))
    added = expr.bracket(along, change.arg)
    return expr.add(*(added if t is change else t for t in s.values[0].args)), some, along


def _change(s: ir.Build) -> ir.Bracket | None:
    """The term added to one other where conditions on the outer axes hold; None for other builds."""
    value = s.values[0]
    terms = value.args if isinstance(value, ir.Add) else ()
    changes = [t for t in terms if isinstance(t, ir.Bracket)]
    if not s.vars or len(changes) != 1 or len(terms) != 2:
        return None
    return None if all(s.vars[-1] in c.free for c in changes[0].conds) else changes[0]


def _is_narrow(change: ir.Bracket, axis: Var, machine: Machine) -> bool:
    """Whether conditions leave at most a vector's elements of each row, which plain loops do sooner."""
    ends = [c.index for c in change.conds if axis in c.free and c.op == ">="]
    widths = [(a + b).constant for a in ends for b in ends]
    return any(w is not None and w < machine.lanes(change.dtype.size) for w in widths)


def _within(lower: Bound, upper: Bound, lanes: int, loop: Stmt) -> Stmt:
    """The loop over vectors without those outside of the bounds."""
    if not isinstance(loop, For):
        return loop
    end = smallest(loop.upper, _vectors(upper, lanes, lanes - 1))
    return replace(loop, lower=_vectors(lower, lanes, 0), upper=end)


def _vectors(bound: Bound, lanes: int, more: int) -> Bound:
    """A bound in elements as one in vectors."""
    if isinstance(bound, Index):
        return floor_divide(bound + more, as_index(lanes))
    parts = (_vectors(b, lanes, more) for b in bound.args)
    return largest(*parts) if bound.op == "max" else smallest(*parts)


def _lanes_of(s: ir.Build, machine: Machine) -> int:
    """The lanes along the last axis for the widest type, places included; 1 if the axis is short."""
    trips = max((prod(map(typical, r.vars)) for r in walk(s.values[0]) if isinstance(r, ir.Reduce)), default=1)
    if not s.vars or prod(map(typical, s.vars)) * trips < SMALL:
        return 1
    extent = typical(s.vars[-1])
    nodes = [*walk(s.values[0])]
    inner = {n.arg for n in nodes if isinstance(n, ir.Cast)}
    sizes = [n.dtype.size for n in nodes if not n.dtype.is_bool and not (n in inner and makes_indices(n))]
    sizes += [i32.size for n in nodes if isinstance(n, ir.Bracket) and any(s.vars[-1] in c.free for c in n.conds)]
    most = machine.vector_bytes // max([*sizes, s.outs[0].dtype.size])
    choices = [n for n in (64, 32, 16, 8, 4, 2) if n <= min(most, extent) and 2 * n >= min(most, 8)]
    return min(choices, key=lambda n: extent // n + extent % n, default=1)


def _row(s: ir.Build, machine: Machine) -> list[int]:
    """The lane counts of a row's vectors if each vector is best written separately, else none.

    This is so for short rows with one vector, and for rows where only the ends of a window have masks.
    """
    extent, wide = s.vars[-1].extent.constant, _lanes_of(s, machine)
    if extent is None:
        return []
    windows = [r for r in walk(s.values[0]) if isinstance(r, ir.Reduce) and is_window(r, s.vars[-1])]
    lanes = machine.lanes(s.outs[0].dtype.size)
    least = machine.narrowest // s.outs[0].dtype.size
    row = [wide] if extent < 2 * wide else []
    if windows and least > 1 and sum(map(count_terms, windows)) * -(-extent // lanes) <= WINDOW:
        row = [width for width in narrower(extent, lanes) if width >= least] or row
    return row


def _step(s: ir.Build) -> int | None:
    """The longest step of a gather along the lanes; any for positions along rows.

    Their branches mispredict, and they read the lines of all lanes from one end to the other.
    """
    found = [n for n in walk(s.values[0]) if isinstance(n, ir.Reduce)]
    gets = [n for n in walk(s.values[0]) if isinstance(n, ir.Get) and s.vars[-1] in n.free]
    along = all(any(n.indices[-1].single is v for r in found for v in r.vars) for n in gets)
    return None if along and any(r.op in ("argmax", "argmin") for r in found) else NEAR


def part_of(
    s: ir.Build, stretches: Sequence[tuple[Var, Index | int, Index | int]], rows: tuple[Var, ...] = ()
) -> tuple[ir.Build, StretchPlace]:
    """A part of the build, from start to end along axes, inside loops over `rows`; and its location."""
    part = s
    for axis, start, end in stretches:
        part = stretch_of(part, axis, start, end)
    part = replace(part, vars=tuple(v for v in part.vars if v not in rows))
    return part, StretchPlace(s, {axis: start for axis, start, _ in stretches}, rows)


class StretchPlace:
    """The location of a part's elements: shifted along some axes, in the row of enclosing loops."""

    def __init__(self, s: ir.Build, starts: Mapping[Var, Index | int], rows: tuple[Var, ...]) -> None:
        self.out, self.starts = s.outs[0], starts
        self.variables, self.rows = s.vars, rows

    def among(self, places: Address) -> Address:
        """The address function of the part's elements, from that of the whole."""

        def address(ref: ir.Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
            if ref is self.out:
                own = iter(indices)
                indices = tuple(
                    as_index(v) if v in self.rows else next(own) + self.starts.get(v, 0) for v in self.variables
                )
            return places(ref, indices)

        return address
