"""The table of all strategies for devices. To add one, write a strategy and add it here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import numpy as np

from pullback.device import Device
from pullback.grid.accesses import WARP, in_order, orders
from pullback.grid.products import products
from pullback.grid.reductions import Traffic, independent_loops, moved, places, traffic
from pullback.grid.rows import head, rows
from pullback.grid.scans import scans
from pullback.grid.scatters import scatters
from pullback.grid.sorts import sorts
from pullback.grid.spread import THREADS, is_launched
from pullback.grid.tensor import tensor_products
from pullback.grid.transposes import transposes
from pullback.grid.trees import FLIGHT, trees
from pullback.grid.vendor import library_calls
from pullback.grid.writes import writes
from pullback.ir import nodes as ir
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position, free_variables
from pullback.loops.plain.candidates import Candidate, Chooser, Strategies
from pullback.loops.plain.lower import element_loops, without_units
from pullback.loops.plain.scatters import plain_scatter
from pullback.loops.plain.updates import updates
from pullback.loops.program.cover import typical
from pullback.loops.program.nodes import Kernel, Stmt, without_unread
from pullback.machine import SCALAR, Machine

HOST: Final = replace(SCALAR, waits=(0.0, 0.0))  # by whose cycles work is counted; `Device` knows its memory
FEWEST: Final = 4.0  # cycles of a processor core for an element at least


class DeviceStrategy(Protocol):
    """The interface of a strategy for devices."""

    def __call__(self, work: Work, machine: Machine, device: Device) -> Iterable[Candidate]:
        """The candidate kernels for some work."""


def elements(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for any single statement, with a thread for each element."""
    s = work.statement

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, ir.Build | ir.Scatter)
        return builder.kernel(_plain(s, builder))

    if isinstance(s, ir.Build | ir.Scatter):
        whole, count = statement_cycles(s, machine), 1.0
        for v in s.vars if isinstance(s, ir.Build) else ():
            count *= typical(v)
        wide = any(o.dtype.bits > 32 for o in s.outs)
        groups, asked = -(-int(count) // THREADS), _traffic(s)
        cycles = device.cycles(whole, whole / max(count, 1.0), groups, min(THREADS, max(int(count), 1)), 0, wide,
                               asked.moved, FLIGHT, 0, asked.lines)  # fmt: skip
        cycles += device.launch * isinstance(s, ir.Scatter)  # zeros first
        yield Candidate("elements", cycles, build, exact=True)


def _traffic(s: ir.Build | ir.Scatter) -> Traffic:
    """The traffic of a statement, in the best order of its loops."""
    if not isinstance(s, ir.Build):
        return Traffic(moved(s), 0.0)
    build = without_units(s)
    at = [flat_position(build.vars), *(p for v in build.values for p in places(v))]
    found = (traffic(build, in_order(order, np.arange(WARP))) for order in orders(build.vars, at))
    return min(found, key=lambda x: x.moved)


def parts(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for arrays that are overwritten in place, in a launch or between two barriers."""
    for c in updates(work, machine):
        groups = -(-int(c.cycles) // THREADS)
        launch = device.cycles(c.cycles, FEWEST, groups, THREADS)
        yield replace(c, cycles=min(launch, device.meeting + device.serial * max(c.cycles / THREADS, FEWEST)))


def _plain(s: ir.Build | ir.Scatter, builder: KernelBuilder) -> tuple[Stmt, ...]:
    """Write plain loops."""
    if isinstance(s, ir.Scatter):
        return plain_scatter(s, builder)
    loops = element_loops(s, builder.address, builder, beside=False)
    return tuple(independent_loops(loops, s.vars))


def with_loops(c: Candidate, s: ir.Statement) -> Candidate:
    """The candidate with plain loops added to its kernel, for a group that runs several kernels."""

    def build(builder: KernelBuilder) -> Kernel:
        k = c.build(builder)
        if not is_launched(k) or not isinstance(s, ir.Build | ir.Scatter):
            return k
        loops = without_unread(_plain(s, builder))
        return replace(k, portable=loops if set(free_variables(loops)) <= set(k.indices) else None)

    return replace(c, build=build)


def _offered(work: Work, machine: Machine, strategy: DeviceStrategy, device: Device) -> Iterator[Candidate]:
    return (with_loops(c, work.statement) for c in strategy(work, machine, device))


def libraries(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for statements that libraries may compute; the kernel is that of another strategy."""
    return library_calls(work, device, (c for strategy in OWN for c in strategy(work, machine, device)))


OWN: Final[tuple[DeviceStrategy, ...]] = (tensor_products, products, trees, transposes, scatters, elements)
STRATEGIES: Final[tuple[DeviceStrategy, ...]] = (*OWN, libraries)
SEVERAL: Final[tuple[DeviceStrategy, ...]] = (rows,)  # for neighboring statements
LOOPS: Final[tuple[DeviceStrategy, ...]] = (writes, scans)  # for loops with states
SORTS: Final[tuple[DeviceStrategy, ...]] = (sorts,)


def device_chooser(device: Device) -> Chooser:
    """The chooser among all strategies for a device."""
    single, loops, orders = (tuple(partial(_offered, strategy=s, device=device) for s in table)
                             for table in (STRATEGIES, LOOPS, SORTS))  # fmt: skip
    own = partial(parts, device=device)
    several = tuple(partial(strategy, device=device) for strategy in SEVERAL)
    return Chooser(HOST, Strategies((own, *single), several, head, loops, orders, nested=False))
