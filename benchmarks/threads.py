"""Several threads against one: kernels and whole programs, with equal compiled code in both columns.

A case is any of `bench.kernels` or `bench.programs`, or one of two over a million elements. Results are compared bit by
bit. Times are the smallest of many short measurements, taken in turn, so that other work on the machine
disturbs them little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import pullback as pb
from benchmarks import kernels, programs
from benchmarks.harness import Contender, Note, Repeated, Row, measure
from benchmarks.systems import kernels_pullback, programs_pullback

__all__ = ["CASES", "HEAD", "bench_threads", "cells"]

HEAD = ("case", "one thread µs", "threads µs", "times as fast")
KERNELS = {c.name: c for c in kernels.CASES}
PROGRAMS = {c.name: c for c in programs.CASES}
CASES = (*KERNELS, *PROGRAMS, "exp-million", "log-sum-exp-rows")
SHORT = 2e-4  # seconds of one measurement


@pb.function
def _exp(x: Any) -> Any:
    return pb.exp(x)


@pb.function
def _log_sum_exp_rows(x: Any) -> Any:
    (n, m) = x.shape
    largest = pb.build(n, lambda i: pb.max_over(m, lambda j: x[i, j]))
    total = pb.build(n, lambda i: pb.sum_over(m, lambda j: pb.exp(x[i, j] - largest[i])))
    return pb.build(n, lambda i: largest[i] + pb.log(total[i]))


def _million(name: str) -> Callable[[], Any]:
    """A call on a million numbers that writes its result into the same array each time."""
    x = np.random.default_rng(0).normal(size=(1000, 1000)).astype(np.float32)
    function = _exp if name == "exp-million" else _log_sum_exp_rows
    out = function(x)
    return lambda: function(x, out=out)


class _Threads(Repeated):
    """Calls that may use so many threads."""

    long_enough = SHORT

    def __init__(self, function: Callable[[], Any], count: int) -> None:
        super().__init__(function)
        self.count = count

    def call(self) -> Any:
        with pb.threads(self.count):
            return super().call()


def bench_threads(
    *, cases: Sequence[str] = CASES, threads: int = 2, rounds: int = 50, budget: float = 20.0,
    note: Note = lambda text: None,
) -> list[Row]:
    """Measure calls with one and with `threads` threads, in at least 50 rounds, as times differ little.

    Args:
        cases: names of CASES.
        threads: how many.
        rounds: repetitions of each.
        budget: seconds for a case after which no further round starts.
        note: called with lines about progress.
    Returns:
        Two rows per case; times are of one call.
    """
    rows: list[Row] = []
    for name in CASES:
        if name in cases:
            contenders = list(_contenders(name, max(2, threads)))
            rows += measure(contenders, rounds=max(50, rounds), budget=budget, tolerance=0.0, note=note)
    return rows


def _contenders(name: str, threads: int) -> Iterator[Contender]:
    for count in (1, threads):
        yield Contender(name, "pullback", f"{count} threads", "", count, partial(_prepare, name, count))


def _prepare(name: str, count: int) -> _Threads:
    with pb.threads(count):
        if name in KERNELS:
            return _Threads(kernels_pullback.prepare(KERNELS[name]), count)
        if name not in PROGRAMS:
            return _Threads(_million(name), count)
        return _Threads(programs_pullback.prepare(PROGRAMS[name], "function"), count)


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The rows of the table, one for each case."""
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        by_case.setdefault(row["case"], []).append(row)
    return [
        (case, f"{1e6 * one['minimum']:.1f}", f"{1e6 * more['minimum']:.1f}", f"{one['minimum'] / more['minimum']:.2f}")
        for case, (one, more) in ((c, r) for c, r in by_case.items() if len(r) == 2)
    ]
