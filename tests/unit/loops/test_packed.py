"""Packed products: every way to pack, every edge, in C against the interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from pullback.ad.reverse import vjp
from pullback.ir.expr import Bracket, Reduce
from pullback.ir.parser import parse_program
from pullback.ir.program import Build, Program, statement_reads
from pullback.ir.traverse import specialize
from pullback.ir.traverse import walk as scalars
from pullback.loops.analysis.joined import elements
from pullback.loops.memory.plan import plan
from pullback.loops.memory.verify import verify_function
from pullback.loops.plain.builder import Work
from pullback.loops.plain.lower import without_units
from pullback.loops.product import blocking, orders, residues
from pullback.loops.product.blocking import PackedPlan
from pullback.loops.program.nodes import Call, Kernel, walk
from pullback.loops.program.values import Buffer, View
from pullback.machine import GENERIC, Machine, of_width
from pullback.passes.pipeline import optimize
from pullback.runtime import executor
from pullback.runtime.buffer import aligned_bytes
from pullback.runtime.compile import compiled_library, compiler_command
from pullback.runtime.emit import emit_c, lower_program
from pullback.runtime.executor import compile_program
from tests.packing import pack_all
from tests.support.bounds import interpret_with_bounds

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

PLAIN = "mm(x: {t}[M, K], y: {t}[K, N]) {{ z = build m < M, n < N {{ sum k < K {{ x[m, k] * y[k, n] }} }} return z }}"
BOTH_TRANSPOSED = """tt(x: {t}[K, M], y: {t}[N, K]) {{
  z = build m < M, n < N {{ sum k < K {{ x[k, m] * y[n, k] }} }} return z }}"""
EPILOGUE = """layer(x: {t}[M, K], y: {t}[N, K], b: {t}[N]) {{
  z = build m < M, n < N {{ tanh(sum k < K {{ x[m, k] * y[n, k] }} + b[n]) }} return z }}"""
ACCUMULATE = """step(x: {t}[K, M], y: {t}[K, N], w: {t}[M, N]) {{
  z = build m < M, n < N {{ w[m, n] - 0.5 * sum k < K {{ x[k, m] * y[k, n] }} }} return z }}"""
GUARDED = """guarded(x: {t}[M, K], y: {t}[K, N], h: {t}[M, N]) {{
  z = build m < M, n < N {{ h[m, n] >= 0.0 ? sum k < K {{ x[m, k] * y[k, n] }} : {{}} }} return z }}"""
TWO_OUTPUTS = """two(x: {t}[M, K], y: {t}[K, N]) {{
  z, u = build m < M, n < N {{ sum k < K {{ x[m, k] * y[k, n] }}; 2.0 * sum k < K {{ x[m, k] * y[k, n] }} }}
  return z, u }}"""
TRANSPOSED_OUTPUT = """out(x: {t}[M, K], y: {t}[K, N]) {{
  z = build n < N, m < M {{ sum k < K {{ x[m, k] * y[k, n] }} }} return z }}"""
STEP = """step(x: {t}[M, K], y: {t}[K, N], w: {t}[M, N]) {{
  z = build m < M, n < N {{ w[m, n] - 0.5 * sum k < K {{ x[m, k] * y[k, n] }} }} return z }}"""
STEP_ACROSS = """step(x: {t}[M, K], y: {t}[K, N], w: {t}[N, M]) {{
  z = build n < N, m < M {{ w[n, m] - 0.5 * sum k < K {{ x[m, k] * y[k, n] }} }} return z }}"""
BATCH = """batch(x: {t}[B, M, K], y: {t}[B, K, N]) {{
  z = build b < B, m < M, n < N {{ sum k < K {{ x[b, m, k] * y[b, k, n] }} }} return z }}"""
TRIANGLE = """triangle(x: {t}[M, K], y: {t}[K, N]) {{
  z = build m < M, n < N {{ sum k < K {{ [m >= k] x[m, k] * y[k, n] }} }} return z }}"""
SCALED = """scaled(x: {t}[M, K], y: {t}[K, N], s: {t}[K]) {{
  z = build m < M, n < N {{ sum k < K {{ 3.0 * x[m, k] * s[k] * y[k, n] }} }} return z }}"""
GATHER = """gather(x: {t}[M, K], y: {t}[L, N], at: i64[K]) {{
  z = build m < M, n < N {{ sum k < K {{ x[m, k] * y[check(at[k], L), n] }} }} return z }}"""
CONVOLUTION = """conv(x: {t}[B, C, H, W], w: {t}[O, C, P, Q], b: {t}[O]) {{
  y = build b_ < B, o < O, i < (H - P) // 2 + 1, j < (W - Q) // 1 + 1 {{
    sum c < C, p < P, q < Q {{ x[b_, c, 2 * i + p, j + q] * w[o, c, p, q] }} + b[o] }}
  return y }}"""
BY_WEIGHTS = """weights(x: {t}[B, C, H, W], g: {t}[B, O, I, J]) {{
  w = build o < O, c < C, p < H - I + 1, q < W - J + 1 {{
    sum b < B, i < I, j < J {{ x[b, c, i + p, j + q] * g[b, o, i, j] }} }}
  return w }}"""

IN_GROUPS = """groups(x: {t}[B, G * C, H], w: {t}[G * O, C, P], g: {t}[B, G * O, H], rate: {t}[]) {{
  by_image = build b < B, c < G * C, i < H {{ sum o < O, p < P {{
    [i >= p] w[O * (c // C) + o, c % C, p] * g[b, O * (c // C) + o, i - p] }} }}
  step = build o < G * O, c < C, p < P {{ w[o, c, p] - rate[] * sum b < B, i < H {{
    [H > i + p] g[b, o, i] * x[b, C * (o // O) + c, i + p] }} }}
  return by_image, step }}"""
CHANNELS_LAST = """last(w: {t}[O, C, P, P], x: {t}[B, H, H, C], g: {t}[B, I, I, O]) {{
  by_image = build n < B, i < I - P + 1, j < I - P + 1, c < C {{
    sum o < O, p < P, q < P {{ g[n, i - p + P - 1, j - q + P - 1, o] * w[o, c, p, q] }} }}
  by_weights = build o < O, c < C, p < H - I + 1, q < H - I + 1 {{
    sum n < B, i < I, j < I {{ g[n, i, j, o] * x[n, i + p, j + q, c] }} }}
  return by_image, by_weights }}"""
KRONECKER = """kronecker(x: {t}[M, K], y: {t}[N, K]) {{
  z = build m < M * N {{ sum k < K {{ x[m // N, k] * y[m % N, k] }} }} return z }}"""


@pytest.fixture(autouse=True)
def always_packed(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Packing whatever the estimates say, with blocks so small that modest sizes cross their edges."""
    pack_all(monkeypatch, blocking.Blocks(32, 4096, 512 * 1024, 16 * 1024, 16384))
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    yield


def kernels(program: Program, dims: dict[str, int], machine: Machine = GENERIC) -> list[Kernel]:
    function = lower_program(program, dims, False, machine).function
    return [s.kernel for s in walk(function.body) if isinstance(s, Call)]


def assert_packed_and_right(text: str | Program, dims: dict[str, int], dtype: str = "f32") -> None:
    program = parse_program(text.format(t=dtype)) if isinstance(text, str) else text
    assert any(b.name == "panels_b" for k in kernels(program, dims) for b in k.scratch), "not packed"
    assert_right(program, dims)


def assert_right(program: Program, dims: dict[str, int]) -> None:
    rng = np.random.default_rng(3)
    inputs = []
    for r in specialize(program, dims).inputs:
        shape = [d.constant or 0 for d in r.shape]
        inputs.append(
            rng.standard_normal(shape).astype(r.dtype.numpy)
            if r.dtype.is_floating
            else rng.integers(0, dims["L"], shape)
        )
    values, bounds = interpret_with_bounds(program, inputs, {})
    executable = compile_program(program, dims)
    verify_function(executable.lowered.function, executable.lowered.memory)
    outs, peak, stray = executable.run_poisoned(inputs)
    assert (peak, stray) == (executable.lowered.memory.peak, 0)
    for out, value, bound in zip(outs, values, bounds, strict=True):
        assert (np.abs(out - value) <= 2 * bound).all()


@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("sizes", [(6, 16, 8), (7, 17, 9), (5, 33, 70), (41, 30, 131), (64, 64, 64), (1, 40, 40)])
@pytest.mark.parametrize("text", [PLAIN, BOTH_TRANSPOSED, EPILOGUE, ACCUMULATE])
@pytest.mark.parametrize("both", [True, False], ids=["both", "one"])
def test_products_of_every_edge(
    text: str, sizes: tuple[int, int, int], dtype: str, both: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, n, k = sizes
    if both:  # operands are packed, none is read where it lies
        monkeypatch.setattr(blocking, "_in_place_cost", lambda *_: float("inf"))
    if m > 1:  # of one row is no product of matrices
        assert_packed_and_right(text, {"M": m, "N": n, "K": k}, dtype)


@needs_compiler
@pytest.mark.parametrize("text", [GUARDED, TWO_OUTPUTS, TRANSPOSED_OUTPUT, TRIANGLE, SCALED])
def test_forms(text: str) -> None:
    assert_packed_and_right(text, {"M": 23, "N": 37, "K": 90})


@needs_compiler
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("columns", "depth"), [(64, 16), (301, 75), (700, 9)])
def test_large_matrices_are_swept(rows: int, columns: int, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(GENERIC, page=4, caches=(4096, 0, 1 << 25))
    monkeypatch.setattr(executor, "native", lambda: small)
    program, dims = parse_program(PLAIN.format(t="f32")), {"M": rows, "N": columns, "K": depth}
    (kernel,) = kernels(program, dims, small)
    assert {s.kernel.name for s in walk(kernel.body) if isinstance(s, Call)} >= {f"add_rows_f32_{rows}x8"}
    assert_right(program, dims)


@needs_compiler
def test_batches() -> None:
    assert_packed_and_right(BATCH, {"B": 3, "M": 13, "N": 21, "K": 80})


@needs_compiler
def test_gathers() -> None:
    assert_packed_and_right(GATHER, {"M": 13, "N": 21, "K": 80, "L": 9})


@needs_compiler
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("side", [9, 14])
def test_convolutions(batch: int, side: int) -> None:
    assert_packed_and_right(CONVOLUTION, {"B": batch, "C": 5, "O": 7, "H": side, "W": side + 1, "P": 3, "Q": 3})
    assert_packed_and_right(
        BY_WEIGHTS, {"B": batch, "C": 5, "O": 7, "H": side, "W": side, "I": side - 2, "J": side - 2}
    )


def only_plans(monkeypatch: pytest.MonkeyPatch, wanted: Callable[[PackedPlan], bool]) -> None:
    plans = blocking.packed_plans
    monkeypatch.setattr(blocking, "packed_plans", lambda *args: filter(wanted, plans(*args)))


@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("text", [CONVOLUTION, BY_WEIGHTS, TRANSPOSED_OUTPUT, STEP_ACROSS])
@pytest.mark.parametrize("channels", [7, 18])
def test_tiles_read_in_place_and_stored_across(
    text: str, channels: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes over what lies apart in the output, rows where the image lies, sums in several blocks."""
    only_plans(monkeypatch, lambda p: p.storing == "across" and p.in_place)
    sizes = {"B": 2, "C": 9, "O": channels, "H": 12, "W": 14, "P": 3, "Q": 4, "I": 10, "J": 11, "M": 19}
    sizes |= {"N": 23, "K": 90}
    program = parse_program(text.format(t=dtype))
    assert_packed_and_right(program, {str(d): sizes[str(d)] for r in program.inputs for d in r.shape})


@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("text", [PLAIN, EPILOGUE, STEP])
@pytest.mark.parametrize("depth", [31, 75])
def test_a_single_column_beside_tiles_is_a_dot_product(
    text: str, depth: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_plans(monkeypatch, lambda p: p.lone)
    program, dims = parse_program(text.format(t=dtype)), {"M": 19, "N": 33, "K": depth}
    called = {s.kernel.name for k in kernels(program, dims) for s in walk(k.body) if isinstance(s, Call)}
    assert any(name.startswith("dots_") for name in called)
    assert_packed_and_right(program, dims)


@needs_compiler
@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("window", [1, 3, 5])
def test_strided_convolutions_have_gradients_without_tests(stride: int, window: int) -> None:
    text = f"""conv(x: f32[B, C, H, W], w: f32[O, C, P, Q]) {{
      y = build b < B, o < O, i < (H - P) // {stride} + 1, j < (W - Q) // {stride} + 1 {{
        sum c < C, p < P, q < Q {{ x[b, c, {stride} * i + p, {stride} * j + q] * w[o, c, p, q] }} }}
      return y }}"""
    program = vjp(parse_program(text), [0])
    dims = {"B": 2, "C": 6, "O": 9, "H": 29, "W": 26, "P": window, "Q": window}
    assert_packed_and_right(program, dims)
    (data,) = (s for s in optimize(program, dims).body.statements if s.outs[0].name == "x_bar")
    assert isinstance(data, Build)
    found = residues.parts(without_units(data))
    assert len(found) == stride * stride
    assert not any(isinstance(n, Bracket) for p in found for v in p.build.values for n in scalars(v))


@needs_compiler
@pytest.mark.parametrize("out, own", [(18, 24), (2, 3)])
def test_groups_are_products_of_their_own(out: int, own: int) -> None:
    dims = {"B": 3, "G": 4, "C": own, "O": out, "H": 20, "P": 3}
    assert_packed_and_right(IN_GROUPS, dims)
    found = {k.name: k for k in kernels(parse_program(IN_GROUPS.format(t="f32")), dims)}
    assert all(any(b.name == "panels_b" for b in found[name].scratch) for name in ("by_image", "step"))


@needs_compiler
@pytest.mark.parametrize("channels", [(20, 33), (5, 3)])
def test_products_run_along_memory(channels: tuple[int, int]) -> None:
    own, out = channels
    dims = {"B": 2, "C": own, "O": out, "H": 10, "I": 8, "P": 3}
    program = parse_program(CHANNELS_LAST.format(t="f32"))
    assert_packed_and_right(program, dims)
    by_image, by_weights = (s for s in specialize(program, dims).body.statements if isinstance(s, Build))
    for s, order in (by_image, "n i j c, p q o"), (by_weights, "p q o c, n i j"):
        work = Work.of(s, {r: View(Buffer(r.name, r.dtype, r.shape, "input", elements(r.shape)))
                           for r in (*s.outs, *statement_reads(s))})
        ways = [w.build for w in orders.orders(residues.parts(s)[0], work.address)]
        sums = [next(n.vars for n in scalars(w.values[0]) if isinstance(n, Reduce)) for w in ways]
        found = [", ".join(" ".join(v.name for v in vs) for vs in (w.vars, r)) for w, r in zip(ways, sums, strict=True)]
        assert order in found[1:]


@needs_compiler
def test_rows_of_a_kronecker_product_are_a_product() -> None:
    assert_packed_and_right(KRONECKER, {"M": 21, "N": 18, "K": 40})


@needs_compiler
def test_columns_that_choose_their_terms_are_products_of_their_own() -> None:
    program = parse_program("""columns(a: f64[M, J], b: f64[N, J], c: f64[N, J]) {
      x = build n < N, k < 2, m < M { 2.0 * sum j < J { [k == 0] a[m, j] * b[n, j] + [k == 1] a[m, j] * c[n, j] } }
      return x }""")
    dims = {"M": 11, "J": 50, "N": 90}
    assert_packed_and_right(program, dims)
    (s,) = optimize(program, dims).body.statements
    assert isinstance(s, Build)
    found = residues.parts(without_units(s))
    assert [len(p.build.vars) for p in found] == [2, 2]
    assert not any(isinstance(n, Bracket) for p in found for v in p.build.values for n in scalars(v))


@pytest.mark.parametrize("term", ["a[m, j] * b[n, j] + [k == 1] a[m, j]", "[k >= 1] a[m, j] * b[n, j]"])
def test_columns_that_share_terms_stay_together(term: str) -> None:
    text = f"""columns(a: f64[M, J], b: f64[N, J]) {{
      x = build n < N, k < 2, m < M {{ sum j < J {{ {term} }} }}
      return x }}"""
    (s,) = optimize(parse_program(text), {"M": 11, "J": 50, "N": 90}).body.statements
    assert isinstance(s, Build)
    assert len(residues.parts(s)) == 1


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_packing_buffers_are_planned(vector_bytes: int) -> None:
    program = parse_program(PLAIN.format(t="f32"))
    made = lower_program(program, {"M": 30, "N": 70, "K": 40}, False, of_width(vector_bytes))
    names = {b.name for b in made.memory.offsets}
    assert "panels_b" in names
    verify_function(made.function, plan(made.function))


@needs_compiler
@pytest.mark.parametrize("vector_bytes", [16, 64])
def test_other_widths_compute_the_same(vector_bytes: int) -> None:
    """A compiler splits vectors that the processor does not have."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(29, 90)).astype(np.float32), rng.normal(size=(77, 90)).astype(np.float32)
    text = "nt(x: f32[M, K], y: f32[N, K]) { z = build m < M, n < N { sum k < K { x[m, k] * y[n, k] } } return z }"
    source = emit_c(parse_program(text), {"M": 29, "N": 77, "K": 90}, machine=of_width(vector_bytes))
    function = getattr(ctypes.CDLL(str(compiled_library(source.text))), source.name)
    arena, z = aligned_bytes(source.arena_bytes), np.zeros((29, 77), np.float32)
    assert function(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y, z, arena))) == 0
    np.testing.assert_allclose(z, x @ y.T, rtol=1e-4, atol=1e-4)


def test_equal_register_tiles_are_one_function() -> None:
    text = """two(x: f32[M, K], y: f32[K, N]) {
      z = build m < M, n < N { sum k < K { x[m, k] * y[k, n] } }
      u = build m < M, n < M { sum k < N { z[m, k] * z[n, k] } }
      return u }"""
    first, second = kernels(parse_program(text), {"M": 64, "N": 64, "K": 64})
    tiles = [{s.kernel for s in walk(k.body) if isinstance(s, Call)} for k in (first, second)]
    assert tiles[0] & tiles[1]
