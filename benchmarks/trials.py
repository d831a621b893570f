"""Trials: candidates of a statement, and schedules of one, written and timed in turns.

A statement becomes a program of its own, and each candidate a library. What is estimated to take many times as long as
the cheapest is not tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from pullback.codegen.target import Printing
from pullback.codegen.targets import C
from pullback.ir.alone import alone
from pullback.ir.alpha import alpha_key
from pullback.ir.program import Build, Program, Scatter, blocks_of, walk_statements
from pullback.loops.memory.plan import plan
from pullback.loops.plain.builder import Work
from pullback.loops.plain.lower import lower
from pullback.loops.plain.storage import assign_storage
from pullback.loops.program.nodes import kernels_of
from pullback.loops.program.schedule import Chosen, Schedule, Step, Tile, Vector, Wish
from pullback.loops.strategies.table import chooser
from pullback.machine import Machine
from pullback.runtime.record import Record
from pullback.runtime.timing import Called, arguments, in_turns

__all__ = ["Trial", "Tried", "recorded", "schedule_trial", "statements", "trial", "variations"]

FAR: Final = 4.0  # times the cheapest estimate, beyond which a candidate is not tried
NEAR: Final = 1.5  # times the estimate of the schedule that is chosen, beyond which another is not tried
MOST: Final = 12  # other schedules, the cheapest by their estimates
ENOUGH: Final = 1.1  # times the fastest, up to which a choice is as good


@dataclass(frozen=True)
class Tried:
    """A candidate, or a schedule of one, that was tried: its estimate in cycles, and the seconds it took."""

    chosen: Chosen
    seconds: float


@dataclass(frozen=True)
class Trial:
    """The candidates of a statement, or the schedules of one, that which is chosen first."""

    name: str
    tried: tuple[Tried, ...]

    @property
    def fastest(self) -> Tried:
        """The one that took the least time."""
        return min(self.tried, key=lambda t: t.seconds)

    @property
    def ratio(self) -> float:
        """The time of the one that is chosen by that of the fastest."""
        return self.tried[0].seconds / self.fastest.seconds

    @property
    def good(self) -> bool:
        """Whether the choice is the fastest, or nearly."""
        return self.ratio <= ENOUGH

    def __str__(self) -> str:
        """A line."""
        several = len({t.chosen.name for t in self.tried}) > 1
        shown = (f"{t.chosen.name if several else t.chosen} {1e6 * t.seconds:.3g} µs, {t.chosen.cycles:.3g} cycles"
                 for t in self.tried)  # fmt: skip
        return f"{self.ratio:5.2f}  {self.name}: {'; '.join(shown)}"


def statements(programs: Iterable[Program], machine: Machine) -> Iterator[Build | Scatter]:
    """The statements of optimized programs that are kernels by themselves, each form once."""
    seen, head = set(), chooser(machine).head
    for p in programs:
        inner = [b for s in walk_statements(p.body) for b in blocks_of(s)]
        for block in (p.body, *inner):
            rest = list(block.statements)
            while rest:
                count, s = head(rest), rest[0]
                if count == 1 and isinstance(s, Build | Scatter) and (key := alpha_key(s)[0]) not in seen:
                    seen.add(key)
                    yield s
                del rest[:count]


def trial(s: Build | Scatter, machine: Machine, budget: float = 0.1) -> Trial | None:
    """Try the candidates of a statement; None where there is no choice."""
    program = alone((s,), s.outs)
    views = assign_storage(program).views
    candidates = chooser(machine).candidates(Work.of(program.body.statements[0], views))
    near = [c for c in candidates if c.cycles <= FAR * candidates[0].cycles]
    found: dict[str, tuple[Chosen, Record]] = {}
    for c in near:
        made = recorded(program, machine, Wish(c.name))
        if made is not None and made[0].name == c.name:
            found.setdefault(c.name, made)
    return _timed(s.outs[0].name, list(found.values()), budget)


def schedule_trial(s: Build | Scatter, machine: Machine, budget: float = 0.1) -> Trial | None:
    """Try other tiles and vectors for the candidate that is chosen; None where it has no others."""
    program = alone((s,), s.outs)
    work = Work.of(program.body.statements[0], assign_storage(program).views)
    choose = chooser(machine)
    best = choose.candidates(work)[0]
    near = []
    for varied in variations(best.schedule):
        c = replace(choose, wish=Wish(best.name, varied)).candidates(work)[0]
        if c.schedule.has(varied) and c.cycles <= NEAR * best.cycles:
            near.append((c.cycles, varied))
    near.sort(key=lambda found: found[0])
    wishes = [Wish(best.name), *(Wish(best.name, varied) for _, varied in near[:MOST])]
    made = [found for wish in wishes if (found := recorded(program, machine, wish)) is not None]
    return _timed(s.outs[0].name, made, budget)


def variations(schedule: Schedule) -> Iterator[Schedule]:
    """Tiles of other sizes and other numbers of vectors side by side, of the same axes, to be wished for."""
    choices: list[list[Step]] = []
    for step in schedule.steps:
        if isinstance(step, Tile):
            axes = [axis for axis, _ in step.axes]
            sizes = product(range(2, 15), repeat=len(axes))
            choices.append([Tile(tuple(zip(axes, size, strict=True))) for size in sizes])
        elif isinstance(step, Vector):
            choices.append([replace(step, together=n) for n in range(1, 5)])
    return (varied for steps in product(*choices) if not schedule.has(varied := Schedule(steps)))


def _timed(name: str, made: Sequence[tuple[Chosen, Record]], budget: float) -> Trial | None:
    """Time each text in turns; None for fewer than two."""
    if len(made) < 2:
        return None
    ready = arguments(made[0][1])
    times = in_turns([Called(record, ready) for _, record in made], budget)
    return Trial(name, tuple(Tried(chosen, t) for (chosen, _), t in zip(made, times, strict=True)))


def recorded(program: Program, machine: Machine, wish: Wish) -> tuple[Chosen, Record] | None:
    """The C of a program of one kernel as it is wished for; None where the kernel is none of a choice."""
    function = replace(lower(program, chooser=replace(chooser(machine), wish=wish)), machine=machine)
    made = kernels_of(function.body)
    if len(made) != 1 or made[0].choice is None:
        return None
    source = C.source(function, plan(function), Printing("canonical", comments=False))
    record = Record.of(function, source)
    return made[0].choice, replace(record, units=(source.text,), straight=False)
