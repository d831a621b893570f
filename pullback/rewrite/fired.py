"""Records of fired rules and steps for `explain`, free of cost when nothing records.

A pass calls `fired("solve.unit")` when it applies a rule, and `step(lambda: Solved(...))` when a formula has changed.
`rewrite.rules` explains the names. A step takes the rules that fired since the step before. The lambda runs only while
steps are recorded, so a pass does the same work with and without a recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pullback.ir import nodes as ir
from pullback.records import dataclass, field
from pullback.rewrite.steps import Formula, Rewritten
from pullback.state import context_variable


@dataclass(frozen=True)
class Step:
    """One step of a derivation: the formula that was reached, and the rules that led to it, in order."""

    rules: tuple[str, ...]
    formula: Formula


@dataclass
class Steps:
    """The steps so far, and the rules that fired since the last of them."""

    steps: list[Step] = field(default_factory=list)
    pending: dict[str, None] = field(default_factory=dict)


_RECORD: ContextVar[dict[str, int] | None] = context_variable("fired_rules", None)
_STEPS: ContextVar[Steps | None] = context_variable("steps", None)


@contextmanager
def record_rules() -> Iterator[dict[str, int]]:
    """Collect rule names with how often each fired, while the block runs."""
    record: dict[str, int] = {}
    token = _RECORD.set(record)
    try:
        yield record
    finally:
        _RECORD.reset(token)


@contextmanager
def record_steps() -> Iterator[list[Step]]:
    """Collect the steps that passes make, while the block runs."""
    record = Steps()
    token = _STEPS.set(record)
    try:
        yield record.steps
    finally:
        _STEPS.reset(token)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Record no steps of passes in the block: their rules belong to a step of the caller."""
    outer = _STEPS.get()
    token = _STEPS.set(outer and Steps(pending=outer.pending))
    try:
        yield
    finally:
        _STEPS.reset(token)


def in_steps(program: ir.Program, *passes: Callable[[ir.Program], ir.Program]) -> ir.Program:
    """Apply passes in order, each as a separate step."""
    for run in passes:
        before = program
        with unrecorded():
            program = run(before)
        name = getattr(run, "func", run).__name__
        step(lambda name=name, before=before, after=program: Rewritten(name, before, after))  # type: ignore[misc]
    return program


def recording() -> bool:
    """Whether rules or steps are being recorded, so that caches must be bypassed."""
    return _RECORD.get() is not None or _STEPS.get() is not None


def fired(rule: str) -> None:
    """Note that the named rule was applied."""
    record = _RECORD.get()
    if record is not None:
        record[rule] = record.get(rule, 0) + 1
    steps = _STEPS.get()
    if steps is not None:
        steps.pending[rule] = None


def step(formula: Callable[[], Formula]) -> None:
    """Record the result of the rules that fired since the last step."""
    record = _STEPS.get()
    if record is not None:
        rules = tuple(record.pending)
        record.pending.clear()
        record.steps.append(Step(rules, formula()))
