"""Zhang's network against its peers: starting, training 1,000 images one by one, recognizing 10,000."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module

from benchmarks.environment import limit_threads
from benchmarks.harness import Contender, Note, Row, Runner, measure
from benchmarks.inputs import zhang_inputs
from benchmarks.start import MODULES, prepare_start

__all__ = ["CASES", "bench_zhang", "cells"]

TRAINING = 1000
RECOGNITION = 10000
CASES = ("start", f"train-{TRAINING}", f"recognize-{RECOGNITION}")
SYSTEMS = ("c", "pullback", "jax", "torch")
HEAD = ("case", "dtype", "system", "form", "median ms", "min", "max", "first call")
NAMES = 4  # columns of the table that hold names


def bench_zhang(
    *,
    cases: Sequence[str] = CASES,
    dtypes: Sequence[str] = ("float32", "float64"),
    systems: Sequence[str] = SYSTEMS,
    threads: int = 1,
    rounds: int = 7,
    slow_forms: bool = False,
    note: Note = lambda text: None,
) -> list[Row]:
    """Measure Zhang's network.

    Args:
        cases: any of CASES.
        dtypes: float32, float64.
        systems: which to run; those that are not installed are left out with a note.
        threads: processors for everyone.
        rounds: repetitions of each.
        slow_forms: also those whose first call takes very long, such as `torch.compile`.
        note: called with lines about progress.
    Returns:
        One row per case, element type, system and form.
    """
    limit_threads(threads)
    rows: list[Row] = []
    for case in cases:
        for dtype in dtypes:
            contenders = list(_contenders(case, dtype, systems, threads, slow_forms))
            rows += measure(contenders, rounds=rounds, tolerance=1e-3, note=note)
    return rows


def _contenders(case: str, dtype: str, systems: Sequence[str], threads: int, slow_forms: bool) -> Iterator[Contender]:
    for system in SYSTEMS:
        if system not in systems:
            continue
        for form in _forms(system, case, slow_forms):
            yield Contender(case, system, form, dtype, threads, partial(_prepare, case, system, form, dtype))


def _forms(system: str, case: str, slow_forms: bool) -> tuple[str, ...]:
    module = import_module(MODULES[system])
    forms: tuple[str, ...] = module.FORMS
    if case.startswith("recognize"):
        forms = getattr(module, "RECOGNITION_FORMS", forms)
    if slow_forms:
        forms += getattr(module, "SLOW_FORMS", ())
    return forms


def _prepare(case: str, system: str, form: str, dtype: str) -> Runner:
    if case == "start":
        return prepare_start(system, form, dtype)
    module = import_module(MODULES[system])
    runner: Runner
    if case.startswith("train"):
        runner = module.train(zhang_inputs(TRAINING, dtype), form)
    else:
        runner = module.recognize(zhang_inputs(RECOGNITION, dtype), form)
    return runner


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The table's lines as text, in milliseconds."""
    return [(row["case"], row["dtype"], row["system"], row["form"],
             *(f"{1e3 * t:.2f}" for t in (row["median"], row["minimum"], row["maximum"], row["first_call"])))
            for row in rows]
