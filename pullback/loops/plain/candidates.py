"""Candidate kernels for statements, each with an estimate; the cheapest is built.

A strategy takes the work and the machine and yields candidates. It makes all decisions behind its estimate and touches
no builder. `Chooser.kernel` takes the cheapest, which writes its kernel. Some strategies find out only while writing
that vectors cannot do the work. They raise `Declined`, and the next candidate is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final

from pullback.ir import nodes as ir
from pullback.ir.program import statement_reads
from pullback.loops.analysis.estimates import memory_cycles
from pullback.loops.analysis.joined import elements
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.program.cover import typical, typical_count
from pullback.loops.program.nodes import Kernel
from pullback.loops.program.schedule import EVERY, PLAIN, Chosen, Schedule, Wish
from pullback.loops.program.values import View
from pullback.machine import Machine
from pullback.records import dataclass, replace

__all__ = ["Candidate", "Chooser", "Declined", "Preference", "Strategies", "Strategy"]


CALL: Final = 10.0  # the overhead of a kernel call


class Declined(Exception):
    """Raised when this kind of kernel cannot do the work."""


class Apart(Declined):
    """Raised when several statements are best done one by one."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to do the work.

    Attributes:
        name: the kind of kernel.
        cycles: the estimated cycles.
        build: a function that writes the kernel; raises Declined.
        schedule: its loop transformations.
        exact: whether it rounds as the statement is written.
        has_run: whether the target has run such a kernel; others are only taken if they are wished for.
    """

    name: str
    cycles: float
    build: Callable[[KernelBuilder], Kernel]
    schedule: Schedule = PLAIN
    exact: bool = False
    has_run: bool = True


Strategy = Callable[[Work, Machine], Iterable[Candidate]]
Preference = Callable[[Work, Callable[[], list[Candidate]]], Candidate | None]
"""A choice among all candidates for some work, which the second argument gives; None for the cheapest."""


Head = Callable[[Sequence[ir.Statement]], int]
"""A function that counts the first statements that may be one kernel."""


def alone(statements: Sequence[ir.Statement]) -> int:
    """The head size for a chooser without fusion: one statement per kernel."""
    return 1


@dataclass(frozen=True)
class Strategies:
    """The available strategies.

    Attributes:
        single: for one Build or Scatter.
        several: for neighboring statements.
        head: returns how many of the first statements may be one kernel.
        loops: for a Fold; without a candidate it is a loop around the kernels of its body.
        sorts: for a Sort; without a candidate it is a procedure of the target.
        nested: whether several statements may be one kernel inside loops and branches, too.
    """

    single: tuple[Strategy, ...]
    several: tuple[Strategy, ...] = ()
    head: Head = alone
    loops: tuple[Strategy, ...] = ()
    sorts: tuple[Strategy, ...] = ()
    nested: bool = True

    def of(self, work: Work) -> tuple[Strategy, ...]:
        """The strategies for some work."""
        if len(work.statements) > 1:
            return self.several
        match work.statement:
            case ir.Fold():
                return self.loops
            case ir.Sort():
                return self.sorts
            case _:
                return self.single


@dataclass(frozen=True)
class Chooser:
    """A chooser between candidates.

    Attributes:
        machine: the target processor.
        strategies: the sources of candidates.
        wish: the candidate to take if it exists, for experiments.
        workspace: the most bytes of working memory of a kernel, such as packed panels; None for any.
        prefer: chooses before the estimates do, as a tuner has measured.
    """

    machine: Machine
    strategies: Strategies
    wish: Wish | None = None
    workspace: int | None = None
    prefer: Preference | None = None

    @property
    def head(self) -> Head:
        """The function that counts the first statements that may be one kernel."""
        return self.strategies.head

    def candidates(self, work: Work) -> list[Candidate]:
        """All candidates: the wished one, then by cost; ties keep the order of the strategies."""
        found = self._by_cost(work)
        usual = [c for c in found if c.has_run]
        if self.wish is None:
            return usual
        wish, name = self.wish.schedule, self.wish.name
        offered = found if wish is PLAIN else self._offered(replace(work, wish=wish))
        wished = [c for c in offered if c.name == name and c.schedule.has(wish)]
        return [*wished, *(c for c in usual if not wished or c.name != name)]

    def every(self, work: Work) -> list[Candidate]:
        """All candidates that have run on a device by cost, also those that only tuners try."""
        return [c for c in self._by_cost(replace(work, wish=EVERY)) if c.has_run]

    def _by_cost(self, work: Work) -> list[Candidate]:
        found = self._offered(work)
        if found and (len(work.statements) > 1 or isinstance(work.statement, ir.Fold)):
            found.append(self._apart(work))
        return sorted(found, key=lambda c: c.cycles)

    def _offered(self, work: Work) -> list[Candidate]:
        """The permitted candidates of the strategies, in their order."""
        found = (c for strategy in self.strategies.of(work) for c in strategy(work, self.machine))
        return [c for c in found if c.exact or not work.exact]

    def _apart(self, work: Work) -> Candidate:
        """One kernel per statement, of the work or of a loop's body; intermediate arrays are stored."""
        last, machine = work.statement, self.machine
        parts = last.body.statements if isinstance(last, ir.Fold) else work.statements
        each = [self.candidates(Work.of(s, work.views, work.exact)) for s in parts]
        cycles = sum(CALL + (c[0].cycles if c else 0.0) for c in each)
        if isinstance(last, ir.Fold):
            carried = sum(r.dtype.size * typical_count(elements(r.shape)) for r in last.states) / machine.copied
            return Candidate("apart", typical(last.var) * (cycles + carried), _one_by_one, exact=True)
        arrays = [(*statement_reads(s), *s.outs) for s in parts]
        made = {o for s in parts for o in s.outs}
        together = {r for of_one in arrays for r in of_one if r not in made} | set(work.outs)
        waits = sum(memory_cycles(of_one, machine) for of_one in arrays) - memory_cycles(together, machine)
        return Candidate("apart", cycles + waits, _one_by_one, exact=True)

    def kernel(self, work: Work, comment: tuple[str, ...]) -> tuple[Kernel, tuple[View, ...]]:
        """The kernel for the work, with its arguments.

        Raises:
            Declined: there is no kernel, or the statements are best done one by one.
        """
        asked = self.candidates(work)
        if self.prefer is not None and (own := self.prefer(work, lambda: self.every(work))) is not None:
            asked = [own, *asked]
        for k, c in enumerate(asked):
            builder = KernelBuilder(work, comment)
            try:
                made = c.build(builder)
            except Apart:
                raise
            except Declined:
                continue
            if self.workspace is not None and workspace(made) > self.workspace:
                continue
            return replace(made, choice=chosen(c, asked[k + 1 :])), tuple(builder.arguments)
        raise Declined


def workspace(kernel: Kernel) -> float:
    """The bytes of working memory that a kernel has while it runs; infinity if they follow from dims."""
    counts = [b.elements.constant for b in kernel.scratch]
    return sum(inf if n is None else n * b.dtype.size for n, b in zip(counts, kernel.scratch))


def _one_by_one(builder: KernelBuilder) -> Kernel:
    raise Apart


def chosen(c: Candidate, among: Sequence[Candidate]) -> Chosen:
    """The record of a candidate's choice among others."""
    others = sorted(((o.name, o.cycles) for o in among), key=lambda o: o[1])
    return Chosen(c.name, c.cycles, c.schedule, tuple(others))
