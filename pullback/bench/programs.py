"""Whole programs with their gradients against the peers, and against what the processor and its memory allow.

One `Case` is one row of the table: what goes in. What each system does for it is in `bench.systems.programs_<system>`,
by the name of the case; everywhere it is the value of the loss with its gradient by the parameters (of max pooling the
result with the gradient of its input). All in float32. The roofline of a case is the time that its operations take at
the measured speed of fused multiply-adds, or its compulsory traffic, inputs and results once, at that of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.bench.harness import Contender, Note, Repeated, Row, Runner
from pullback.bench.suite import lines, measure_groups, microseconds, row_of_limit, shown
from pullback.files import put_file

__all__ = ["CASES", "SYSTEMS", "Case", "bench_programs", "cells", "plot"]

Arrays = tuple[NDArray[Any], ...]
SYSTEMS = ("c", "pullback", "jax", "torch")
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        name: as on the command line.   title: what is computed, for the table.
        inputs: gives the inputs; those differentiated by come first.
        parameters: how many of the inputs these are.
    """

    name: str
    title: str
    inputs: Callable[[np.random.Generator], Arrays]
    parameters: int

    def make(self) -> Arrays:
        """The inputs, the same in every process."""
        made = self.inputs(np.random.default_rng(len(self.name)))
        return tuple(a if a.dtype.kind in "iu" else a.astype(np.float32) for a in made)


def _weights(random: np.random.Generator, *shape: int) -> NDArray[Any]:
    made: NDArray[Any] = random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
    return made


def _labels(random: np.random.Generator, count: int) -> NDArray[Any]:
    return random.integers(0, 10, count).astype(np.uint8)


def _regression(random: np.random.Generator) -> Arrays:
    return _weights(random, 10, 784), np.zeros(10), random.random((500, 784)), _labels(random, 500)


def _factorisation(random: np.random.Generator) -> Arrays:
    return 0.5 + random.random((1000, 20)), 0.5 + random.random((20, 1000)), 0.5 + random.random((1000, 1000))


def _perceptron(random: np.random.Generator) -> Arrays:
    sizes = (784, 512, 512, 10)
    layers = [a for n, m in pairwise(sizes) for a in (_weights(random, m, n), np.zeros(m))]
    return *layers, random.random((128, 784)), _labels(random, 128)


def _mixture(random: np.random.Generator) -> Arrays:
    n, d, k = 1000, 10, 25
    return (
        random.normal(size=k), random.normal(size=(k, d)), 0.3 * random.normal(size=(k, d)),
        random.normal(size=(n, d)),
    )  # fmt: skip


def _recurrent(random: np.random.Generator) -> Arrays:
    steps, batch, inputs, hidden = 20, 16, 64, 128
    return (
        _weights(random, 4, hidden, inputs), _weights(random, 4, hidden, hidden), np.zeros((4, hidden)),
        random.normal(size=(steps, batch, inputs)),
    )  # fmt: skip


def _pooling(random: np.random.Generator) -> Arrays:
    return random.normal(size=(64, 20, 24, 24)), random.normal(size=(64, 20, 12, 12))


def _lenet(batch: int) -> Callable[[np.random.Generator], Arrays]:
    def inputs(random: np.random.Generator) -> Arrays:
        shapes = ((20, 5, 5), (50, 20, 5, 5), (500, 50, 4, 4), (10, 500))
        layers = [a for s in shapes for a in (_weights(random, *s), np.zeros(s[0]))]
        return *layers, random.random((batch, 28, 28)), _labels(random, batch)

    return inputs


CASES = (
    Case("softmax-regression", "softmax regression, 784 to 10, 500 images", _regression, 2),
    Case("nnmf-20", "factorisation of 1000 × 1000, rank 20", _factorisation, 2),
    Case("mlp", "perceptron 784-512-512-10, batch 128", _perceptron, 6),
    Case("log-sum-exp", "log-sum-exp of a million", lambda r: (3 * r.normal(size=10**6),), 1),
    Case("mixture", "Gaussian mixture, n 1000, d 10, k 25", _mixture, 3),
    Case("lstm", "LSTM over 20 steps, 64 to 128, batch 16", _recurrent, 3),
    Case("max-pool", "2 × 2 max pooling of 64 × 20 × 24 × 24", _pooling, 1),
    Case("lenet-64", "LeNet, batch 64", _lenet(64), 8),
    Case("lenet-500", "LeNet, batch 500", _lenet(500), 8),
)


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


def _contenders(case: Case, systems: Sequence[str], threads: int, slow_forms: bool) -> Iterator[Contender]:
    for system in sorted(SYSTEMS, key=lambda s: s == "c"):  # the first says what is right: not the C
        if system in systems:
            module = import_module(f"pullback.bench.systems.programs_{system}")
            forms: tuple[str, ...] = module.FORMS.get(case.name, ())
            for form in forms + (module.SLOW_FORMS if slow_forms and hasattr(module, "SLOW_FORMS") else ()):
                yield Contender(case.name, system, form, "float32", threads, partial(_prepare, module, case, form))


def _prepare(module: Any, case: Case, form: str) -> Runner:
    return Repeated(module.prepare(case, form))


def _roofline_row(case: Case, threads: int) -> Row:
    from pullback.bench.limits import bandwidth, peak
    from pullback.bench.systems.programs_pullback import operations

    inputs = case.make()
    moved = sum(a.nbytes for a in inputs) + sum(a.nbytes for a in inputs[: case.parameters])
    seconds = max(operations(case) / (threads * peak("float32")), moved / bandwidth(moved))
    return row_of_limit(case.name, "roofline", "operations or traffic", "float32", threads, seconds)



HEAD = ("case", *(f"{s} µs" for s in SYSTEMS), "of roofline", "ours / c", "peer / ours")


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The table's lines as text: microseconds of each system, the share of the roofline, ours by C, the best peer's."""
    out = []
    for line in lines(rows, SYSTEMS):
        share = line.ratio("roofline", "pullback")
        ratios = line.ratio("pullback", "c"), line.ratio(line.best_peer, "pullback")
        out.append((line.case, *(microseconds(line.times[s]) for s in SYSTEMS),
                    shown(share and 100 * share, ".0f", " %"), *map(shown, ratios)))
    return out



def plot(rows: Sequence[Row], path: Path) -> None:
    """Write the times of the peers by ours as bars, one group a case, to a file matplotlib knows the type of.

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
