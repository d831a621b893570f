"""Stages of a stencil in one loop: random chains of statements against the interpreter, and what is left as it is."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.ir.traverse import specialize
from pullback.loops.memory.verify import verify_function
from pullback.loops.program.nodes import Call, Function, Parallel, walk
from pullback.loops.strategies.staggered import Stagger
from pullback.machine import AVX2, AVX512, NEON, Machine
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_program
from pullback.runtime.pool import pool_address

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

RUNGE_KUTTA = """rates(x: f64[N]) {
  zero = build n < N { f64(0.0) }
  last = fold t < 6 (y = zero) {
    k = build n < N { x[n] * ([n >= 1] y[n - 1] + [0 >= n] 1.0) }
    l = build n < N { x[n] * ([n >= 1] (y[n - 1] + 0.05 * k[n - 1]) + [0 >= n] 1.0) }
    m = build n < N { x[n] * ([n >= 1] (y[n - 1] + 0.05 * l[n - 1]) + [0 >= n] 1.0) }
    z = build n < N { y[n] + 0.1 * (k[n] + 2.0 * l[n] + 2.0 * m[n]) }
    yield z }
  return last }"""
FAR = """far(x: f64[N]) {
  a = build n < N { exp(x[n]) * 0.5 }
  b = build n < N { [n >= 9] a[n - 9] + a[n] }
  return b }"""
BOTH_ENDS = """turned(x: f64[N]) {
  a = build n < N { exp(x[n]) * 0.5 }
  b = build n < N { a[N - 1 - n] + a[n] }
  return b }"""


def chain(seed: int, dtype: str) -> str:
    """A random fold over stages that read each other up to three places away, under tests of data or none."""
    random = np.random.default_rng(seed)
    names, lines = ["y", "x"], []
    for k in range(random.integers(2, 7)):
        terms = []
        for name in random.choice(names[-4:], 2):
            d = int(random.integers(-3, 4))
            inside = f"[n >= {-d}] {name}[n - {-d}] + [{-d - 1} >= n] {dtype}(0.5)" if d < 0 else f"{name}[n]"
            terms.append(f"([N - {d + 1} >= n] {name}[n + {d}])" if d > 0 else f"({inside})")
        value = f"c[] * x[n] * {terms[0]} + {dtype}(0.3) * {terms[1]} * x[{int(random.integers(9))}]"
        if random.integers(3) == 0:
            value = f"where[n] ? {value} : {dtype}(0.25) * {names[-1]}[n]"
        names.append(f"s{k}")
        lines.append(f"    s{k} = build n < N {{ {value} }}")
    body = "\n".join(lines)
    result = random.choice(names[-2:])
    rows = ", s0" if random.integers(2) else ""
    results = "last" + (", kept" if rows else "")
    return f"""chain(x: {dtype}[N], c: {dtype}, first: {dtype}[N], where: bool[N]) {{
  {results} = fold t < 3 (y = first) {{
{body}
    yield {result}{rows} }}
  return {results} }}"""


def staggered(f: Function) -> list[int]:
    """The number of statements of each kernel of staggered stages."""
    choices = [s.kernel.choice for s in walk(f.body) if isinstance(s, Call)]
    return [c.schedule.steps[0].statements for c in choices if c is not None and c.name == "staggered"]  # type: ignore[attr-defined]


def assert_same(program: Program, dims: dict[str, int]) -> None:
    random = np.random.default_rng(0)
    inputs = [random.random(dims["N"]) < 0.5 if r.dtype.is_bool else
              random.uniform(0.5, 1.1, [dims["N"]] * r.rank).astype(r.dtype.numpy) for r in program.inputs]  # fmt: skip
    executable = compile_program(program, dims)
    verify_function(executable.lowered.function, executable.lowered.memory)
    got, _, stray = executable.run_poisoned(inputs)
    assert stray == 0
    tolerance = 1e-12 if program.inputs[0].dtype.name == "f64" else 1e-5
    for w, g in zip(interpret(program, inputs, {}), got, strict=True):
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


@needs_compiler
@pytest.mark.parametrize("n", [160, 167, 1000])
def test_a_step_of_runge_and_kutta_is_one_loop(n: int) -> None:
    program = parse_program(RUNGE_KUTTA)
    for machine in (AVX2, AVX512):
        assert max(staggered(lower_program(program, {"N": n}, machine=machine).function)) >= 3
    assert_same(program, {"N": n})


@needs_compiler
@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("seed", range(20))
def test_random_chains_compute_what_their_statements_do(seed: int, dtype: str) -> None:
    assert_same(parse_program(chain(seed, dtype)), {"N": 190 + 7 * seed})


def test_most_random_chains_are_staggered() -> None:
    made = [lower_program(parse_program(chain(seed, "f64")), {"N": 300}, machine=AVX512).function for seed in range(20)]
    assert sum(bool(staggered(f)) for f in made) >= 12


@pytest.mark.parametrize(("distance", "joins"), [(1, True), (8, True), (9, False)])
def test_what_is_read_behind_is_in_one_vector_before(distance: int, joins: bool) -> None:
    text = FAR.replace("9", str(distance)).replace("exp(x[n])", "x[n]")
    first, second = specialize(parse_program(text), {"N": 300}).body.statements
    stagger = Stagger.begin(first, 64)
    assert stagger is not None
    assert stagger.join(first)
    assert stagger.join(second) == joins


@pytest.mark.parametrize(("text", "machine", "n"), [
    (FAR, AVX512, 300),  # farther behind than a vector
    (BOTH_ENDS, AVX512, 300),  # not at a constant distance
    (RUNGE_KUTTA, NEON, 12),  # too short for a loop
    (RUNGE_KUTTA, AVX512, 400_000),  # threads share it
])  # fmt: skip
def test_what_is_left_as_it_is(text: str, machine: Machine, n: int) -> None:
    assert staggered(lower_program(parse_program(text), {"N": n}, machine=machine).function) == []


@pytest.mark.skipif(not pool_address(2), reason="the system has no threads of this kind")
def test_threads_do_not_share_steps() -> None:
    program = parse_program(RUNGE_KUTTA)
    made = lower_program(program, {"N": 60_000}, machine=AVX512, threaded=True).function
    shared = [t.call.kernel for s in walk(made.body) if isinstance(s, Parallel) for t in s.tasks]
    assert staggered(made) and not any(k.choice is not None and k.choice.name == "staggered" for k in shared)
    x = np.random.default_rng(0).uniform(0.5, 1.0, 60_000)
    (got,) = compile_program(program, {"N": 60_000}, threads=2).run([x])
    np.testing.assert_allclose(got, interpret(program, [x], {})[0], rtol=1e-12)


def test_a_stage_lags_by_the_distance_it_reads_ahead() -> None:
    program = parse_program("""lags(x: f64[100]) {
      a = build n < 100 { x[n] * 2.0 }
      b = build n < 100 { [97 >= n] a[n + 2] }
      c = build n < 100 { [n >= 1] b[n - 1] + a[n] }
      return c }""")
    stagger = Stagger.begin(program.body.statements[0], 64)
    assert stagger is not None
    assert all(map(stagger.join, program.body.statements))
    assert list(stagger.lags.values()) == [0, 2, 1]
    assert (list(stagger.behind.values()), stagger.start, stagger.stop) == ([1], 2, 98)
