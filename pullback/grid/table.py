"""The table of all strategies for devices. To add one, write a strategy and add it here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, Protocol

from pullback.device import Device
from pullback.grid.products import products
from pullback.grid.reductions import independent_loops, moved
from pullback.grid.scans import scans
from pullback.grid.scatters import scatters
from pullback.grid.sorts import sorts
from pullback.grid.spread import THREADS
from pullback.grid.trees import trees
from pullback.ir import nodes as ir
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate, Chooser, Strategies
from pullback.loops.plain.lower import element_loops, plain_scatter
from pullback.loops.plain.updates import updates
from pullback.loops.program.cover import typical
from pullback.loops.program.nodes import Kernel
from pullback.machine import SCALAR, Machine


class DeviceStrategy(Protocol):
    """The interface of a strategy for devices."""

    def __call__(self, work: Work, machine: Machine, device: Device) -> Iterable[Candidate]:
        """The candidate kernels for some work."""


def elements(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for any single statement, with a thread for each element."""
    s = work.statement

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, ir.Build | ir.Scatter)
        if isinstance(s, ir.Scatter):
            return builder.kernel(plain_scatter(s, builder))
        loops = element_loops(s, builder.address, builder, beside=False)
        return builder.kernel(tuple(independent_loops(loops, s.vars)))

    if isinstance(s, ir.Build | ir.Scatter):
        whole, count = statement_cycles(s, machine), 1.0
        for v in s.vars if isinstance(s, ir.Build) else ():
            count *= typical(v)
        wide = any(o.dtype.bits > 32 for o in s.outs)
        groups = -(-int(count) // THREADS)
        cycles = device.cycles(whole, whole / max(count, 1.0), groups, THREADS, wide=wide, moved=moved(s))
        cycles += device.launch * isinstance(s, ir.Scatter)  # zeros first
        yield Candidate("elements", cycles, build, exact=True)


STRATEGIES: Final[tuple[DeviceStrategy, ...]] = (products, trees, scatters, elements)
LOOPS: Final[tuple[DeviceStrategy, ...]] = (scans,)  # for loops with states
SORTS: Final[tuple[DeviceStrategy, ...]] = (sorts,)


def device_chooser(device: Device) -> Chooser:
    """The chooser among all strategies for a device."""
    single, loops, orders = (tuple(partial(s, device=device) for s in table) for table in (STRATEGIES, LOOPS, SORTS))
    return Chooser(SCALAR, Strategies(single=(updates, *single), loops=loops, sorts=orders))
