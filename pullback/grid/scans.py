"""Scans: loops whose state is combined with one value a step, by an associative operation.

    for k: state = state + x[k];  y[k] = f(state)
    -->  for tiles of terms:  thread t:      partial[t] = the sum of its run of neighboring terms
                              thread u:      the sums before each of 16 threads, and their total
                              thread 0:      the state before each 16 threads
                              thread t:      the loop as written over its run, from the state before it

A group scans each row, tile by tile. If there are few rows of many terms, groups first combine runs of terms. A second
launch finds the state before each run, and a third one scans the runs. Sizes alone fix the order of combination. The
state may also be `a state + x[k]` with a number |a| <= 1, as the powers of such a number cannot overflow.

If there are many rows, or if the operation is not associative, a thread takes all steps of a row (`recurrence`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from pullback.device import Device
from pullback.grid.reductions import leaves, moved
from pullback.grid.spread import THREADS
from pullback.grid.states import Scan, ScanState, scan_of
from pullback.grid.steps import Alone, Grid, InOrder, Threads, axes_of, count_of, parts_schedule
from pullback.grid.tiles import WIDTH, Sizes, Tiles, walked
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate, Declined
from pullback.loops.program.nodes import Kernel
from pullback.loops.program.schedule import Schedule, Step
from pullback.loops.program.values import Buffer
from pullback.machine import Machine

LEAST, MOST = 32, 256  # least and most threads in a group
RUN: Final = 4096  # the terms of a group, if groups share a row
FEW: Final = 256  # with fewer rows, multiprocessors are idle
RUNS: Final = 256  # the most groups that share one row
MOST_STATES: Final = 4
COMBINE: Final = 4.0 * WIDTH  # cycles of a processor core in which few threads combine what others have found


def scans(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for loops whose states are scans."""
    scan = scan_of(work.statement)
    if scan is None:
        return
    rows, terms = count_of(scan.vars) or 1, scan.fold.var.extent.constant or 1
    exact, wide = all(x.exact for x in scan.states), any(r.dtype.bits > 32 for r in scan.fold.states)
    whole = terms * sum(statement_cycles(b, machine) for b in scan.fold.body.statements if isinstance(b, ir.Build))
    cycles = device.cycles(whole, whole / rows, -(-rows // THREADS), min(rows, THREADS), 0, wide, moved(work.statement))
    yield Candidate("recurrence", cycles, partial(_build, scan, None), _schedule(scan, None), exact=True)
    if not 0 < len(scan.states) <= MOST_STATES:
        return
    for asked in {1, min(RUNS, -(-terms // RUN))} if rows < FEW else (1,):
        length, threads = -(-terms // asked), LEAST
        while threads < MOST and threads * WIDTH < length:
            threads *= 2
        s = Sizes(rows, terms, threads, min(WIDTH, -(-length // threads)), -(-terms // length))
        passes, tiles = 3 if s.runs > 1 else 2, -(-s.length // s.tile)
        chain = passes * whole / (rows * s.runs * threads) + tiles * COMBINE
        cycles = device.cycles(passes * whole, chain, rows * s.runs, threads, 2 * passes * tiles, wide,
                               moved(work.statement))  # fmt: skip
        cycles += device.launch * 2 * (s.runs > 1)
        yield Candidate("scan", cycles, partial(_build, scan, s), _schedule(scan, s), exact)


def _schedule(scan: Scan, s: Sizes | None) -> Schedule:
    axes, name = axes_of(scan.vars), scan.fold.var.name
    if s is None:
        each: tuple[Step, ...] = (Grid(axes), Threads((THREADS,))) if axes else (Alone(),)
        return Schedule((*each, InOrder(scan.fold.var.extent.constant or 1)))
    each = (Threads((s.threads,), name), InOrder(s.own))
    if s.runs == 1:
        return Schedule((Grid(axes), *each))
    shared = Grid((*axes, ("run", s.runs))), *each
    return parts_schedule([shared, (Grid(axes), Threads((1,)), InOrder(s.runs)), shared])


def _build(scan: Scan, s: Sizes | None, builder: KernelBuilder) -> Kernel:
    """The kernel, with one launch or three."""
    inside = {*scan.fold.states, *dict(scan.values)}
    for ref in sorted({r for _, v in scan.values for r in v.refs} - inside, key=lambda r: r.name):
        builder.parameter(ref)
    if s is None:
        return builder.kernel(tuple(walked(scan, builder)))
    launch = partial(Tiles, scan, s, builder)
    if s.runs == 1:
        launches = [launch().scanned(())]
    else:
        totals = [[_scratch(builder, "totals", x, s) for _ in x.begun] for x in scan.states]
        before = [_scratch(builder, "before", x, s) for x in scan.states]
        launches = [launch().combined(totals), launch().starts(totals, before), launch().scanned(before)]
    if any(map(leaves, launches)):
        raise Declined
    return builder.kernel(tuple(launches))


def _scratch(builder: KernelBuilder, name: str, x: ScanState, s: Sizes) -> Buffer:
    like = Buffer("like", x.ref.dtype, (), "arena", ONE_INDEX)
    return builder.scratch(f"{x.ref.name}_{name}", like, s.rows * s.runs)
