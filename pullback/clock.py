"""Where time goes: stages of work, each counted without the stages inside it.

    with record_time() as stages:           # [Stage("trace f", 0.012), Stage("pass fuse", 0.004), ...]
        ...
            with stage("pass fuse"):
                ...

Outside `record_time` a stage costs a look at one variable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from pullback.records import dataclass, field
from pullback.state import context_variable

__all__ = ["Stage", "note_stage", "record_time", "stage", "unrecorded"]

T = TypeVar("T")


@dataclass
class Stage:
    """Work of one kind and its total seconds; `inside` if they overlap others', as parallel compiles do."""

    name: str
    seconds: float
    inside: bool = False


@dataclass
class _Clock:
    now: Callable[[], float]
    stages: dict[str, Stage] = field(default_factory=dict)
    open: list[float] = field(default_factory=list)  # seconds of the stages inside each stage that is under way

    def add(self, name: str, seconds: float, inside: bool = False) -> None:
        self.stages.setdefault(name, Stage(name, 0.0, inside)).seconds += seconds


_CLOCK: ContextVar[_Clock | None] = context_variable("clock", None)


@contextmanager
def record_time(now: Callable[[], float] | None = None) -> Iterator[dict[str, Stage]]:
    """Record the stages that run inside, by name in the order of their first end.

    Args:
        now: a clock in seconds, `time.perf_counter` by default; `time.process_time` counts this process's own work.
    """
    clock = _Clock(now or time.perf_counter)
    token = _CLOCK.set(clock)
    try:
        yield clock.stages
    finally:
        _CLOCK.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Count the enclosed work under this name if time is recorded."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    clock.open.append(0.0)
    start = clock.now()
    try:
        yield
    finally:
        seconds = clock.now() - start
        clock.add(name, seconds - clock.open.pop())
        if clock.open:
            clock.open[-1] += seconds


def unrecorded(work: Callable[[], T]) -> T:
    """Work beside what is recorded, in another thread; its stages are not part of the record."""
    token = _CLOCK.set(None)
    try:
        return work()
    finally:
        _CLOCK.reset(token)


def note_stage(name: str, seconds: float) -> None:
    """Part of the stage under way, for the record only: several of them may have run at once."""
    clock = _CLOCK.get()
    if clock is not None:
        clock.add(name, seconds, inside=True)
