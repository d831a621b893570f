"""The table of all strategies. To add a kernel, write a strategy and add it here."""

from __future__ import annotations

from typing import Final

from pullback.loops.plain.candidates import Chooser, Strategies
from pullback.loops.plain.lower import PLAIN, plain_loops
from pullback.loops.plain.scatters import scatters, scatters_size
from pullback.loops.plain.updates import updates
from pullback.loops.product.packed import products
from pullback.loops.strategies.diagonals import diagonals
from pullback.loops.strategies.interleaved import periods
from pullback.loops.strategies.masked import masks
from pullback.loops.strategies.recurrence import recurrences
from pullback.loops.strategies.staggered import staggered, staggered_size
from pullback.loops.strategies.stretches import stretches
from pullback.loops.vectors.tile import group_size, groups, positions, tiles
from pullback.machine import Machine

STRATEGIES: Final = Strategies(
    single=(updates, products, tiles, positions, stretches, masks, periods, diagonals, plain_loops),
    several=(groups, staggered, scatters),
    head=lambda statements: max(size(statements) for size in (group_size, staggered_size, scatters_size)),
    loops=(recurrences,),
)


def chooser(machine: Machine) -> Chooser:
    """The chooser among all strategies; without vectors, plain loops do everything."""
    return Chooser(machine, STRATEGIES) if machine.vector_bytes else PLAIN
