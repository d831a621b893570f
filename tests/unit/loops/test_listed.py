"""Products that take the steps at which a panel has nonzeros: which operands are told, and what is computed."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.analysis.seeds import seeds
from pullback.loops.program.nodes import Call, Function, walk
from pullback.machine import AVX2, AVX512, NEON, SCALAR, Machine
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_program

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

ARMS = """arms(w: f64[{B}, 3, 3], s: f64[{B}, 3, 3], parent: i64[{B}], x: f64[{N}, {B}, 3]) {{
  zero = build k < {B}, b < {B} + 1, i < 3, j < 3 {{ f64(0.0) }}
  first = build b < {B} + 1, i < 3, j < 3 {{ [i == j] f64(1.0) }}
  last, dot_last = fold b < {B} (at = first, dot = zero) {{
    here = build i < 3, j < 3 {{ sum m < 3 {{ at[check(parent[b], {B} + 1), i, m] * w[b, m, j] }} }}
    by = build k < {B}, i < 3, j < 3 {{ sum m < 3 {{ dot[k, check(parent[b], {B} + 1), i, m] * w[b, m, j] }}
      + [k == b] sum m < 3 {{ at[check(parent[b], {B} + 1), i, m] * s[b, m, j] }} }}
    at_next = build c < {B} + 1, i < 3, j < 3 {{ [c == b + 1] here[i, j] + [c != b + 1] at[c, i, j] }}
    dot_next = build k < {B}, c < {B} + 1, i < 3, j < 3 {{ [c == b + 1] by[k, i, j] + [c != b + 1] dot[k, c, i, j] }}
    yield at_next, dot_next }}
  y = build n < {N}, k < {B}, i < 3 {{ sum b < {B}, j < 3 {{ x[n, b, j] * dot_last[k, b + 1, i, j] }} }}
  return y, dot_last }}"""
"""Points on bones, by the parameters of the bones on the way to theirs."""

SIZES = [(12, 150), (20, 301), (24, 64), (9, 40)]


def arms(bones: int, points: int, seed: int = 0) -> tuple[str, list[np.ndarray]]:
    """The program and inputs: whole numbers, so that sums are exact."""
    random = np.random.default_rng(seed)
    parent = np.array([random.integers(max(0, b - 2), b + 1) if b % 4 else 0 for b in range(bones)])
    w, s = (random.integers(-1, 2, (bones, 3, 3)).astype(float) for _ in range(2))
    return ARMS.format(B=bones, N=points), [w, s, parent, random.integers(-3, 4, (points, bones, 3)).astype(float)]


def lists(function: Function) -> set[str]:
    """The names of the kernels of products that make or read lists."""
    kernels = [s.kernel for s in walk(function.body) if isinstance(s, Call)]
    inner = {s.kernel.name for k in kernels for s in walk(k.body) if isinstance(s, Call)}
    return {name for name in inner if "list" in name}


# Evidence ---------------------------------------------------------------------------------------------------------


def seeded(body: str) -> dict[str, set[int]]:
    text = f"f(x: f64[5], w: f64[5, 5], v: f64[5], at: i64[5]) {{ {body} }}"
    return {r.name: set(axes) for r, axes in seeds(parse_program(text).body).items()}


@pytest.mark.parametrize(("value", "axes"), [
    ("build k < 5, i < 5 { [k == i] x[i] }", {0, 1}),
    ("build k < 5, i < 5 { [k == i] x[i] + [i + k == 3] v[i] }", {0, 1}),
    ("build k < 5, i < 5 { [k == data(at[i])] x[i] }", {0, 1}),
    ("build k < 5, i < 5 { [k == i] x[i] + v[i] }", set()),
    ("build k < 5, i < 5 { [k >= i] x[i] }", set()),
    ("build k < 5, i < 5 { [k == 0] x[i] + [k != 0] w[k, i] }", set()),  # a stack of rows
    ("build k < 5, i < 5 { [k == 0] x[i] + [k == 1] v[i] }", set()),
    ("build k < 5, i < 5 { [k == i] x[i] + [k != i] w[k, i] }", set()),  # a diagonal put in place
    ("build k < 5, i < 5 { x[i] > 0.0 ? ([k == i] x[i]) : ([k == i] v[i]) }", {0, 1}),
    ("build k < 5, i < 5 { x[i] > 0.0 ? ([k == i] x[i]) : v[i] }", set()),
    ("build k < 5, i < 5 { exp([k == i] x[i]) }", set()),
    ("build k < 5, i < 5 { x[i] * ([k == i] v[i]) * 2.0 }", {0, 1}),
])  # fmt: skip
def test_values_that_are_unit_vectors(value: str, axes: set[int]) -> None:
    found = seeded(f"y = {value} return y")
    assert found.get("y", set()) == axes


def test_products_keep_the_axes_that_are_not_summed() -> None:
    found = seeded("""d = build k < 5, i < 5 { [k == i] x[i] }
      rows = build k < 5, i < 5 { sum j < 5 { d[k, j] * w[j, i] } }
      columns = build k < 5, i < 5 { sum j < 5 { w[k, j] * rows[j, i] } }
      shifted = build k < 4, i < 5 { rows[k + 1, i] }
      least = build k < 5 { min i < 5 { d[k, i] } }
      return rows, columns, shifted, least""")
    assert found == {"d": {0, 1}, "rows": {0}}


def test_states_that_stay_seeded_through_their_loop() -> None:
    found = seeded("""zero = build k < 5, i < 5 { f64(0.0) }
      last, rows = fold t < 3 (dot = zero) {
        next = build k < 5, i < 5 { sum j < 5 { w[i, j] * dot[k, j] } + [k == i] x[t] }
        yield next, next }
      mixed = fold t < 3 (state = zero) {
        other = build k < 5, i < 5 { sum j < 5 { w[k, j] * state[j, i] } }
        yield other }
      filled = fold t < 3 (row = zero) {
        more = build k < 5, i < 5 { [k == t] x[i] + [k != t] row[k, i] }
        yield more }
      return last, rows, mixed, filled""")
    assert {n: found.get(n) for n in ("last", "rows", "mixed")} == {"last": {0}, "rows": {1}, "mixed": {1}}
    assert "filled" not in found or 0 not in found["filled"]


# Lists ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SCALAR, NEON, AVX2, AVX512])
def test_products_with_seeded_operands_have_lists(machine: Machine) -> None:
    found = lists(lower_program(parse_program(arms(20, 301)[0]), {}, machine=machine).function)
    assert bool(found) == (machine is not SCALAR)
    assert not any(n.startswith("multiply") and not n.endswith("listed") for n in found)


def test_products_without_lists() -> None:
    few = lists(lower_program(parse_program(arms(20, 48)[0]), {}, machine=AVX512).function)
    one_panel = lists(lower_program(parse_program(arms(8, 301)[0]), {}, machine=AVX512).function)
    dense = lower_program(
        parse_program("""p(a: f64[200, 60], b: f64[60, 60]) {
      y = build i < 200, j < 60 { sum k < 60 { a[i, k] * b[k, j] } } return y }"""),
        {},
        machine=AVX512,
    )
    assert (few, one_panel, lists(dense.function)) == (set(), set(), set())


def test_an_axis_of_both_operands_says_nothing() -> None:
    """The product of each k has one unit vector, and rows that are not seeded."""
    program = parse_program("""f(w: f64[30, 30], x: f64[3, 64], a: f64[20, 200, 30]) {
      zero = build k < 20, j < 30, i < 64 { f64(0.0) }
      last = fold t < 3 (dot = zero) {
        next = build k < 20, j < 30, i < 64 { sum m < 30 { w[j, m] * dot[k, m, i] } + [k == j] x[t, i] }
        yield next }
      y = build k < 20, n < 200, i < 64 { sum j < 30 { a[k, n, j] * last[k, j, i] } }
      return y }""")
    assert any(axes == {0} for axes in seeds(program.body).values())
    made = lower_program(program, {}, machine=AVX512).function
    assert lists(made) == set()


CHAIN = """chain(w: f64[96, 96], x: f64[3], a: f64[200, 96, 96]) {{
  zero = build k < 96, i < 96 {{ f64(0.0) }}
  last = fold t < 3 (dot = zero) {{
    next = build k < 96, i < 96 {{ sum j < 96 {{ w[i, j] * dot[k, j] }} + [k == i] x[t] }}
    yield next }}
  low = build n < 96, i < 96 {{ [n >= i] a[0, n, i] }}
  y = {y}
  return y, last }}"""


@needs_compiler
@pytest.mark.parametrize(("y", "listed"), [
    ("build n < 96, k < 96 { sum i < 96 { a[1, n, i] * last[k, i] } }", True),
    ("build n < 96, k < 96 { sum i < 96 { low[n, i] * last[k, i] } }", False),  # each tile ends with the triangle
    ("build b < 8, n < 80, m < 84, k < 96 { sum i < 8, j < 12 { a[b, n + i, m + j] * last[k, 12 * i + j] } }",
     False),  # the tile walks over a
])  # fmt: skip
def test_lists_beside_other_zeros(y: str, listed: bool) -> None:
    program = parse_program(CHAIN.format(y=y))
    found = lists(lower_program(program, {}, machine=AVX512).function)
    assert bool(found) == listed
    random = np.random.default_rng(0)
    inputs = [random.integers(-2, 3, [d.constant or 0 for d in r.shape]).astype(float) for r in program.inputs]
    inputs[0] *= random.random((96, 96)) < 0.02
    for got, want in zip(compile_program(program, {}).run(inputs), interpret(program, inputs, {}), strict=True):
        np.testing.assert_array_equal(got, want)


@needs_compiler
@pytest.mark.parametrize("machine", ["", "generic", "scalar", "sse2"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("bones", "points"), SIZES)
def test_the_same_sums(bones: int, points: int, threads: int, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if machine:
        monkeypatch.setenv("PULLBACK_MACHINE", machine)
    text, inputs = arms(bones, points, seed=bones)
    program = parse_program(text)
    executable = compile_program(program, {}, threads=threads)
    got, _, stray = executable.run_poisoned(inputs)
    assert stray == 0
    for g, w in zip(got, interpret(program, inputs, {}), strict=True):
        np.testing.assert_array_equal(g, w)


@needs_compiler
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 5e-324, -0.0])
def test_numbers_that_are_no_ordinary_ones(bad: float) -> None:
    """In the seeded operand they are listed; in the other they meet its nonzeros only."""
    text, inputs = arms(20, 301)
    program = parse_program(text)
    executable = compile_program(program, {})
    w, s, parent, x = (a.copy() for a in inputs)
    s[3, 0, 1] = bad
    with np.errstate(invalid="ignore"):
        want = interpret(program, [w, s, parent, x], {})
    np.testing.assert_array_equal(executable.run([w, s, parent, x])[0], want[0])
    x[7, 2, 1] = x[200, 19, 0] = bad
    y, dot = executable.run([w, inputs[1], parent, x])
    for n, b, j in ((7, 2, 1), (200, 19, 0)):
        used = dot[:, b + 1, :, j] != 0
        assert used.any()
        assert not used.all()
        clean = interpret(program, inputs, {})[0]
        with np.errstate(invalid="ignore"):
            change = dot[:, b + 1, :, j] * (bad - inputs[3][n, b, j])
        np.testing.assert_allclose(y[n][used], (clean[n] + change)[used], atol=1e-300)
