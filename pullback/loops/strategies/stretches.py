"""Stretches: builds whose conditions split axes run a stretch at a time without conditions.

Before    y = build i < N { x[i] * ([i >= 1] y0[i - 1] + [0 >= i] 1.0) }
After     y[0] = x[0] * 1.0, then vectors over 1 .. N - 1 of x[i] * y0[i - 1]

Before    y = build n < N, k < 28 { [1 >= k] a[n, k] + [k >= 2] b[n, k - 2] }
After     for n: y[n, 0 ..] = a[n, ..], then vectors of y[n, 2 ..] = b[n, ..]

Before    y = build i < H + 2, j < W + 2 { [i >= 1, H >= i, j >= 1, W >= j] x[i - 1, j - 1] }
After     zeros in the first and last row; in other rows a zero, W elements of x in vectors, and a zero

Examples are an element past a border, the ends of a stencil, a concatenation, or rows of derivatives by each variable.
On each stretch between the places where a condition changes, all conditions are known. The vector lowering does the
rest. With open sizes the places are in terms of the dims, in an order that holds for all sizes. Conditions about two
axes at once, or about data, stay in the stretches, which become masked vectors. Builds with reductions are excluded:
their conditions already bound loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from math import prod

from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Cond, Var, cond
from pullback.ir.traverse import walk
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.lower import bring_plain, element_loops
from pullback.loops.program.cover import is_open, typical
from pullback.loops.program.nodes import For, If, Kernel, Stmt
from pullback.loops.program.schedule import Schedule, Split
from pullback.loops.program.values import Holds
from pullback.loops.strategies.masked import Masking, StretchPlace, part_of
from pullback.loops.vectors.tile import Tiling, plan_tile
from pullback.machine import Machine
from pullback.passes.cost import cuts_by_axis

MOST = 12  # most stretches
ROW = 256  # most elements of a row that is written stretch by stretch


def stretches(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for builds that conditions split along axes."""
    s = work.statement
    if not isinstance(s, ir.Build) or len(s.outs) != 1:
        return
    split = cuts_by_axis(s, others=any(map(is_open, s.vars)))
    if split is None or prod(map(len, split.values())) > MOST:
        return
    rows = _rows(s, tuple(split))
    along = ([(v, *ends) for ends in pairwise((*starts, v.extent))] for v, starts in split.items())
    planned: list[tuple[ir.Build, StretchPlace, Tiling | Masking | None]] = []
    for found in product(*along):
        part, place = part_of(s, found, rows)
        plan: Tiling | Masking | None = plan_tile(part, place.among(work.address), machine)
        if plan is None and part.vars[-1].extent is not ONE_INDEX:  # else neighbors are rows apart
            plan = Masking.of(part, machine)
        planned.append((part, place, plan))
    if not any(plan for _, _, plan in planned):
        return

    def build(builder: KernelBuilder) -> Kernel:
        body: list[Stmt] = []
        for part, place, plan in planned:
            there = place.among(builder.address)
            if isinstance(plan, Tiling):
                builder.take(plan.nest.buffers.values())
                loops = [*plan.statements()]
            else:
                loops = plan.statements(there, builder) if plan else element_loops(part, there, builder)
            some = [cond(">=", v.extent - 1) for v in part.vars]  # open stretches may be empty
            unknown = tuple(c for c in some if isinstance(c, Cond))
            body += [If(Holds(unknown), tuple(loops))] if unknown else loops
        for v in reversed(rows):
            body = [For(v, ZERO_INDEX, v.extent, tuple(body))]
        return bring_plain(s, body, builder, machine)

    cycles = sum(statement_cycles(part, machine) if p is None else p.cycles for part, _, p in planned)
    steps = tuple(Split(v.name, tuple(map(str, starts))) for v, starts in split.items())
    widest = next(p.schedule for _, _, p in planned if p is not None)
    exact = not any(isinstance(n, ir.Add | ir.Mul | ir.Apply) for n in walk(s.values[0]))
    cycles *= prod(map(typical, rows))
    yield Candidate("stretches", cycles, build, Schedule(steps) + widest, exact)


def _rows(s: ir.Build, split: tuple[Var, ...]) -> tuple[Var, ...]:
    """The variables of the loops around all stretches; rows are written in memory order.

    Otherwise each short stretch would make a separate pass over the memory of all rows. Open stretches may be short,
    and so are the edges of several axes.
    """
    at = s.vars.index(split[0])
    before = tuple(v for v in s.vars[:at] if v.extent is not ONE_INDEX)
    gets = [n for n in walk(s.values[0]) if isinstance(n, ir.Get) and n.indices]
    along = all(n.indices[-1].free.isdisjoint(before) for n in gets)  # lanes are along rows, of the arrays read too
    few = s.vars[-1] in split[1:] or any(map(is_open, s.vars[at:])) or prod(map(typical, s.vars[at:])) < ROW
    return before if along and few else ()
