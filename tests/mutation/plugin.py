"""A pytest plugin that runs the collected tests against mutants, each in a process forked after collection.

First every test is run once, in a process of its own, to record its time and the lines that it runs; a mutant then
meets only tests that run what it changes, those first that killed others in its file, then the quick ones of its file.
Code that no test runs may have run at import: a new process imports it anew, and runs all tests.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.mutation.install import distinguish, install, settle
from tests.mutation.mutants import ROOT, Mutant
from tests.mutation.planted import killer

Lines = dict[str, set[int]]
MEMORY = 12 << 30
TIMES_LONGER = 3
SPARE_SECONDS = 20
SLOWEST = 100
WALL = 10
"""How many times the limit of processor time may pass on the wall."""
PREFIX = f"{ROOT}/pullback/"
ENOUGH = 200
"""Calls of a function in a row that run no new line of it, after which a test's lines of it are known."""


@dataclass
class Run:
    """What one test does: its time on the processor, and the lines it runs of each file."""

    seconds: float
    passed: bool
    lines: Lines


@dataclass
class Outcome:
    """What became of a mutant: the test that failed first, or why there is none."""

    mutant: Mutant
    killer: str | None
    tests: int
    seconds: float
    detail: str = ""


@dataclass(eq=False)
class Mutation:
    """The plugin.

    Attributes:
        mutants: what to try.   jobs: how many at a time.   patience: seconds of tests for each at most.
        record: where the tests' lines are kept.   reuse: whether those kept there are taken though files changed.
        report: is told each outcome.   anew: what pytest is given for the same tests in a new process.
    """

    mutants: Sequence[Mutant]
    record: Path
    reuse: bool
    jobs: int
    patience: float
    report: Callable[[Outcome], None]
    outcomes: list[Outcome] = field(default_factory=list)
    anew: Sequence[str] = ()
    failed: bool = False
    message: str = ""

    def pytest_configure(self, config: pytest.Config) -> None:
        """Fix the examples of random tests, so that all processes draw the same."""
        settle()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a failure."""
        if report.failed:
            self.failed = True
            self.message = report.longreprtext.strip().rpartition("\n")[2]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of the ordinary loop."""
        items = {item.nodeid: item for item in session.items}
        runs = self.recorded(items)
        self.anew = [*session.config.invocation_params.args, *(f"--deselect={t}" for t in items if t not in runs)]
        gc.collect()
        gc.freeze()
        kills: dict[str, Counter[str]] = defaultdict(Counter)

        def works() -> Iterator[Work]:
            for mutant in self.mutants:
                tests = within(self.patience, ordered(mutant, runs, kills[mutant.file]), runs)
                met = tests or list(runs)
                limit = TIMES_LONGER * sum(runs[t].seconds for t in met) + SPARE_SECONDS
                todo = partial(self.face, mutant, [items[t] for t in tests])
                yield Work(todo, limit, partial(faced, mutant, len(met)))

        def faced(mutant: Mutant, tests: int, answer: Any, seconds: float) -> None:
            killer, detail = answer if answer is not None else ("time or memory", "")
            kills[mutant.file][killer] += killer in runs
            outcome = Outcome(mutant, killer, tests, seconds, detail)
            self.outcomes.append(outcome)
            self.report(outcome)

        run_all(works(), self.jobs)
        return True

    def face(self, mutant: Mutant, tests: Sequence[pytest.Item]) -> tuple[str | None, str]:
        """The first of the tests that fails once the mutant is in place."""
        if not tests:
            return killer(mutant, self.anew), "in a new process, as no test runs it after import"
        distinguish(mutant)
        if not install(mutant):
            return None, "no function has this code"
        for item in tests:
            if not self.passes(item):
                return item.nodeid, self.message
        return None, ""

    def passes(self, item: pytest.Item) -> bool:
        """Whether a test passes."""
        self.failed = False
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self.failed

    def recorded(self, items: dict[str, pytest.Item]) -> dict[str, Run]:
        """What each test runs; from the record where that is still true of every file."""
        files = [p for folder in ("pullback", "tests") for p in (ROOT / folder).rglob("*.py")]
        stamp = tuple(sorted((str(p), p.stat().st_mtime_ns) for p in files))
        runs: dict[str, Run] = {}
        if self.record.exists():
            old, known = pickle.loads(self.record.read_bytes())
            if self.reuse or old == stamp:
                runs = {t: r for t, r in known.items() if t in items}
        missing = [t for t in items if t not in runs]

        def traced(test: str, answer: Any, seconds: float) -> None:
            passed, lines = answer if answer is not None else (False, {})
            runs[test] = Run(seconds, passed, lines)
            if len(runs) % 50 == 0 or len(runs) == len(items):
                print(f"{len(runs)} of {len(items)} tests are recorded", file=sys.stderr, flush=True)
                self.record.write_bytes(pickle.dumps((stamp, runs)))

        run_all((Work(partial(self.trace, items[t]), SLOWEST, partial(traced, t)) for t in missing), self.jobs)
        for test in [t for t, r in runs.items() if not r.passed]:
            print(f"not used, as it fails without mutants: {test}", file=sys.stderr)
            del runs[test]
        return runs

    def trace(self, item: pytest.Item) -> tuple[bool, Lines]:
        """Whether a test passes, and the lines that it runs."""
        seen: dict[CodeType, set[int]] = {}
        known: Counter[CodeType] = Counter()

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            code = frame.f_code
            if not code.co_filename.startswith(PREFIX) or known[code] > ENOUGH:
                return None
            lines = seen.setdefault(code, set())
            known[code] += 1

            def local(frame: FrameType, event: str, argument: Any) -> Any:
                if frame.f_lineno not in lines:
                    lines.add(frame.f_lineno)
                    known[code] = 0
                return local

            return local(frame, event, argument)

        sys.settrace(trace)
        passed = self.passes(item)
        sys.settrace(None)
        files: Lines = defaultdict(set)
        for code, lines in seen.items():
            files[code.co_filename.removeprefix(f"{ROOT}/")] |= lines
        return passed, dict(files)


def ordered(mutant: Mutant, runs: dict[str, Run], kills: Counter[str]) -> list[str]:
    """The tests that run a mutant's lines: those that killed before, those of its own file, then the quick ones."""
    package, _, name = mutant.file.removeprefix("pullback/").removesuffix(".py").rpartition("/")
    own = f"tests/unit/{package}/test_{name}.py"
    spans = [range(a, b + 1) for a, b in (mutant.lines, mutant.around)]
    for span in spans:
        found = [t for t, r in runs.items() if not r.lines.get(mutant.file, frozenset()).isdisjoint(span)]
        if found:
            rate = {t: kills[t] / (1 + runs[t].seconds) for t in found}
            return sorted(found, key=lambda t: (-rate[t], not t.startswith(own), runs[t].seconds))
    return []


def within(seconds: float, tests: Sequence[str], runs: dict[str, Run]) -> list[str]:
    """As many of the tests, from the first, as take so long together."""
    ends = accumulate(runs[t].seconds for t in tests)
    return [t for t, end in zip(tests, ends, strict=True) if end <= seconds]


@dataclass(frozen=True)
class Work:
    """What a process is to do, its limit of processor time, and what is told the answer and the time taken."""

    todo: Callable[[], Any]
    seconds: float
    done: Callable[[Any, float], None]


@dataclass(frozen=True)
class Child:
    """A forked process, the file that it writes, and when it is ended."""

    pid: int
    file: int
    deadline: float

    def answer(self) -> Any:
        """What it wrote; None where it ended before."""
        with os.fdopen(self.file, "rb") as data:
            data.seek(0)
            text = data.read()
        return pickle.loads(text) if text else None


def fork(work: Callable[[], Any], seconds: float) -> Child:
    """A process that does some work under limits, silently, and writes what it gives."""
    file = os.memfd_create("answer")
    pid = os.fork()
    if pid:
        return Child(pid, file, time.monotonic() + WALL * seconds)
    code = 1
    try:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for k in range(3):
            os.dup2(null, k)
        limit = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        data = pickle.dumps(work())
        with os.fdopen(file, "wb") as out:
            out.write(data)
        code = 0
    finally:
        os._exit(code)


def run_all(works: Iterator[Work], jobs: int) -> None:
    """Do works, each in a process of its own, some at a time."""
    running: dict[int, tuple[Child, Work]] = {}
    while True:
        while len(running) < jobs and (work := next(works, None)) is not None:
            child = fork(work.todo, work.seconds)
            running[child.pid] = child, work
        if not running:
            return
        pid, usage = wait([child for child, _ in running.values()])
        child, work = running.pop(pid)
        work.done(child.answer(), usage.ru_utime + usage.ru_stime)


def wait(children: Sequence[Child]) -> tuple[int, resource.struct_rusage]:
    """The next of some processes that ends; those past their deadline are ended."""
    while True:
        for child in children:
            found, _, usage = os.wait4(child.pid, os.WNOHANG)
            if found:
                return child.pid, usage
            if time.monotonic() > child.deadline:
                os.killpg(child.pid, signal.SIGKILL)
        time.sleep(0.01)
