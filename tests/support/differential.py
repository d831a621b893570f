"""Random programs of source text, values and derivatives, held to the oracle.

They are run in the interpreter, as they are and as the compiler's passes leave them, and in C. The route "expressions"
runs programs of many small expressions in the interpreter.
"""

from __future__ import annotations

import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from math import isfinite
from multiprocessing import get_context
from typing import Final, Literal

import numpy as np

from tests.support import oracle
from tests.support.agreement import Program, Verdict
from tests.support.oracle.numbers import value_of
from tests.support.oracle.trees import leaves
from tests.support.shrink_source import parameters, shrink_source
from tests.support.sources import Sample, random_expressions, random_source, with_settings
from tests.support.ways import Way, drawn_for_passes, drawn_for_users, interpreted

Route = Literal["interpreter", "c", "passes", "expressions"]
ROUTES: Final[tuple[Route, ...]] = ("interpreter", "c", "passes", "expressions")
BATCH: Final = {"interpreter": 200, "c": 20, "passes": 50, "expressions": 100}
LARGE: Final = {"c": 0.6, "passes": 0.25}  # of programs: what the oracle takes for them is not to be most of it


@dataclass(frozen=True)
class Fault:
    """A program whose results are wrong, made small: its seed, how it was run, what differs."""

    seed: int
    way: Way | None
    sample: Sample
    what: str

    @property
    def key(self) -> str:
        """A key that programs with the same fault are likely to share."""
        source = re.sub(r"\b\d+(\.\d+)?\b", "#", self.sample.source + self.sample.queries[0])
        return re.sub(r"\b[a-z]\d?\b", "v", source) if self.sample.queries else self.what

    def __str__(self) -> str:
        way = f", {self.way}" if self.way is not None else ""
        return f"# seed {self.seed}{way}\n# {self.what}\n{self.sample}"


@dataclass
class Tally:
    """A tally of runs and their outcomes.

    Attributes:
        counts: programs, queries, elements that were compared or left open by rounding, queries that are undecided or
            refused, by the error's code.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count what another did, too."""
        self.counts += other.counts
        self.faults += other.faults

    def __str__(self) -> str:
        return ", ".join(f"{n} {name}" for name, n in sorted(self.counts.items())) + f", {len(self.faults)} faults"


def differential(seeds: Sequence[int], route: Route, note: Callable[[str], None] = lambda text: None,
                 show: Callable[[Fault], None] = lambda fault: None, *, shrink: bool = True,
                 until: float = float("inf"), longest: int | None = None) -> Tally:
    """Run the programs of these seeds.

    Args:
        seeds: what each program is drawn from and, for C, the way it is compiled.
        route: how they are run.
        note: called with a line about progress after every batch.
        show: called with each fault whose like has not been seen.
        shrink: whether programs with a fault are made small.
        until: no batch is begun after this time.
        longest: the most letters of a program.
    """
    tally = Tally()
    seen: set[str] = set()
    begun = time.monotonic()
    for at in range(0, len(seeds), BATCH[route]):
        if time.time() > until:
            break
        for made in _apart(seeds[at : at + BATCH[route]], route, shrink, longest):
            tally.add(made)
            for fault in made.faults:
                if fault.key not in seen:
                    seen.add(fault.key)
                    show(fault)
        rate = tally.counts["programs"] / (time.monotonic() - begun)
        note(f"{route}: {tally}, {rate:.1f} programs a second")
    return tally


def _apart(seeds: Sequence[int], route: Route, shrink: bool, longest: int | None) -> Iterable[Tally]:
    """The batch in a process of its own; where that dies, each program in one of its own."""
    try:
        yield _in_process(seeds, route, shrink, longest)
    except BrokenProcessPool:
        for seed in seeds:
            try:
                yield _in_process([seed], route, shrink, longest)
            except BrokenProcessPool:
                sample, way = _drawn(seed, route, longest)
                yield Tally(Counter(programs=1), [Fault(seed, way, sample, "the process died")])


def _in_process(seeds: Sequence[int], route: Route, shrink: bool, longest: int | None) -> Tally:
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        return pool.submit(run, seeds, route, shrink, longest).result()


def run(seeds: Sequence[int], route: Route, shrink: bool = True, longest: int | None = None) -> Tally:
    """The programs of these seeds, in this process."""
    tally = Tally()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of what the shrinker tries
        for seed in seeds:
            sample, way = _drawn(seed, route, longest)
            _judge(seed, sample, way, tally, shrink)
    return tally


def _drawn(seed: int, route: Route, longest: int | None) -> tuple[Sample, Way | None]:
    """The program of a seed, and how it is run; seeds of the routes have nothing in common."""
    rng = np.random.default_rng([seed, ROUTES.index(route)])
    if route == "interpreter":
        return random_source(rng, longest=longest), None
    if route == "expressions":
        return random_expressions(rng), None
    way = drawn_for_users(rng) if route == "c" else drawn_for_passes(rng)
    large = bool(rng.random() < LARGE[route])
    return with_settings(random_source(rng, large=large, longest=longest), way.settings()), way


def _in_force(way: Way | None) -> AbstractContextManager[None]:
    return interpreted() if way is None else way.in_force()


def _judge(seed: int, sample: Sample, way: Way | None, tally: Tally, shrink: bool) -> None:
    """One program: its queries up to the first fault."""
    tally.counts["programs"] += 1
    program = Program(sample.source, sample.arguments)
    with _in_force(way):
        for query in sample.queries:
            verdict = program.judge(query)
            tally.counts.update(queries=1, compared=verdict.compared, open=verdict.open,
                                undecided=bool(verdict.undecided))  # fmt: skip
            if verdict.refused:
                tally.counts[f"refused {verdict.refused.split(':')[0]}"] += 1
            if verdict.faults:
                found = replace(sample, queries=[query])
                if shrink:
                    found = shrink_source(found, _shows(_kind(verdict)))
                    verdict = _verdict(found)
                tally.faults.append(Fault(seed, way, found, "; ".join(verdict.faults)))
                return


def _verdict(sample: Sample) -> Verdict:
    return Program(sample.source, sample.arguments).judge(sample.queries[0])


def _kind(verdict: Verdict) -> str:
    """The kind of fault, so that shrinking does not switch to another one."""
    if not verdict.faults:
        return ""
    what = verdict.faults[0]
    return "value" if what.startswith("result") and "should be" in what else re.split(r"[\]:,]", what)[0]


def _shows(kind: str) -> Callable[[Sample], bool]:
    """Whether a program shows this fault; reads outside of an array, which give NaN, do not count."""
    return lambda sample: _kind(_verdict(sample)) == kind and (kind == "value" or _is_finite(sample))


def _is_finite(sample: Sample) -> bool:
    """Whether all values of the function are numbers."""
    values = Program(sample.source, sample.arguments).ask(oracle, f"pb.function(f)({', '.join(parameters(sample))})")
    return all(isfinite(value_of(e)) for a in leaves(values) if a.dtype.floating for e in a.data)


__all__ = ["BATCH", "ROUTES", "Fault", "Route", "Tally", "differential", "run"]
