"""Transposes: arrays that lie along another axis than the result, read through tiles in shared memory.

    y[m, n] = f(x[n, m])
    -->  group of a tile:  thread i, j: tile[i, j] = x[n0 + i, m0 + j]
                           thread j, i: y[m0 + j, n0 + i] = f(tile[i, j])

So neighboring threads both read and write neighbors. Rows of a tile have an odd number of places, so that its columns
lie in different banks. The rest of the statement is computed as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from pullback.device import Device
from pullback.grid.accesses import WARP, in_order
from pullback.grid.reductions import leaves, regular_reads, store_values, traffic
from pullback.grid.steps import (
    Grid,
    Shared,
    Threads,
    below,
    count_of,
    decoded,
    group_loop,
    local_buffer,
    thread_loop,
    unrolled,
    within,
)
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index, floor_divide, modulo
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.plain.builder import KernelBuilder, Work, flat_index
from pullback.loops.plain.candidates import Candidate, Declined
from pullback.loops.plain.lower import without_units
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.program.nodes import For, Kernel, LetIndex, Stmt, Store
from pullback.loops.program.schedule import Schedule
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Load, Value, scalar
from pullback.machine import Machine

SIDE: Final = 32  # the rows and columns of a tile
ROWS: Final = 8  # the rows that a group copies at once
LEAST: Final = 8  # least elements along both axes; with fewer, tiles are mostly empty
FLIGHT: Final = 16.0  # bytes that a thread waits for at once


@dataclass(frozen=True)
class Turned:
    """A build that reads elements along another axis than its own last one.

    Attributes:
        build: the statement without variables of size 1.
        row: the variable along which the result lies.   column: the one along which the elements lie.
        reads: these elements.
    """

    build: ir.Build
    row: Var
    column: Var
    reads: tuple[ir.Get, ...]

    @property
    def around(self) -> tuple[Var, ...]:
        """The other variables."""
        return tuple(v for v in self.build.vars if v not in (self.row, self.column))


def transposes(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for statements that transpose arrays."""
    s = work.statement
    if not isinstance(s, ir.Build):
        return
    for x in turned(without_units(s)):
        if sum(SIDE * (SIDE + 1) * g.ref.dtype.size for g in x.reads) > device.shared:
            continue
        whole, wide = statement_cycles(x.build, machine), any(o.dtype.bits > 32 for o in x.build.outs)
        tiles = [-(-(v.extent.constant or 1) // SIDE) for v in (x.column, x.row)]
        groups = (count_of(x.around) or 1) * tiles[0] * tiles[1]
        warp = in_order((*x.around, x.column, x.row), np.arange(WARP))
        asked = traffic(x.build, warp, x.reads)
        cycles = device.cycles(whole, whole / (groups * SIDE * ROWS), groups, SIDE * ROWS, 1, wide, asked.moved, FLIGHT)
        grid = Grid((*((v.name, v.extent.constant or 1) for v in x.around),
                     *((v.name, n) for v, n in zip((x.column, x.row), tiles, strict=True))))  # fmt: skip
        shared = Shared(tuple((g.ref.name, SIDE, SIDE) for g in x.reads))
        yield Candidate("transpose", cycles, partial(_build, x), Schedule((grid, shared, Threads((SIDE, ROWS)))),
                        exact=True)  # fmt: skip


def turned(s: ir.Build) -> Iterator[Turned]:
    """The ways to read a build's operands through tiles, one for each axis along which some of them lie."""
    if len(s.vars) < 2 or not count_of(s.vars):
        return
    *others, row = s.vars
    reads = regular_reads(s.values, s.vars)
    for column in others:
        own = [g for g in reads if _step(g, column) == 1 and abs(_step(g, row)) > 1]
        if own and min(v.extent.constant or 0 for v in (row, column)) >= LEAST:
            yield Turned(s, row, column, tuple(own))


def _step(g: ir.Get, v: Var) -> int:
    c = flat_index(g.ref, g.indices).coefficient(v)
    return (c.constant or 0) if c is not None else 0


Write = Callable[[Scope, Index], None]
"""A function that writes a thread's statements for an element, given its place in a tile."""


def _build(x: Turned, builder: KernelBuilder) -> Kernel:
    for ref in sorted({ref for v in x.build.values for ref in v.refs}, key=lambda ref: ref.name):
        builder.parameter(ref)
    launch = _Transpose(x, builder).launch()
    if leaves(launch):
        raise Declined
    return builder.kernel((launch,))


@dataclass
class _Transpose:
    """The launch of a transpose."""

    x: Turned
    builder: KernelBuilder

    def __post_init__(self) -> None:
        self.lowering = ScalarLowering(self.builder.parameter, self.builder.site, self.x.build.values)
        self.tiles = [local_buffer(f"{g.ref.name}_tile", g.ref.dtype, (SIDE, SIDE + 1), "shared") for g in self.x.reads]
        self.blocks = [Var(f"{v.name}_tile", as_index(-(-(v.extent.constant or 1) // SIDE)))
                       for v in (self.x.column, self.x.row)]  # fmt: skip

    def launch(self) -> For:
        """The group loop, with a group for each tile."""
        which = (*self.x.around, *self.blocks)
        g, root = Var("group", as_index(count_of(which) or 1)), Scope()
        outer = root.inside(g, True)
        outer.statements += decoded(as_index(g), which)
        group = Scope(outer, frozenset(which), outer.known, loop=True, statements=outer.statements)
        group.statements += [self._threads(group, self._copied, False), self._threads(group, self._computed, True)]
        return group_loop(g, (*root.statements, *group.statements))

    def _threads(self, group: Scope, write: Write, across: bool) -> For:
        """A thread loop over the tile; neighboring threads are in a row of it, or `across`, in a column."""
        t, turn = Var("thread", as_index(SIDE * ROWS)), Var("turn", as_index(SIDE // ROWS))
        i, j = Var("i", as_index(SIDE)), Var("j", as_index(SIDE))
        thread = group.inside(t, True)
        each = thread.inside(turn, True)
        fast, slow = modulo(as_index(t), as_index(SIDE)), floor_divide(as_index(t), as_index(SIDE))
        slow = slow + as_index(turn) * ROWS
        each.statements += map(LetIndex, (i, j), (fast, slow) if across else (slow, fast))
        at = [as_index(block) * SIDE + as_index(k) for block, k in zip(self.blocks, (j, i), strict=True)]
        own = (self.x.column, self.x.row)
        conds = [c for v, k in zip(own, at, strict=True) for c in below(k, v.extent.constant or 1, SIDE)]
        inside = within(each, conds, [*map(LetIndex, own, at)])
        write(inside.scope, as_index(i) * (SIDE + 1) + as_index(j))
        inside.close()
        body: tuple[Stmt, ...] = (*thread.statements, unrolled(turn, each.statements))
        return thread_loop(t, body)

    def _copied(self, scope: Scope, place: Index) -> None:
        """Copy elements to the tiles."""
        values = [self.lowering.value(g, scope) for g in self.x.reads]
        scope.statements += [Store(tile, place, v) for tile, v in zip(self.tiles, values, strict=True)]

    def _computed(self, scope: Scope, place: Index) -> None:
        """Compute an element from those in the tiles."""
        found: list[tuple[ir.Scalar, Value]] = [(g, Load(tile, place, scalar(g.ref.dtype)))
                                                for g, tile in zip(self.x.reads, self.tiles, strict=True)]  # fmt: skip
        scope.temps |= dict(found)
        store_values(self.x.build, self.lowering, self.builder, scope)
