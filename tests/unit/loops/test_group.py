"""Groups of statements as one loop nest: what they compute, against the interpreter, and what becomes of memory."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.loops.memory.verify import verify_function
from pullback.loops.program.nodes import For, kernels_of, walk
from pullback.runtime.compile import build_library
from pullback.runtime.emit import emit_c, lower_program
from pullback.runtime.executor import compile_general, compile_program
from pullback.runtime.load import Library
from tests.strict import WARNINGS

needs_c = pytest.mark.skipif(not any(shutil.which(n) for n in ("cc", "gcc", "clang")), reason="no C compiler")
Array = np.ndarray[Any, Any]


def inputs_of(program: Program, dims: dict[str, int], seed: int = 0) -> list[Array]:
    from pullback.ir.dims import evaluate

    rng = np.random.default_rng(seed)
    shapes = [tuple(evaluate(d, dims) for d in r.shape) for r in program.inputs]
    return [rng.uniform(0.5, 1.5, s).astype(r.dtype.numpy) for r, s in zip(program.inputs, shapes, strict=True)]


def assert_same(program: Program, dims: dict[str, int], seed: int = 0) -> None:
    inputs = inputs_of(program, dims, seed)
    wanted = interpret(program, inputs, {})
    executable = compile_program(program, dims)
    verify_function(executable.lowered.function, executable.lowered.memory)
    got, peak, stray = executable.run_poisoned(inputs)
    assert (peak, stray) == (executable.lowered.memory.peak, 0)
    tolerance = 1e-10 if program.inputs[0].dtype.name == "f64" else 2e-4
    general = compile_general(program).at(dims).run(inputs) if dims else got
    for w, *both in zip(wanted, got, general, strict=True):
        for g in both:
            scale = max(1.0, float(np.abs(w).max(initial=0.0)))
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * scale)


def kernels(program: Program, dims: dict[str, int]) -> int:
    """How many static functions and top-level kernels the C has."""
    from pullback.loops.program import nodes

    body = lower_program(program, dims).function.body
    return sum(isinstance(s, nodes.Call | nodes.Copy) for s in nodes.walk(body))


FACTORS = """
factors(a: f64[M, N], w: f64[M], h: f64[N]) {
  p = build m < M, n < N { 1.0 / (w[m] * h[n]) - a[m, n] / (w[m] * h[n]) / (w[m] * h[n]) }
  x = build m < M { sum n < N { p[m, n] * h[n] } }
  y = build n < N { sum m < M { p[m, n] * w[m] } }
  return x, y }
"""
SOFTMAX = """
softmax(x: f64[N], m: f64[]) {
  e = build n < N { exp(x[n] - m) }
  s = build { 1.0 / sum n < N { e[n] } }
  y = build n < N { s * e[n] }
  z = build { 2.0 - sum n < N { y[n] } }
  return y, z }
"""
POINTS = """
points(p: f64[4], x: f64[N, 3]) {
  d = build n < N, j < 3 { x[n, j] - p[j] }
  q = build n < N { sum j < 3 { d[n, j] * d[n, j] } }
  y = build n < N, i < 2, j < 3 { [i == j] q[n] / p[3] + [i + 1 == j] d[n, 2] * d[n, j] + d[n, i] }
  z = build n < N { q[n] > 0.5 ? d[n, 0] / q[n] : exp(p[3]) * d[n, 1] }
  return y, z }
"""
PLANES = """
planes(a: f32[M, N, K], b: f32[K]) {
  t = build m < M, n < N, k < K { a[m, n, k] * a[m, n, k] + b[k] }
  u = build m < M, n < N, k < K { maximum(t[m, n, k], 1.5) - a[m, n, k] / t[m, n, k] }
  s = build m < M, n < N { sum k < K { u[m, n, k] + t[m, n, k] } }
  c = build k < K { sum m < M, n < N { t[m, n, k] * u[m, n, k] } }
  return u, s, c }
"""


@needs_c
@pytest.mark.parametrize("n", [37, 64, 101])
@pytest.mark.parametrize(("text", "expected"), [(FACTORS, 1), (SOFTMAX, 2), (POINTS, 2), (PLANES, 1)])
def test_groups_agree_with_the_interpreter(text: str, expected: int, n: int) -> None:
    program = parse_program(text)
    dims = {
        s.name: n + k
        for k, s in enumerate(dict.fromkeys(s for r in program.inputs for d in r.shape for s in d.symbols))
    }
    if "K" in dims:
        dims = {"M": 9, "N": n, "K": 21}
    assert_same(program, dims)
    assert kernels(program, dims) == expected


@needs_c
def test_what_only_the_group_reads_has_no_memory() -> None:
    program = parse_program(FACTORS)
    assert lower_program(program, {"M": 100, "N": 50}).memory.bytes < 100 * 8  # a row of reciprocals


@needs_c
@pytest.mark.parametrize("text", [FACTORS, SOFTMAX, POINTS, PLANES])
def test_plain_form(text: str) -> None:
    """What a compiler without vector extensions gets."""
    program = parse_program(text)
    dims = {"M": 10, "N": 43, "K": 20}
    dims = {
        k: v for k, v in dims.items() if any(s.name == k for r in program.inputs for d in r.shape for s in d.symbols)
    }
    source = emit_c(program, dims)
    path = build_library(source.text, ("-DPB_NO_VECTORS", *WARNINGS))
    inputs = inputs_of(program, dims)
    wanted = interpret(program, inputs, {})
    got = [np.empty_like(w) for w in wanted]
    arena = np.zeros(source.arena_bytes + 64, np.uint8)
    start = -arena.ctypes.data % 64
    entry = Library(str(path)).entry(source.name, len(inputs) + len(got) + 1)
    assert entry(*(a.ctypes.data for a in (*inputs, *got)), arena.ctypes.data + start) == 0
    for w, g in zip(wanted, got, strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-4 if w.dtype == np.float32 else 1e-10)


@needs_c
def test_rows_of_different_values_are_different() -> None:
    program = parse_program("""
rows(a: f64[M, N], h: f64[N]) {
  t = build m < M, n < N { a[m, n] / (1.0 + h[n] * h[n]) }
  u = build m < M, n < N { t[m, n] / (2.0 + h[n]) + tanh(h[n]) }
  return t, u }
""")
    assert_same(program, {"M": 5, "N": 40})


def test_an_array_read_elsewhere_than_here_ends_the_group() -> None:
    program = parse_program("""
shifted(x: f64[N]) {
  t = build n < N { x[n] * x[n] }
  y = build n < N { t[n] + t[N - 1 - n] }
  z = build { sum n < N { t[n] * y[n] } }
  return y, z }
""")
    assert_same(program, {"N": 40})
    assert kernels(program, {"N": 40}) == 2


@needs_c
def test_in_a_loop_around() -> None:
    program = parse_program("""
around(x: f64[T, N], zero: f64[]) {
  s = fold t < T (a = zero) {
    e = build n < N { exp(x[t, n]) / (1.0 + x[t, 0]) }
    q = build { a + sum n < N { e[n] * x[t, n] } }
    r = build { q + sum n < N { e[n] * e[n] } }
    yield r }
  return s }
""")
    assert_same(program, {"T": 3, "N": 70})


def random_text(rng: np.random.Generator) -> str:
    """A chain of statements over one space: maps, with a short axis or without, and sums over parts of the space."""
    dtype = rng.choice(["f32", "f64"])
    flat, deep, short = ["a"], [], []
    lines = []

    def element(short_index: str | None) -> str:
        options = [f"{r}[m, n]" for r in flat] + ["w[m]", "h[n]", "b[n, m]", "w[m] * h[n]"]
        options += [f"{r}[m, n, {short_index or rng.integers(3)}]" for r in short]
        options += [f"x[n, {short_index or rng.integers(3)}]"]
        return str(rng.choice(options))

    def term(short_index: str | None, depth: int) -> str:
        if depth == 0:
            return element(short_index)
        a, b = term(short_index, depth - 1), term(short_index, depth - 1)
        forms = [
            f"({a} + {b})", f"({a} - {b})", f"{a} * ({b})", f"({a}) / (2.0 + ({b}) * ({b}))", f"maximum({a}, {b})",
            f"tanh({a})", f"(({a}) > ({b}) ? {a} : {b})", f"exp(-(({a}) * ({a})))",
        ]  # fmt: skip
        if short_index:
            forms += [f"([{short_index} == {rng.integers(3)}] ({a}) + {b})", f"[{short_index} >= 1] ({a})"]
        return str(rng.choice(forms))

    for k in range(rng.integers(2, 6)):
        kind = rng.integers(6)
        name = f"t{k}"
        if kind <= 2:
            lines.append(f"{name} = build m < M, n < N {{ {term(None, 2)} }}")
            flat.append(name)
        elif kind == 3:
            lines.append(f"{name} = build m < M, n < N, j < 3 {{ {term('j', 2)} }}")
            short.append(name)
        else:
            head, over = [("m < M", "n < N"), ("n < N", "m < M"), ("", "m < M, n < N")][rng.integers(3)]
            lines.append(f"{name} = build {head}{' ' if head else ''}{{ 1.0 + sum {over} {{ {term(None, 2)} }} }}")
            deep.append(name)
    results = [*flat[1:], *deep, *short]
    kept = [r for r in results if rng.random() < 0.6] or results[-1:]
    inputs = f"a: {dtype}[M, N], b: {dtype}[N, M], w: {dtype}[M], h: {dtype}[N], x: {dtype}[N, 3]"
    return f"chain({inputs}) {{\n  " + "\n  ".join(lines) + f"\n  return {', '.join(kept)} }}\n"


@needs_c
@pytest.mark.parametrize("seed", range(24))
def test_random_chains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = parse_program(random_text(rng))
    assert_same(program, {"M": int(rng.integers(2, 24)), "N": int(rng.integers(17, 40))}, seed)


@needs_c
@pytest.mark.parametrize("op", ["max", "min"])
def test_extremes_of_a_few_are_written_out(op: str) -> None:
    """Each element is compared with the extreme of those before."""
    assert_same(parse_program(f"""few(x: f64[N, 3], y: f64[N]) {{
        m = build n < N {{ {op} k < 3 {{ x[n, k] }} }}
        z = build n < N {{ m[n] * y[n] }}
        return m, z }}"""), {"N": 140})


TAKEN = {
    "conditions": "f(x: f64[N], w: f64[N]) { y = build n < N { [n >= 3] x[n] * w[n] }"
    " s = build { sum n < N { y[n] * x[n] } } return y, s }",
    "integers": "f(x: i32[N], w: i32[N]) { y = build n < N { x[n] * w[n] }"
    " s = build { sum n < N { y[n] + x[n] } } return y, s }",
}


@needs_c
@pytest.mark.parametrize("name", TAKEN)
def test_groups_take_what_the_writer_can_and_show_what_one_by_one_would_cost(name: str) -> None:
    program = parse_program(TAKEN[name])
    assert_same(program, {"N": 101})
    (kernel,) = kernels_of(lower_program(program, {"N": 101}).function.body)
    assert kernel.choice is not None
    assert kernel.choice.name == "group"
    assert [other for other, _ in kernel.choice.others] == ["apart"]


@pytest.mark.parametrize(
    ("stored", "dims", "rows"),
    [(False, {"M": 400, "N": 300}, 4), (True, {"M": 400, "N": 300}, 1), (True, {"M": 40, "N": 30}, 4)],
    ids=("sums alone", "an array that leaves the cache", "an array in it"),
)
def test_rows_of_a_sum_over_rows_are_taken_together(stored: bool, dims: dict[str, int], rows: int) -> None:
    """But where as many rows are stored, to memory."""
    text = FACTORS.replace("return x, y", "return x, y, p") if stored else FACTORS
    body = lower_program(parse_program(text), dims).function.body
    steps = {s.step for k in kernels_of(body) for s in walk(k.body) if isinstance(s, For) and s.var.name == "m"}
    assert max(steps) == rows
