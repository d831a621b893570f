"""Strips: the same values, arrays along the axis a stretch at a time, whole where they must be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Fold, Program, Scatter, statement_reads, walk_statements
from pullback.ir.settings import MODES, Settings
from pullback.ir.traverse import specialize
from pullback.ir.verify import verify
from pullback.linalg import multishift
from pullback.loops.program.nodes import Copy, walk
from pullback.machine import GENERIC
from pullback.passes import strips
from pullback.passes.strips import strip_for_caches, strip_mine
from pullback.runtime.emit import with_mode
from pullback.runtime.executor import compile_program
from tests.support.programs import random_program

LAYERS = """layers(x: f64[N, M], w: f64[K, M]) {
  h = build n < N, k < K { tanh(sum m < M { w[k, m] * x[n, m] }) }
  e = build n < N, k < K { exp(h[n, k]) }
  s = build n < N { sum k < K { e[n, k] } }
  g = build k < K, m < M { 0.5 + sum n < N { s[n] * h[n, k] * x[n, m] } }
  return RESULTS }"""


@pytest.fixture(autouse=True)
def everything_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of any size are worth a strip."""
    monkeypatch.setattr(strips, "SMALL", 0)
    monkeypatch.setattr(strips, "LEAST", 1)


def assert_same(program: Program, made: Program, seed: int = 0) -> None:
    verify(made)
    rng = np.random.default_rng(seed)
    shapes = [(r.dtype.is_floating, [d.constant or 0 for d in r.shape]) for r in program.inputs]
    inputs = [rng.standard_normal(shape) if floating else rng.integers(-1, 4, shape) for floating, shape in shapes]
    for a, b in zip(interpret(program, inputs), interpret(made, inputs), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


def layers(results: str) -> Program:
    return specialize(parse_program(LAYERS.replace("RESULTS", results)), {"N": 16, "M": 3, "K": 5})


def test_what_is_between_is_as_long_as_a_strip() -> None:
    program = layers("g")
    made = strip_mine(program)
    (fold,) = (s for s in made.body.statements if isinstance(s, Fold))
    assert fold.var.extent.constant == 8
    assert [str(o.shape[0]) for s in fold.body.statements for o in s.outs] == ["2", "2", "2", "5"]
    assert_same(program, made)


def test_a_result_along_the_axis_is_stored_strip_by_strip() -> None:
    program = layers("g, s")
    made = strip_mine(program)
    (fold,) = (s for s in made.body.statements if isinstance(s, Fold))
    assert [tuple(map(str, o.shape)) for o in fold.outs] == [("5", "3"), ("8", "2")]
    assert_same(program, made)


def test_what_needs_a_sum_over_the_axis_comes_after_it() -> None:
    text = """normalized(x: f64[N, M]) {
      a = build n < N, m < M { exp(x[n, m]) }
      mean = build m < M { sum n < N { a[n, m] } }
      c = build n < N, m < M { a[n, m] - mean[m] }
      d = build n < N, m < M { tanh(c[n, m]) }
      v = build m < M { sum n < N { c[n, m] * d[n, m] } }
      return v }"""
    program = specialize(parse_program(text), {"N": 32, "M": 2})
    made = strip_mine(program)
    assert [s.outs[0].name for s in made.body.statements if not isinstance(s, Fold)] == ["a", "mean", "v"]
    (fold,) = (s for s in made.body.statements if isinstance(s, Fold))
    assert [s.outs[0].name for s in fold.body.statements] == ["c", "d", "v"]
    assert_same(program, made)


def test_neighbors_along_the_axis_keep_it_whole() -> None:
    text = """stencil(x: f64[N + 2]) {
      a = build n < N + 2 { exp(x[n]) }
      b = build n < N { a[n] + a[n + 2] }
      s = build { sum n < N { b[n] * b[N - 1 - n] } }
      return s }"""
    program = specialize(parse_program(text), {"N": 12})
    assert strip_mine(program).body.statements == program.body.statements


@pytest.mark.parametrize("seed", range(80))
def test_random_programs_keep_their_values(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "SHARE", 1)
    case = random_program(np.random.default_rng(seed))
    program = specialize(case.program, case.dims)
    made = strip_mine(program)
    verify(made)
    with np.errstate(all="ignore"):
        for a, b in zip(interpret(program, case.inputs), interpret(made, case.inputs), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4)


def test_least_memory_compiles_them() -> None:
    @pb.function(memory="least")
    def gradient(w: Float64[Array, "K M"], v: Float64[Array, "K"], x: Float64[Array, "N M"]):
        def loss(w, v):
            y = pb.exp(pb.tanh(x @ w.T) @ v)
            return pb.sum(y * y)

        return pb.grad(loss, wrt=(0, 1))(w, v)

    rng = np.random.default_rng(0)
    w, v, x = rng.standard_normal((5, 3)), rng.standard_normal(5), rng.standard_normal((64, 3))
    dims = {"N": 64, "K": 5, "M": 3}
    executable = compile_program(gradient.program(), dims)
    assert any(isinstance(s, Fold) for s in walk_statements(executable.lowered.program.body))
    fastest = compile_program(with_mode(gradient.program(), "fastest"), dims)
    assert executable.arena_bytes < 0.5 * fastest.arena_bytes
    run = executable.run_poisoned([w, v, x])
    assert (run.peak, run.stray) == (executable.lowered.memory.peak, 0)
    for a, b in zip(run.outputs, gradient.interpret(w, v, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


NEAREST = """nearest(c: f64[K, D], p: f64[N, D]) {
  far = build n < N, k < K { sum d < D { (p[n, d] - c[k, d]) * (p[n, d] - c[k, d]) } }
  least = build n < N { min k < K { far[n, k] } }
  cost = build { sum n < N { least[n] } }
  return cost }"""


@pytest.mark.parametrize(
    ("sizes", "folds"),
    [
        ({"N": 10_000, "K": 100, "D": 16}, 1),
        ({"N": 1000, "K": 100, "D": 16}, 0),  # what is between stays in the cache
        ({"N": 10_000, "K": 100, "D": 200}, 0),  # memory is not waited for
        ({"N": 10_007, "K": 100, "D": 16}, 1),  # no number of rows divides the axis: some are left behind the loop
    ],
)
def test_arrays_that_leave_the_cache_for_little_work_are_in_strips(sizes: dict[str, int], folds: int) -> None:
    made = strip_for_caches(specialize(parse_program(NEAREST), sizes), GENERIC)
    verify(made)
    assert sum(isinstance(s, Fold) for s in made.body.statements) == folds


def test_the_machine_says_how_much_stays_in_its_cache() -> None:
    program = specialize(parse_program(NEAREST), {"N": 10_000, "K": 100, "D": 16})
    rows = []
    for second in (1 << 19, 1 << 20, 1 << 21):
        made = strip_for_caches(program, replace(GENERIC, caches=(1 << 15, second, 1 << 25)))
        (loop,) = (s for s in made.body.statements if isinstance(s, Fold))
        rows.append(10_000 // (loop.var.extent.constant or 1))
    assert rows[0] < rows[1] < rows[2]
    huge = replace(GENERIC, caches=(1 << 15, 1 << 23, 1 << 25))
    assert not any(isinstance(s, Fold) for s in strip_for_caches(program, huge).body.statements)


def test_strips_for_the_cache_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "LEAVING", 0)
    monkeypatch.setattr(strips, "ENOUGH", 2)
    program = specialize(parse_program(NEAREST), {"N": 12, "K": 5, "D": 3})
    made = strip_for_caches(program, GENERIC)
    assert any(isinstance(s, Fold) for s in made.body.statements)
    assert_same(program, made)


@pytest.mark.parametrize("results", ["g", "g, s, h"])
@pytest.mark.parametrize("count", [17, 23, 29])
def test_rows_that_are_left_come_after_the_loop(count: int, results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "WHOLE", 3)
    program = specialize(parse_program(LAYERS.replace("RESULTS", results)), {"N": count, "M": 3, "K": 5})
    made = strip_mine(replace(program, settings=Settings(memory="least")))
    assert sum(isinstance(s, Fold) for s in made.body.statements) == 1
    assert_same(program, made)


GATHER = """gather(x: f64[N, D], at: i64[P], w: f64[P]) {
  near = build p < P, d < D { x[data(at[p], N), d] }
  long = build p < P { sum d < D { near[p, d] * near[p, d] } }
  y = build p < P, d < D { near[p, d] * w[p] + long[p] }
  return y }"""


def test_gathered_rows_stay_in_the_cache_and_results_are_written_where_they_are_wanted() -> None:
    program, dims = parse_program(GATHER), {"N": 50, "D": 11, "P": 50_021}
    executable = compile_program(program, dims)
    lowered = executable.lowered
    assert lowered.memory.bytes < 2 * GENERIC.caches[1] // strips.STAYING
    assert not any(isinstance(s, Copy) for s in walk(lowered.function.body))
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((50, 11)), rng.integers(0, 50, 50_021), rng.standard_normal(50_021)]
    run = executable.run_poisoned(inputs)
    assert (run.peak, run.stray) == (lowered.memory.peak, 0)
    np.testing.assert_allclose(run.outputs[0], interpret(program, inputs, dims)[0], rtol=1e-13)


def test_a_maximum_along_the_axis_is_no_sum() -> None:
    """Only sums are added up strip by strip."""
    text = LAYERS.replace("s = build n < N { sum k < K { e[n, k] } }", "s = build k < K { max n < N { e[n, k] } }")
    text = text.replace("s[n] * h[n, k]", "s[k] * h[n, k]")
    program = specialize(parse_program(text.replace("RESULTS", "g, s")), {"N": 40, "M": 5, "K": 6})
    assert_same(program, strip_mine(program))


PART = """part(x: f64[N, M]) {
  a = build n < N, m < M { exp(x[n, m]) }
  b = build n < N, m < M { tanh(a[n, m]) }
  s = build m < M { sum n < N - LESS { a[n, m] * b[n, m] } }
  c = build n < N, m < M { b[n, m] - a[n, m] }
  t = build m < M { sum n < N { c[n, m] * c[n, m] } }
  return s, t }"""


@pytest.mark.parametrize("less", [1, 4, 9])
def test_a_sum_over_a_part_of_the_axis_stays_one(less: int) -> None:
    program = specialize(parse_program(PART.replace("LESS", str(less))), {"N": 16, "M": 3})
    made = strip_mine(program)
    assert any(isinstance(s, Fold) for s in made.body.statements)
    assert_same(program, made)


def test_the_sum_of_a_slice_is_the_same_in_all_modes() -> None:
    def f(x: Float64[Array, "N M"]):
        a = pb.exp(x)
        return pb.sum((a * pb.tanh(pb.exp(a)))[:-100], axis=0)

    x = np.random.default_rng(0).standard_normal((400, 5))
    wanted = (np.exp(x) * np.tanh(np.exp(np.exp(x))))[:-100].sum(0)
    for mode in MODES:
        np.testing.assert_allclose(pb.function(memory=mode)(f)(x), wanted, rtol=1e-12)


LABELS = """labels(x: f64[N, M], w: f64[M, K], at: i64[N], c: f64[K]) {
  y = build n < N, k < K { sum m < M { x[n, m] * w[m, k] } }
  e = build n < N, k < K { exp(y[n, k]) }
  v = build n < N { [data(at[n]) >= 0, K - 1 >= data(at[n])] c[data(at[n])] }
  TOTAL
  u = build n < N { v[n] / total }
  d: f64[N, K] = scatter n < N { [n, data(at[n])] += [data(at[n]) >= 0, K - 1 >= data(at[n])] u[n] }
  g = build n < N, k < K { e[n, k] * v[n] - d[n, k] }
  h = build m < M, k < K { sum n < N { x[n, m] * g[n, k] } }
  return h }"""


@pytest.mark.parametrize("count", [16, 17, 23])
@pytest.mark.parametrize("total", ["total = build { f64(7.0) }", "total = build { f64(9.0) + sum n < N { v[n] } }"])
def test_rows_that_labels_name_are_in_strips(count: int, total: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scatter into its own rows is along the axis; a sum of numbers that labels name comes ahead of it."""
    monkeypatch.setattr(strips, "WHOLE", 3)
    program = specialize(parse_program(LABELS.replace("TOTAL", total)), {"N": count, "M": 3, "K": 4})
    made = strip_mine(program)
    (fold,) = (s for s in made.body.statements if isinstance(s, Fold))
    assert {s.outs[0].name for s in fold.body.statements} >= {"y", "e", "d", "g", "h"}
    assert_same(program, made)


def test_a_scatter_across_rows_is_whole() -> None:
    text = LABELS.replace("TOTAL", "total = build { f64(7.0) }").replace("[n, data(at[n])]", "[N - 1 - n, data(at[n])]")
    program = specialize(parse_program(text), {"N": 16, "M": 3, "K": 4})
    made = strip_mine(program)
    assert any(isinstance(s, Scatter) for s in made.body.statements)
    assert_same(program, made)


MIXTURE = """mixture(q: f64[K, D, D], x: f64[N, D], m: f64[K, D]) {
  z = build i < N, k < K, r < D { sum c < D { q[k, r, c] * (x[i, c] - m[k, c]) } }
  b = build i < N, k < K { m[k, 0] - sum r < D { z[i, k, r] * z[i, k, r] } }
  most = build i < N { max k < K { b[i, k] } }
  w = build i < N, k < K { exp(b[i, k] - most[i]) }
  q_bar = build k < K, r < D, c < D { sum i < N { w[i, k] * z[i, k, r] * (x[i, c] - m[k, c]) } }
  m_bar = build k < K, r < D { sum i < N { w[i, k] * z[i, k, r] } }
  return RESULTS }"""


def mixture(results: str, **sizes: int) -> Program:
    return specialize(parse_program(MIXTURE.replace("RESULTS", results)), sizes)


def expected_mixture(q: np.ndarray, x: np.ndarray, m: np.ndarray) -> dict[str, np.ndarray]:
    away = x[:, None] - m
    z = np.einsum("krc,ikc->ikr", q, away)
    b = m[:, 0] - (z**2).sum(2)
    w = np.exp(b - b.max(1, keepdims=True))
    return {"q_bar": np.einsum("ik,ikr,ikc->krc", w, z, away), "m_bar": np.einsum("ik,ikr->kr", w, z), "b": b, "z": z}


def test_components_of_a_mixture_are_strips_and_what_a_later_loop_reads_stays_in_them() -> None:
    made = strip_for_caches(mixture("q_bar, m_bar", N=1000, K=100, D=64), GENERIC)
    verify(made)
    first, later = (s for s in made.body.statements if isinstance(s, Fold))
    assert [str(d) for d in first.outs[0].shape] == ["100", "1000", "1", "64"]  # z: a stretch for each component
    assert first.outs[0] in {r for s in later.body.statements for r in statement_reads(s)}
    assert not any(first.outs[0] in statement_reads(s) for s in made.body.statements if s is not later)


def test_an_array_that_is_wanted_whole_along_another_axis_keeps_the_program_as_it_is() -> None:
    made = strip_for_caches(mixture("q_bar, z", N=1000, K=100, D=64), GENERIC)
    assert not any(isinstance(s, Fold) for s in made.body.statements)


@pytest.mark.parametrize("results", ["q_bar, m_bar", "b", "m_bar, b"])
@pytest.mark.parametrize(("components", "rows"), [(8, 1), (8, 2), (11, 2), (11, 4)])
def test_strips_of_components_compute_the_same(
    components: int, rows: int, results: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_rows(made: strips._Strips, least: int, most: int) -> strips._Strips:
        made.rows = rows
        return made

    for name, value in (("LEAVING", 1), ("EVEN", 10**9), ("TURNED", 0), ("LIGHT", 0)):
        monkeypatch.setattr(strips, name, value)
    monkeypatch.setattr(strips._Strips, "_in_rows", in_rows)
    program = mixture(results, N=6, K=components, D=4)
    made = strip_for_caches(program, replace(GENERIC, caches=(32, 1500, 1 << 20)))
    loops = [s for s in made.body.statements if isinstance(s, Fold)]
    assert [s.var.extent.constant for s in loops] == [components // rows] * (1 if results == "b" else 2)
    assert_same(program, made)
    rng = np.random.default_rng(0)
    q, x, m = (rng.standard_normal([d.constant or 0 for d in r.shape]) for r in program.inputs)
    wanted = expected_mixture(q, x, m)
    for name, found in zip(results.split(", "), compile_program(made, {}).run([q, x, m]), strict=True):
        np.testing.assert_allclose(found, wanted[name], rtol=1e-10, atol=1e-12)


def test_updates_of_an_array_need_no_strips() -> None:
    """They take no memory beside the array's: in strips, a step of many shifts copied the matrix for each window."""

    @pb.function
    def step(
        t: Float64[Array, "N N"], rows: Float64[Array, "N N"], low: Int64[Array, ""],
        window: Float64[Array, "48 48"], turns: Float64[Array, "48 48"],
    ):  # fmt: skip
        return multishift._applied(t, rows, low, window, turns)

    program = specialize(step.program(), {"N": 500})
    made = strip_for_caches(program, replace(GENERIC, caches=(1 << 15, 1 << 20, 1 << 25)))
    assert not any(isinstance(s, Fold) for s in made.body.statements)
