"""Single kernels against peers and the processor's limits: products, convolutions, functions.

Each case is one call, its result written into an array that is used again. Rates are in GFLOP/s, two operations a
multiply-add, for products and convolutions, in 10⁹ elements a second for functions. `peak` is measured in the same run
by a loop of fused multiply-adds on registers, times the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Contender, Note, Repeated, Row, Runner
from benchmarks.suite import Group, lines, measure_groups, row_of_limit, shown

__all__ = ["CASES", "SYSTEMS", "KernelCase", "Layer", "bench_kernels", "cells"]

Arrays = tuple[NDArray[Any], ...]
SYSTEMS = ("pullback", "jax", "torch")
ELEMENTS = 8192


@dataclass(frozen=True)
class Layer:
    """A convolution: images, channels, rows, columns, output channels, window, stride and padding."""

    batch: int
    channels: int
    rows: int
    columns: int
    outputs: int
    window: int
    stride: int = 1
    padding: int = 0

    @property
    def image(self) -> tuple[int, ...]:
        """Shape of the input."""
        return self.batch, self.channels, self.rows, self.columns

    @property
    def kernel(self) -> tuple[int, ...]:
        """Shape of the weights."""
        return self.outputs, self.channels, self.window, self.window

    @property
    def result(self) -> tuple[int, ...]:
        """Shape of the output."""
        rows, columns = ((n + 2 * self.padding - self.window) // self.stride + 1 for n in (self.rows, self.columns))
        return self.batch, self.outputs, rows, columns


@dataclass(frozen=True)
class KernelCase:
    """One line of the table.

    Attributes:
        name: as on the command line.
        kind: product, forward, data, weights, or the name of a function.
        dtype: float32 or float64.
        shapes: of the inputs.   output: of the result.
        work: operations, or elements of a function.
        layer: of a convolution.
    """

    name: str
    kind: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    work: int
    layer: Layer | None = None

    def make(self) -> Arrays:
        """The inputs, the same in every process."""
        random = np.random.default_rng(0)
        made = tuple(random.normal(size=s).astype(self.dtype) for s in self.shapes)
        return tuple(abs(a) for a in made) if self.kind == "log" else made

    @property
    def is_function(self) -> bool:
        """Whether the rate is in elements."""
        return len(self.shapes) == 1


def _product(m: int, n: int, k: int, dtype: str = "float32") -> KernelCase:
    name = f"product-{m}" if m == n == k else f"product-{m}x{n}x{k}"
    return KernelCase(f"{name}-{dtype[0]}{dtype[-2:]}", "product", dtype, ((m, k), (k, n)), (m, n), 2 * m * n * k)


def _convolutions(name: str, layer: Layer) -> Iterator[KernelCase]:
    image, kernel, result = layer.image, layer.kernel, layer.result
    work = 2 * prod(result) * prod(kernel[1:])
    yield KernelCase(f"{name}-forward", "forward", "float32", (image, kernel), result, work, layer)
    if layer.channels > 3:  # nobody wants the gradient of a photograph
        yield KernelCase(f"{name}-data", "data", "float32", (kernel, result), image, work, layer)
    yield KernelCase(f"{name}-weights", "weights", "float32", (image, result), kernel, work, layer)


LAYERS = {
    "zhang1": Layer(1, 1, 28, 28, 6, 5),
    "zhang2": Layer(1, 6, 12, 12, 12, 5),
    "lenet1": Layer(64, 1, 28, 28, 20, 5),
    "lenet2": Layer(64, 20, 12, 12, 50, 5),
    "alexnet1": Layer(1, 3, 227, 227, 96, 11, 4),
    "alexnet3": Layer(1, 256, 13, 13, 384, 3, 1, 1),
    "vgg1": Layer(1, 3, 224, 224, 64, 3, 1, 1),
    "vgg3": Layer(1, 256, 56, 56, 256, 3, 1, 1),
    "resnet-56": Layer(1, 64, 56, 56, 64, 3, 1, 1),
    "resnet-28-half": Layer(1, 128, 56, 56, 128, 3, 2, 1),
    "resnet-7": Layer(1, 512, 7, 7, 512, 3, 1, 1),
    "resnet-1x1": Layer(1, 256, 56, 56, 64, 1),
}
FUNCTIONS = ("exp", "log", "tanh", "logistic")
CASES = (
    *(_product(n, n, n, dtype) for dtype in ("float32", "float64") for n in (64, 256, 512, 1024, 2048)),
    *(_product(*s) for s in ((64, 3136, 576), (512, 49, 4608), (16, 64, 150), (128, 512, 784), (1, 4096, 9216))),
    *(case for name, layer in LAYERS.items() for case in _convolutions(name, layer)),
    *(KernelCase(f, f, "float32", ((ELEMENTS,),), (ELEMENTS,), ELEMENTS) for f in FUNCTIONS),
)


def bench_kernels(
    *,
    cases: Sequence[str] = tuple(c.name for c in CASES),
    systems: Sequence[str] = SYSTEMS,
    threads: int = 1,
    rounds: int = 20,
    budget: float = 10.0,
    note: Note = lambda text: None,
) -> list[Row]:
    """Measure kernels.

    Args:
        cases: names of CASES.
        systems: any of SYSTEMS; those that are not installed are left out with a note.
        threads: processors for everyone.
        rounds: repetitions of each; short calls are made many times in one.
        budget: seconds for a case after which no further round starts.
        note: called with lines about progress.
    Returns:
        One row per case, system and form; times are of one call. The rows of the system `peak` hold the seconds that
        the case's operations take at the speed of as many processors.
    """
    groups = (_group(case, systems, threads) for case in CASES if case.name in cases)
    return measure_groups(groups, threads=threads, rounds=rounds, budget=budget, tolerance=1e-3, note=note)


def _group(case: KernelCase, systems: Sequence[str], threads: int) -> Group:
    contenders = [Contender(case.name, s, "call", case.dtype, threads, partial(_prepare, case, s))
                  for s in SYSTEMS if s in systems]
    return contenders, None if case.is_function else partial(_peak_row, case, threads)


def _prepare(case: KernelCase, system: str) -> Runner:
    module = import_module(f"benchmarks.systems.kernels_{system}")
    prepare: Callable[[KernelCase], Callable[[], Any]] = module.prepare
    return Repeated(prepare(case))


def _peak_row(case: KernelCase, threads: int) -> Row:
    from pullback.runtime.limits import peak

    seconds = case.work / (threads * peak(case.dtype))
    return row_of_limit(case.name, "peak", "fused multiply-adds", case.dtype, threads, seconds)



HEAD = ("case", *SYSTEMS, "peak", "ours / peak", "ours / best peer")


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The table's lines as text: rates in 10⁹ a second by the smallest times."""
    work = {c.name: c.work for c in CASES}
    out = []
    for line in lines(rows, SYSTEMS):
        rates = (None if (t := line.times[s]) is None else 1e-9 * work[line.case] / t for s in (*SYSTEMS, "peak"))
        share = line.ratio("peak", "pullback")
        out.append((line.case, *(shown(r, ".1f") for r in rates), shown(share and 100 * share, ".0f", " %"),
                    shown(line.ratio(line.best_peer, "pullback"))))
    return out
