"""C for all sizes against C for given sizes: functions of other benchmarks, on one thread and on two.

Products, convolutions with their gradients and whole programs with theirs are compiled twice, for the sizes of a call
and with all of them open, and called on the same arrays in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64
from numpy.typing import NDArray

import pullback as pb
from benchmarks import kernels, programs
from benchmarks.harness import Contender, Note, Repeated, Row, measure
from benchmarks.kernels import LAYERS, Layer
from benchmarks.systems import programs_pullback
from pullback import Array
from pullback.ir.dims import solve_dims
from pullback.runtime.executor import compile_general, compile_program

__all__ = ["CASES", "HEAD", "SizesCase", "bench_sizes", "cells"]

Arrays = tuple[NDArray[Any], ...]
HEAD = ("case", "given µs", "all sizes µs", "ratio", "given, threads µs", "all sizes, threads µs", "ratio")
SHORT = 2e-4  # seconds of one measurement
FORMS = ("given", "all sizes")


@dataclass(frozen=True)
class SizesCase:
    """One line of the table: a function whose dims are symbols, and what it is called with."""

    name: str
    function: Callable[[], Any]
    arguments: Callable[[], Arrays]


@pb.function
def _product(x: Float32[Array, "N K"], y: Float32[Array, "K M"]) -> Any:
    return x @ y


@pb.function
def _long_product(x: Float64[Array, "N K"], y: Float64[Array, "K M"]) -> Any:
    return x @ y


def _of_type(dtype: str) -> Any:
    return _product if dtype == "float32" else _long_product


@pb.function
def _turned_product(x: Float32[Array, "N K"], y: Float32[Array, "M K"]) -> Any:
    return x @ y.T


@pb.function
def _softmax_rows(x: Float32[Array, "N M"]) -> Any:
    return pb.softmax(x, axis=1)


@pb.function
def _log_sum_exp_rows(x: Float32[Array, "N M"]) -> Any:
    return pb.logsumexp(x, axis=1)


def _convolution(border: int) -> Any:
    """Images by weights with a border of zeros and steps of one."""

    @pb.function
    def forward(x: Float32[Array, "B C H W"], k: Float32[Array, "O C P Q"]) -> Any:
        (batch, channels, height, width), (outputs, _, down, across) = x.shape, k.shape

        def pixel(b: Any, o: Any, i: Any, j: Any) -> Any:
            def term(c: Any, p: Any, q: Any) -> Any:
                u, v = i + p - border, j + q - border
                return (x.at(b, c, u, v, fill=0) if border else x[b, c, u, v]) * k[o, c, p, q]

            return pb.sum_over((channels, down, across), term)

        return pb.build((batch, outputs, height + 2 * border - down + 1, width + 2 * border - across + 1), pixel)

    return forward


def _layer(kind: str, layer: Layer) -> Any:
    forward = _convolution(layer.padding)
    return forward if kind == "forward" else pb.vjp(forward, wrt=0 if kind == "data" else 1)


def _layer_arrays(kind: str, layer: Layer) -> Arrays:
    rng = np.random.default_rng(0)
    shapes = (layer.image, layer.kernel) if kind == "forward" else (layer.image, layer.kernel, layer.result)
    return tuple(rng.normal(size=s).astype(np.float32) for s in shapes)


def _rows(name: str, function: Any, *shape: int) -> SizesCase:
    return SizesCase(name, lambda: function, lambda: (np.random.default_rng(0).normal(size=shape).astype(np.float32),))


def _cases() -> Iterator[SizesCase]:
    products = {c.name: c for c in kernels.CASES if c.kind == "product" and not c.name.startswith("product-2048")}
    for name, product in products.items():
        yield SizesCase(name, partial(_of_type, product.dtype), product.make)
    yield SizesCase("turned-512", lambda: _turned_product, products["product-512-f32"].make)
    for name, layer in LAYERS.items():
        if layer.stride == 1 and name != "vgg3":
            for kind in ("forward", *(("data",) if layer.channels > 3 else ()), "weights"):
                yield SizesCase(f"{name}-{kind}", partial(_layer, kind, layer), partial(_layer_arrays, kind, layer))
    yield _rows("softmax-rows", _softmax_rows, 1000, 1000)
    yield _rows("softmax-ten", _softmax_rows, 10000, 10)
    yield _rows("log-sum-exp-rows", _log_sum_exp_rows, 1000, 1000)
    known = {c.name: c for c in programs.CASES}
    for name in ("softmax-regression", "nnmf-20", "mlp", "log-sum-exp", "mixture", "lstm", "max-pool"):
        case = known[name]
        yield SizesCase(name, partial(programs_pullback.FUNCTIONS[name], case), case.make)


CASES = tuple(_cases())


class _Calls(Repeated):
    """Calls of one executable, results written into the same arrays each time."""

    long_enough = SHORT


def bench_sizes(
    *,
    cases: Sequence[str] = tuple(c.name for c in CASES),
    threads: int = 2,
    rounds: int = 50,
    budget: float = 3.0,
    note: Note = lambda text: None,
) -> list[Row]:
    """Measure C for given sizes and for all sizes, on one thread and on `threads`, in at least 50 rounds.

    Args:
        cases: names of CASES.
        threads: how many, at least two.
        rounds: repetitions of each.
        budget: seconds for a case after which no further round starts.
        note: called with lines about progress.
    Returns:
        Four rows per case, by form and threads; times are of one call.
    """
    rows: list[Row] = []
    for case in CASES:
        if case.name in cases:
            contenders = [
                Contender(case.name, "pullback", form, "", count, partial(_prepare, case, form, count))
                for count in (1, max(2, threads))
                for form in FORMS
            ]
            rows += measure(contenders, rounds=max(50, rounds), budget=budget, tolerance=2e-3, note=note)
    return rows


def _prepare(case: SizesCase, form: str, threads: int) -> _Calls:
    function, arrays = case.function(), case.arguments()
    program = function.program(*arrays)
    dims = solve_dims(program, [a.shape for a in arrays], {})
    given = form == FORMS[0]
    made = compile_program(program, dims, threads) if given else compile_general(program).at(dims, threads)
    outputs = made.empty_outputs()
    return _Calls(lambda: tuple(made.run(arrays, outputs)))


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Table rows, one per case: minimal times, and open-size code relative to fixed-size code."""
    by_case: dict[str, dict[tuple[int, str], float]] = {}
    for row in rows:
        by_case.setdefault(row["case"], {})[min(row["threads"], 2), row["form"]] = row["minimum"]
    out = []
    for case, times in by_case.items():
        shown = [case]
        for count in (1, 2):
            given, every = (times.get((count, form)) for form in FORMS)
            shown += ["—" if t is None else f"{1e6 * t:.1f}" for t in (given, every)]
            shown.append("—" if given is None or every is None else f"{every / given:.2f}")
        out.append(tuple(shown))
    return out
