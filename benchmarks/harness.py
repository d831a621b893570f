"""Fair timing of contenders.

All contenders for one case are prepared first. Then each makes its first call, which is timed separately, as it may
compile. Then they run in rounds: one repetition of each per round, in a rotating order, so that a change of the
machine's speed meets all alike. What they compute is compared before anything is timed; one that disagrees is not
timed at all.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

__all__ = ["Contender", "Note", "Repeated", "Row", "Runner", "measure", "row_of", "turns"]

Note = Callable[[str], None]


class Runner(Protocol):
    """A contender ready to run."""

    def reset(self) -> None:
        """Go back to the initial state. Not timed."""

    def call(self) -> Any:
        """Do the work; what it computed, an array or a tuple of arrays, for comparison."""


LONG_ENOUGH = 1e-2
"""Seconds of a repetition: a clock resolves it, and most calls find in the caches what they left there themselves.

The first calls find what other contenders left. A call that is made twice costs more than one that is made ten times.
"""


class Repeated:
    """A short call, repeated within each repetition for the clock: `calls` times after the first.

    Args:
        function: does the work once; gives an array or a tuple of arrays.
    """

    long_enough = LONG_ENOUGH

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.calls = 1
        self._resets = 0

    def reset(self) -> None:
        """Nothing is undone; after the first call, which may compile, find how many calls are long enough."""
        self._resets += 1
        while self._resets == 2 and self.calls < 1 << 20 and _timed(self)[1] * self.calls < self.long_enough:
            self.calls *= 2

    def call(self) -> Any:
        """Do the work `calls` times."""
        function = self.function
        for _ in range(self.calls - 1):
            function()
        return function()


class Row(TypedDict):
    """One line of the result; times in seconds."""

    case: str
    system: str
    form: str
    dtype: str
    threads: int
    median: float
    minimum: float
    maximum: float
    first_call: float


@dataclass(frozen=True)
class Contender:
    """One way of doing the work of one case.

    `prepare` may take its time; it raises ImportError when the system is not installed.
    """

    case: str
    system: str
    form: str
    dtype: str
    threads: int
    prepare: Callable[[], Runner]

    @property
    def name(self) -> str:
        """The contender in words, for messages."""
        return f"{self.case} {self.dtype} {self.system} ({self.form})"


def row_of(contender: Contender, times: Sequence[float], first_call: float) -> Row:
    """Summarize the times of one contender."""
    return Row(
        case=contender.case,
        system=contender.system,
        form=contender.form,
        dtype=contender.dtype,
        threads=contender.threads,
        median=statistics.median(times),
        minimum=min(times),
        maximum=max(times),
        first_call=first_call,
    )


def measure(
    contenders: Sequence[Contender],
    *,
    rounds: int = 7,
    budget: float = 60.0,
    tolerance: float = 1e-3,
    note: Note = lambda text: None,
) -> list[Row]:
    """Time contenders for one case against each other.

    Args:
        contenders: all of one case and element type; the first that is available says what is right.
        rounds: repetitions of each, at least one.
        budget: seconds after which no further round starts.
        tolerance: largest difference between results, relative to the largest element.
        note: called with a line of text about progress and about contenders left out.
    Returns:
        One row per contender that could run and agreed, in the order given.
    """
    ready: list[tuple[Contender, Runner, float]] = []
    expected: Any = None
    for contender in contenders:
        note(f"preparing {contender.name}")
        try:
            runner = contender.prepare()
            runner.reset()
            result, first = _timed(runner)
        except ImportError as error:
            note(f"left out: {contender.name}: {error}")
            continue
        except Exception as error:
            note(f"FAILED: {contender.name}: {type(error).__name__}: {error}")
            continue
        if expected is None:
            expected = result
        difference = _difference(result, expected)
        if not difference <= tolerance:
            note(f"WRONG: {contender.name}: differs from the first contender by {difference:.3g}")
            continue
        ready.append((contender, runner, first))
    times = _rounds([runner for _, runner, _ in ready], rounds, budget, note)
    return [row_of(contender, own, first) for (contender, _, first), own in zip(ready, times, strict=True)]


def turns(calls: Sequence[Callable[[], Any]], rounds: int = 5, seconds: float = 0.0) -> list[list[float]]:
    """Time calls in rounds in which each is made once, and compare nothing.

    Args:
        calls: the calls, at least one; each has been made before, where the first is not to count.
        rounds: rounds at least.
        seconds: further rounds start until so many seconds are over.
    Returns:
        For each call its times in seconds.
    """
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while len(times[0]) < rounds or time.perf_counter() < end:
        for call, own in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            own.append(time.perf_counter() - start)
    return times


def _rounds(runners: Sequence[Runner], rounds: int, budget: float, note: Note) -> list[list[float]]:
    """The times of each runner; one more round than asked for is run first and forgotten, to warm up."""
    times: list[list[float]] = [[] for _ in runners]
    order = list(range(len(runners)))
    start = time.perf_counter()
    collecting = gc.isenabled()
    for number in range(rounds + 1):
        if number > 1 and time.perf_counter() - start > budget:
            note(f"stopped after {number - 1} of {rounds} rounds: {budget:.0f} s are over")
            break
        for k in order:
            runners[k].reset()
            gc.disable()
            try:
                _, seconds = _timed(runners[k])
            finally:
                if collecting:
                    gc.enable()
            if number > 0:
                times[k].append(seconds)
        order = order[1:] + order[:1]
    return times


def _timed(runner: Runner) -> tuple[Any, float]:
    """The result of a runner, and the seconds of one call."""
    start = time.perf_counter()
    result = runner.call()
    return result, (time.perf_counter() - start) / getattr(runner, "calls", 1)


def _difference(result: Any, expected: Any) -> float:
    """Largest difference of arrays, or of tuples of them."""
    if isinstance(expected, tuple):
        if len(result) != len(expected):
            return float("inf")
        return max(_difference(a, b) for a, b in zip(result, expected, strict=True))
    return _array_difference(np.asarray(result), np.asarray(expected))


def _array_difference(result: NDArray[Any], expected: NDArray[Any]) -> float:
    """Largest difference relative to the largest element; for integers the share of elements that differ."""
    if result.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind in "iu":
        return float(np.mean(result != expected))
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    return float(np.abs(result.astype(np.float64) - expected.astype(np.float64)).max(initial=0.0)) / scale
