"""Whole programs with gradients against peers, and against processor and memory limits.

One `ProgramCase` is one row of the table. Each system's version is in `bench.systems.programs_<system>`, by the name
of the case. Everywhere it is the value of the loss with its gradient by the parameters (of max pooling the result
with the gradient of its input). All in float32. The roofline of a case is the time that its operations take at the
measured speed of fused multiply-adds, or its compulsory traffic, inputs and results once, at that of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from benchmarks.harness import Contender, Note, Repeated, Row, Runner
from benchmarks.program_cases import CASES, ProgramCase
from benchmarks.suite import lines, measure_groups, microseconds, row_of_limit, shown
from pullback.files import put_file

__all__ = ["CASES", "SYSTEMS", "ProgramCase", "bench_programs", "cells", "plot"]

SYSTEMS = ("c", "pullback", "jax", "torch")
TOLERANCE = 1e-3


def bench_programs(
    *,
    cases: Sequence[str] = tuple(c.name for c in CASES),
    systems: Sequence[str] = SYSTEMS,
    threads: int = 1,
    rounds: int = 20,
    budget: float = 30.0,
    slow_forms: bool = False,
    note: Note = lambda text: None,
) -> list[Row]:
    """Measure whole programs, each call with its overhead.

    Args:
        cases: names of CASES.
        systems: any of SYSTEMS; those that are not installed are left out with a note.
        threads: processors for everyone.
        rounds: repetitions of each; short calls are made many times in one.
        budget: seconds for a case after which no further round starts.
        slow_forms: also those whose first call takes very long, such as `torch.compile`.
        note: called with lines about progress.
    Returns:
        One row per case, system and form; times are of one call. The rows of the system `roofline` hold the least
        seconds that the case's operations and traffic can take.
    """
    groups = ((list(_contenders(case, systems, threads, slow_forms)), partial(_roofline_row, case, threads))
              for case in CASES if case.name in cases)
    return measure_groups(groups, threads=threads, rounds=rounds, budget=budget, tolerance=TOLERANCE, note=note)


def _contenders(case: ProgramCase, systems: Sequence[str], threads: int, slow_forms: bool) -> Iterator[Contender]:
    for system in sorted(SYSTEMS, key=lambda s: s == "c"):  # the first says what is right: not the C
        if system in systems:
            module = import_module(f"benchmarks.systems.programs_{system}")
            forms: tuple[str, ...] = module.FORMS.get(case.name, ())
            for form in forms + (module.SLOW_FORMS if slow_forms and hasattr(module, "SLOW_FORMS") else ()):
                yield Contender(case.name, system, form, "float32", threads, partial(_prepare, module, case, form))


def _prepare(module: Any, case: ProgramCase, form: str) -> Runner:
    return Repeated(module.prepare(case, form))


def _roofline_row(case: ProgramCase, threads: int) -> Row:
    from benchmarks.systems.programs_pullback import operations
    from pullback.runtime.limits import bandwidth, peak

    inputs = case.make()
    moved = sum(a.nbytes for a in inputs) + sum(a.nbytes for a in inputs[: case.parameters])
    seconds = max(operations(case) / (threads * peak("float32")), moved / bandwidth(moved))
    return row_of_limit(case.name, "roofline", "operations or traffic", "float32", threads, seconds)



HEAD = ("case", *(f"{s} µs" for s in SYSTEMS), "of roofline", "ours / c", "peer / ours")


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Table lines as text: microseconds per system, roofline share, ratios to C and the best peer."""
    out = []
    for line in lines(rows, SYSTEMS):
        share = line.ratio("roofline", "pullback")
        ratios = line.ratio("pullback", "c"), line.ratio(line.best_peer, "pullback")
        out.append((line.case, *(microseconds(line.times[s]) for s in SYSTEMS),
                    shown(share and 100 * share, ".0f", " %"), *map(shown, ratios)))
    return out



def plot(rows: Sequence[Row], path: Path) -> None:
    """Plot the peers' times over ours as bars, grouped by case, to a file of a matplotlib type.

    Raises:
        ImportError: matplotlib is not installed.
    """
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("Agg")
    figure, axes = import_module("matplotlib.pyplot").subplots(figsize=(9, 4), layout="constrained")
    found = lines(rows, SYSTEMS)
    systems = [s for s in (*SYSTEMS, "roofline") if s != "pullback" and any(line.times[s] for line in found)]
    for k, system in enumerate(systems):
        heights = [line.ratio(system, "pullback") or 0.0 for line in found]
        axes.bar([i + 0.8 * k / len(systems) for i in range(len(found))], heights, 0.8 / len(systems), label=system)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("time / Pullback's")
    axes.set_xticks([i + 0.3 for i in range(len(found))], [line.case for line in found], rotation=30, ha="right")
    axes.legend()
    content = BytesIO()
    figure.savefig(content, format=Path(path).suffix.removeprefix(".") or None)
    put_file(Path(path), content.getvalue())
