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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import prod

from pullback.ir.expr import Get, Ref
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index
from pullback.ir.program import Build, Statement
from pullback.ir.traverse import walk
from pullback.loops.analysis.joined import stretch_of
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import KernelBuilder
from pullback.loops.plain.lower import Specialist, plain_build, without_units
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.program.nodes import Buffer, For, Kernel, Stmt, Store
from pullback.loops.program.scope import Scope
from pullback.loops.vectors.tile import tile
from pullback.machine import Machine
from pullback.passes.cost import cuts_by_axis

MOST = 12  # stretches
ROW = 256  # elements of a row that is written stretch by stretch


def part_kernels(machine: Machine) -> Specialist:
    """The lowering of builds that conditions split along axes, for `plain.lower`."""

    def kernel(s: Statement, builder: KernelBuilder) -> Kernel | None:
        if not isinstance(s, Build) or len(s.outs) != 1:
            return None
        split = cuts_by_axis(s)
        if split is None or prod(map(len, split.values())) > MOST or (len(split) > 1 and s.vars[-1] in split):
            return None
        body: list[Stmt] = []
        vectors = False
        rows = _rows(s, next(iter(split)))
        along = ([(v, *ends) for ends in pairwise((*starts, v.extent.constant or 0))] for v, starts in split.items())
        for stretches in product(*along):
            part, place = part_of(s, stretches, builder, rows)
            found = tile(part, place.address, machine)
            vectors |= found is not None
            body += plain_part(part, place) if found is None else found
        if not vectors:
            return None
        for v in reversed(rows):
            body = [For(v, ZERO_INDEX, v.extent, tuple(body))]
        return builder.kernel(tuple(body), plain_build(s, builder) if machine.portable else None)

    return kernel


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
    s: Build, stretches: Sequence[tuple[Var, int, int]], builder: KernelBuilder, rows: tuple[Var, ...] = ()
) -> tuple[Build, Place]:
    """A part of the build, from start to end along some axes and inside loops over `rows`, and where it lies."""
    part = s
    for axis, start, end in stretches:
        part = stretch_of(part, axis, start, end)
    part = replace(part, vars=tuple(v for v in part.vars if v not in rows))
    return part, Place(s, {axis: start for axis, start, _ in stretches}, builder, rows)


class Place:
    """Where a part's elements lie: those of the result are shifted along some axes, in the row of loops around."""

    def __init__(self, s: Build, starts: Mapping[Var, int], builder: KernelBuilder, rows: tuple[Var, ...]) -> None:
        self.out, self.starts, self.builder = s.outs[0], starts, builder
        self.variables, self.rows = s.vars, rows

    def address(self, ref: Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
        """The buffer and flat index of an element."""
        if ref is self.out:
            own = iter(indices)
            indices = tuple(
                as_index(v) if v in self.rows else next(own) + self.starts.get(v, 0) for v in self.variables
            )
        return self.builder.address(ref, indices)


def plain_part(part: Build, place: Place) -> list[Stmt]:
    """Plain loops over a stretch."""
    builder = place.builder
    loops = without_units(part)
    lowering = ScalarLowering(builder.parameter, builder.site, loops.values)
    root = Scope()
    nest = LoopNest(lowering, root, loops.vars, ())
    kept = {v: as_index(v) for v in loops.vars}
    out, position = place.address(place.out, tuple(kept.get(v, as_index(0)) for v in part.vars))
    nest.innermost.statements.append(Store(out, position, lowering.value(loops.values[0], nest.innermost)))
    nest.close()
    return root.statements
