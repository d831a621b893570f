"""Builds whose conditions split axes: a stretch at a time, each without conditions.

Before    y = build i < N { x[i] * ([i >= 1] y0[i - 1] + [0 >= i] 1.0) }
After     y[0] = x[0] * 1.0, then vectors over 1 .. N - 1 of x[i] * y0[i - 1]

Before    y = build n < N, k < 28 { [1 >= k] a[n, k] + [k >= 2] b[n, k - 2] }
After     for n: y[n, 0 ..] = a[n, ..], then vectors of y[n, 2 ..] = b[n, ..]

An element past a border, the first or last of a stencil, a concatenation, rows put together of derivatives by each: on
each stretch between the places where a condition changes, all conditions are known, and the vector lowering takes what
is left. Several axes are split where the last, along which vectors lie, stays whole. It does not look at conditions
about two axes at once, nor at builds with reductions, whose conditions are bounds of their loops already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import prod

from pullback.ir.expr import Get, Ref
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index
from pullback.ir.program import Build
from pullback.ir.traverse import walk
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.analysis.joined import stretch_of
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import KernelBuilder, Places, Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.lower import bring_plain, without_units
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.program.cover import typical
from pullback.loops.program.nodes import For, Kernel, Stmt, Store
from pullback.loops.program.schedule import Schedule, Split
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Buffer
from pullback.loops.vectors.axes import Address
from pullback.loops.vectors.tile import Tiling, plan_tile
from pullback.machine import Machine
from pullback.passes.cost import cuts_by_axis

MOST = 12  # stretches
ROW = 256  # elements of a row that is written stretch by stretch


def stretches(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for builds that conditions split along axes."""
    s = work.statement
    if not isinstance(s, Build) or len(s.outs) != 1:
        return
    split = cuts_by_axis(s)
    if split is None or prod(map(len, split.values())) > MOST or (len(split) > 1 and s.vars[-1] in split):
        return
    rows = _rows(s, next(iter(split)))
    along = ([(v, *ends) for ends in pairwise((*starts, v.extent.constant or 0))] for v, starts in split.items())
    planned: list[tuple[Build, StretchPlace, Tiling | None]] = []
    for found in product(*along):
        part, place = part_of(s, found, rows)
        planned.append((part, place, plan_tile(part, place.among(work), machine)))
    if not any(tiling for _, _, tiling in planned):
        return

    def build(builder: KernelBuilder) -> Kernel:
        body: list[Stmt] = []
        for part, place, tiling in planned:
            if tiling is not None:
                builder.take(tiling.nest.buffers.values())
            body += plain_part(part, place, builder) if tiling is None else tiling.statements()
        for v in reversed(rows):
            body = [For(v, ZERO_INDEX, v.extent, tuple(body))]
        return bring_plain(s, body, builder, machine)

    cycles = sum(statement_cycles(part, machine) if t is None else t.cycles for part, _, t in planned)
    steps = tuple(Split(v.name, tuple(starts)) for v, starts in split.items())
    widest = next(t.schedule for _, _, t in planned if t is not None)
    yield Candidate("stretches", prod(typical(v) for v in rows) * cycles, build, Schedule(steps) + widest)


def _rows(s: Build, axis: Var) -> tuple[Var, ...]:
    """The variables of loops around all stretches: rows are written from front to back where the axis lies in them.

    Few elements of a stretch beside one another would otherwise be a pass of their own over the memory of all rows.
    """
    at = s.vars.index(axis)
    before = tuple(v for v in s.vars[:at] if v.extent is not ONE_INDEX)
    gets = [n for n in walk(s.values[0]) if isinstance(n, Get) and n.indices]
    along = all(n.indices[-1].free.isdisjoint(before) for n in gets)  # lanes lie along rows, of arrays read too
    return before if along and prod(v.extent.constant or ROW for v in s.vars[at:]) < ROW else ()


def part_of(
    s: Build, stretches: Sequence[tuple[Var, Index | int, Index | int]], rows: tuple[Var, ...] = ()
) -> tuple[Build, StretchPlace]:
    """A part of the build, from start to end along some axes and inside loops over `rows`, and where it lies."""
    part = s
    for axis, start, end in stretches:
        part = stretch_of(part, axis, start, end)
    part = replace(part, vars=tuple(v for v in part.vars if v not in rows))
    return part, StretchPlace(s, {axis: start for axis, start, _ in stretches}, rows)


class StretchPlace:
    """Where a part's elements lie: those of the result are shifted along some axes, in the row of loops around."""

    def __init__(self, s: Build, starts: Mapping[Var, Index | int], rows: tuple[Var, ...]) -> None:
        self.out, self.starts = s.outs[0], starts
        self.variables, self.rows = s.vars, rows

    def among(self, places: Places) -> Address:
        """What gives the buffer and flat index of an element."""

        def address(ref: Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
            if ref is self.out:
                own = iter(indices)
                indices = tuple(
                    as_index(v) if v in self.rows else next(own) + self.starts.get(v, 0) for v in self.variables
                )
            return places.address(ref, indices)

        return address


def plain_part(part: Build, place: StretchPlace, builder: KernelBuilder) -> list[Stmt]:
    """Plain loops over a stretch."""
    loops = without_units(part)
    lowering = ScalarLowering(builder.parameter, builder.site, loops.values, beside=True)
    root = Scope()
    nest = LoopNest(lowering, root, loops.vars, ())
    kept = {v: as_index(v) for v in loops.vars}
    out, position = place.among(builder)(place.out, tuple(kept.get(v, as_index(0)) for v in part.vars))
    nest.innermost.statements.append(Store(out, position, lowering.value(loops.values[0], nest.innermost)))
    nest.close()
    return root.statements
