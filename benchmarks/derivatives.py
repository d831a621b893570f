"""Derivatives of paper 003's evaluation against peers: micro-benchmarks and three applications.

One `DerivativeCase` is one row of the table for each of its sizes: what goes in, and the shapes of what comes out. What
each system does for it is in `bench.systems.derivatives_<system>`, by the name of the case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Contender, Note, Repeated, Row, Runner
from benchmarks.suite import lines, measure_groups, microseconds, shown

__all__ = ["CASES", "SYSTEMS", "DerivativeCase", "bench_derivatives", "cells"]

Arrays = tuple[NDArray[Any], ...]
SYSTEMS = ("c", "pullback", "jax", "torch", "casadi", "pytensor", "tapenade")
TOLERANCE = 1e-9


@dataclass(frozen=True)
class DerivativeCase:
    """One row of the table for each size.

    Attributes:
        name: as on the command line.   title: what is computed, for the table.
        sizes: the sizes n it is measured at.
        inputs: gives the inputs for n.   outputs: gives the shapes of the results for n.
    """

    name: str
    title: str
    sizes: tuple[int, ...]
    inputs: Callable[[int, np.random.Generator], Arrays]
    outputs: Callable[[int], tuple[tuple[int, ...], ...]]

    def make(self, n: int) -> Arrays:
        """The inputs for size n, the same in every process."""
        return self.inputs(n, np.random.default_rng(n))


def _factors(k: int) -> Callable[[int, np.random.Generator], Arrays]:
    def inputs(n: int, random: np.random.Generator) -> Arrays:
        shapes = ((n, n), (n,), (n,)) if k == 1 else ((n, n), (n, k), (k, n))
        return tuple(0.5 + random.random(s) for s in shapes)

    return inputs


def _camera(random: np.random.Generator) -> NDArray[Any]:
    """Rotation, center, focal length, principal point, distortion."""
    return np.concatenate([[0.3, -0.2, 0.5], random.normal(size=3), [2.0, 0.1, -0.1, 0.05, 0.01]])


def _scene(n: int, random: np.random.Generator) -> Arrays:
    return _camera(random), random.normal(size=(n, 3)) + [0.0, 0.0, 8.0]


COMPONENTS = {2: 5, 10: 10, 20: 25}
"""Components of a mixture by the dimensions of its points, as in ADBench; there are a thousand points."""


def _mixture_shapes(n: int) -> tuple[tuple[int, ...], ...]:
    """Logarithms of weights, means, logarithms of diagonals, elements below the diagonals."""
    k = COMPONENTS[n]
    return (k,), (k, n), (k, n), (k, n * (n - 1) // 2)


def _mixture(n: int, random: np.random.Generator) -> Arrays:
    return *(random.normal(size=s) for s in _mixture_shapes(n)), random.normal(size=(1000, n))


SMALL = (10**3, 10**4, 10**6)
CASES = (
    DerivativeCase(
        "dot", "gradient of v · w", SMALL, lambda n, r: (r.normal(size=n), r.normal(size=n)), lambda n: ((n,), (n,)),
    ),
    DerivativeCase("max", "gradient of max v", SMALL, lambda n, r: (r.normal(size=n),), lambda n: ((n,),)),
    DerivativeCase(
        "plus", "Jacobian of v + w", (100, 1000, 3000), lambda n, r: (r.normal(size=n), r.normal(size=n)),
        lambda n: ((n, n),),
    ),
    DerivativeCase(
        "scale", "Jacobian of s v by s", SMALL, lambda n, r: (np.array(1.5), r.normal(size=n)), lambda n: ((n,),),
    ),
    DerivativeCase("lse", "gradient of log-sum-exp", SMALL, lambda n, r: (3 * r.normal(size=n),), lambda n: ((n,),)),
    DerivativeCase("nnmf", "factorization, rank 1", (30, 100, 1000, 2000), _factors(1), lambda n: ((n,), (n,))),
    DerivativeCase("nnmf-10", "factorization, rank 10", (1000,), _factors(10), lambda n: ((n, 10), (10, n))),
    DerivativeCase("nnmf-50", "factorization, rank 50", (1000,), _factors(50), lambda n: ((n, 50), (50, n))),
    DerivativeCase("gmm", "Gaussian mixture, gradient", tuple(COMPONENTS), _mixture, _mixture_shapes),
    DerivativeCase(
        "project", "projection, dense Jacobian", (100, 1000), _scene,
        lambda n: ((n, 2, 11), (n, 2, n, 3)),
    ),
    DerivativeCase("blocks", "projection, blocks per point", (10**3, 10**5), _scene, lambda n: ((n, 2, 11), (n, 2, 3))),
)  # fmt: skip


def bench_derivatives(
    *,
    cases: Sequence[str] = tuple(c.name for c in CASES),
    sizes: Sequence[int] | None = None,
    systems: Sequence[str] = SYSTEMS,
    threads: int = 1,
    rounds: int = 20,
    budget: float = 20.0,
    tapenade: Path | None = None,
    note: Note = lambda text: None,
) -> list[Row]:
    """Measure derivatives, each call with its overhead, results written into arrays that are used again.

    Args:
        cases: names of CASES.
        sizes: only these, where a case has them; all by default.
        systems: any of SYSTEMS; those that are not installed are left out with a note.
        threads: processors for everyone.
        rounds: repetitions of each; short calls are made many times in one.
        budget: seconds for a row after which no further round starts.
        tapenade: a folder of C that Tapenade generated, such as a copy of ADBench; that system is left out without it.
        note: called with lines about progress.
    Returns:
        One row per case and size, system and form; times are of one call.
    """
    more = {"tapenade": {"folder": tapenade}}
    groups = ((list(_contenders(case, n, systems, threads, more)), None) for case in CASES if case.name in cases
              for n in case.sizes if sizes is None or n in sizes)
    return measure_groups(groups, threads=threads, rounds=rounds, budget=budget, tolerance=TOLERANCE, note=note)


def _contenders(
    case: DerivativeCase, n: int, systems: Sequence[str], threads: int, more: Mapping[str, Mapping[str, Any]]
) -> Iterator[Contender]:
    """The forms of each system; `more` has further arguments of some."""
    for system in SYSTEMS:
        if system in systems:
            module = import_module(f"benchmarks.systems.derivatives_{system}")
            for form in module.FORMS.get(case.name, ()):
                prepare = partial(_prepare, module, case, n, form, more.get(system, {}))
                yield Contender(f"{case.name}-{n}", system, form, "float64", threads, prepare)


def _prepare(module: Any, case: DerivativeCase, n: int, form: str, more: Mapping[str, Any]) -> Runner:
    return Repeated(module.prepare(case, n, form, **more))



HEAD = ("case", *(f"{s} µs" for s in SYSTEMS), "ours / c", "peer / ours")


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The table's lines as text: microseconds of each system, ours by C, the best peer by ours."""
    return [(line.case, *(microseconds(line.times[s]) for s in SYSTEMS), shown(line.ratio("pullback", "c")),
             shown(line.ratio(line.best_peer, "pullback")))
            for line in lines(rows, SYSTEMS)]
