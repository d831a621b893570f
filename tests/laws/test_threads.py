"""The law of threads: a program gives the same bits whatever the number of threads, and what it gives without them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pullback.ir.dims import evaluate
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.loops.memory.verify import verify_function
from pullback.loops.program.nodes import Parallel, walk
from pullback.loops.threads import splitting
from pullback.machine import native
from pullback.runtime import executor
from pullback.runtime.executor import Executable, GeneralExecutable, _made
from tests.laws.test_c_agrees import bound
from tests.support.programs import random_program

NDArray = np.ndarray[Any, Any]
WORKERS = (1, 2, 3, 5)
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class Backward(ctypes.Structure):
    """A pool that runs the last chunk first, each by another of three workers than the one before."""

    _fields_ = [("workers", ctypes.c_int64), ("run", RUN)]

    def __init__(self) -> None:
        def run(pool: int, task: int, context: int, chunks: int) -> None:
            for chunk in reversed(range(chunks)):
                TASK(task)(context, chunk, chunk % 3)

        super().__init__(3, RUN(run))


@pytest.fixture(autouse=True)
def _everything_is_worth_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    eager = replace(native(), meeting=1, chunk=1, waking=1)
    monkeypatch.setattr(executor, "native", lambda: eager)
    monkeypatch.setattr(splitting, "CHEAP", 0)


def assert_same_bits(
    program: Program, inputs: Sequence[NDArray], sizes: dict[str, int], dims: dict[str, int], every: bool = False
) -> int:
    """Everything that can be is shared out, in C for these dims or for all; gives the number of parallel statements."""
    record, made = _made(program, {} if every else dims)
    verify_function(made.function, made.memory)
    count = sum(isinstance(s, Parallel) for s in walk(made.function.body))
    if not count:
        return 0
    library = record.load()

    def of_workers(workers: int) -> Executable:
        if record.dims:
            return GeneralExecutable(program, record, library, lambda: made).at(dims, workers)
        return Executable(record, record.entry(library), lambda: made, threads=workers)

    first: list[NDArray] = []
    for workers in WORKERS:
        executable = of_workers(workers)
        got, peak, stray = executable.run_poisoned(inputs)
        assert peak <= executable.arena_bytes, "written beyond the planned arena"
        assert not stray
        first = first or got
        for w, g in zip(first, got, strict=True):
            assert w.tobytes() == g.tobytes(), f"{workers} threads"
    backward, executable = Backward(), of_workers(3)
    executable.pool = ctypes.addressof(backward)
    for w, g in zip(first, executable.run_poisoned(inputs)[0], strict=True):
        assert w.tobytes() == g.tobytes(), "the last chunk first"
    for w, g in zip(interpret(program, inputs, sizes), first, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            np.testing.assert_allclose(g, w, rtol=0, atol=bound(made.program, w) if w.dtype.kind == "f" else 0)
    return count


@pytest.mark.parametrize("every", [False, True], ids=["given", "all sizes"])
@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed: int, every: bool) -> None:
    case = random_program(np.random.default_rng(seed))
    assert_same_bits(case.program, case.inputs, case.sizes, case.dims, every)


PROGRAMS = {
    "sum": "f(x: f32[N]) { s = build { sum n < N { x[n] * x[n] } } return s }",
    "two sums of one group": """f(x: f64[N, M]) {
        e = build n < N, m < M { exp(x[n, m]) }
        rows = build n < N { sum m < M { e[n, m] } }
        columns = build m < M { sum n < N { e[n, m] * x[n, m] } }
        return rows, columns }""",
    "largest": "f(x: f32[N, M]) { s = build { max n < N, m < M { x[n, m] } } return s }",
    "position": "f(x: f32[500, N]) { p = build { argmax k < 500, n < N { x[k, n] } } return p }",
    "columns of interleaved results": """f(x: f64[N, 12], g: f64[N, 40]) {
        w = build k < 40, c < 12 { sum n < N { x[n, c] * g[n, k] } }
        return w }""",
    "histogram": """f(x: f32[N], at in [0, 29): i32[N]) {
        h: f32[29] = scatter n < N { [data(at[n], 29)] += x[n] }
        return h }""",
    "integers": "f(x: i32[N, M]) { s = build m < M { sum n < N { x[n, m] * as_i32(m + 1) } } return s }",
    "weights of a convolution": """f(x: f32[N, 14, 14], g: f32[N, 6, 10, 10]) {
        w = build k < 6, u < 5, v < 5 { sum n < N, i < 10, j < 10 { x[n, i + u, j + v] * g[n, k, i, j] } }
        return w }""",
    "product": """f(x: f32[N, 70], y: f32[70, M]) {
        z = build n < N, m < M { exp(sum k < 70 { x[n, k] * y[k, m] }) }
        return z }""",
    "turned product": """f(x: f64[70, N], y: f64[M, 70]) {
        z = build n < N, m < M { 1.0 + sum k < 70 { x[k, n] * y[m, k] } }
        return z }""",
    "convolution": """f(x: f32[2, 3, N + 2, N + 2], k: f32[M, 3, 3, 3]) {
        z = build b < 2, o < M, i < N, j < N { sum c < 3, p < 3, q < 3 { x[b, c, i + p, j + q] * k[o, c, p, q] } }
        return z }""",
    "channels": """f(x: f32[N, 8, 8], k: f32[M, N, 3, 3]) {
        z = build o < M, i < 6, j < 6 { sum c < N, p < 3, q < 3 { x[c, i + p, j + q] * k[o, c, p, q] } }
        return z }""",
    "rows in order": """f(x: f64[N, M]) {
        y = sort n < N, m < M { x[n, m] }
        return y }""",
    "positions in order": """f(x: f32[N, M]) {
        y = order n < N, m < M { x[n, m] }
        return y }""",
    "in a loop": """f(x: f32[N, N]) {
        y = fold t < 3 (a = x) {
            b = build n < N, m < N { sum k < N { a[n, k] * x[k, m] } / 16 }
            yield b }
        return y }""",
}


def some_inputs(program: Program, dims: dict[str, int]) -> list[NDArray]:
    random = np.random.default_rng(0)
    inputs = []
    for ref in program.inputs:
        shape = [evaluate(d, dims) for d in ref.shape]
        made = random.integers(0, 29, shape) if ref.dtype.numpy.kind == "i" else random.normal(size=shape)
        inputs.append(made.astype(ref.dtype.numpy))
    return inputs


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_shared_out(name: str) -> None:
    program = parse_program(PROGRAMS[name])
    dims = {"N": 37, "M": 29} if "M" in PROGRAMS[name] else {"N": 37}
    shared = assert_same_bits(program, some_inputs(program, dims), {}, dims)
    assert shared or (name == "position" and not native().vector_bytes)  # its blocks are those of vectors


@pytest.mark.parametrize("n", [1, 2, 15, 37, 130])
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_sizes(name: str, n: int) -> None:
    program = parse_program(PROGRAMS[name])
    dims = {"N": n, "M": 1 + n * 2 // 3} if "M" in PROGRAMS[name] else {"N": n}
    shared = assert_same_bits(program, some_inputs(program, dims), {}, dims, every=True)
    assert shared or name in ALONE


# Programs that C for all sizes runs on one thread: blocks of extremes are counted by their sizes, the memory in which a
# row is sorted has an open size, and the elements of a histogram are added in order once their ends are known.
ALONE = {"position", "rows in order", "positions in order", "histogram"}
