"""Where arrays live: states move from place to place instead of being copied, reshapes are the array itself."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Fold
from pullback.ir.traverse import specialize
from pullback.ir.verify import verify
from pullback.loops.memory.verify import verify_function
from pullback.loops.plain.unroll import unroll_copies
from pullback.loops.program.nodes import Copy, For, Function, walk
from pullback.runtime.executor import compile_program

HEAT = """heat(u0: f64[N], T: size) {
  u = fold t < T (v = u0) {
    w = build n < N { v[n] + 0.25 * ([n >= 1] v[n - 1]) + 0.25 * ([N - 2 >= n] v[n + 1]) }
    yield w }
  return u }"""


def copies(function: Function) -> int:
    return sum(isinstance(s, Copy) and not s.maybe_same for s in walk(function.body))


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 9])
def test_a_state_that_is_read_around_goes_to_and_fro(steps: int) -> None:
    program = parse_program(HEAT)
    made = unroll_copies(specialize(program, {"N": 1000, "T": steps}))
    verify(made)
    executable = compile_program(program, {"N": 1000, "T": steps})
    assert copies(executable.lowered.function) == 0
    u = np.random.default_rng(0).standard_normal(1000)
    (wanted,) = interpret(program, [u], {"N": 1000, "T": steps})
    np.testing.assert_array_equal(interpret(made, [u])[0], wanted)
    run = executable.run_poisoned([u])
    assert (run.peak, run.stray) == (executable.lowered.memory.peak, 0)
    np.testing.assert_allclose(run.outputs[0], wanted, rtol=1e-14)


def test_two_states_change_places() -> None:
    text = """fibonacci(a0: f64[N], b0: f64[N], T: size) {
      a, b = fold t < T (p = a0, q = b0) {
        r = build n < N { p[n] + q[N - 1 - n] }
        yield q, r }
      return a, b }"""
    program = parse_program(text)
    for steps in (6, 7):
        dims = {"N": 500, "T": steps}
        rng = np.random.default_rng(0)
        inputs = [rng.standard_normal(500), rng.standard_normal(500)]
        run = compile_program(program, dims).run_poisoned(inputs)
        for a, b in zip(run.outputs, interpret(program, inputs, dims), strict=True):
            np.testing.assert_array_equal(a, b)


def test_small_states_are_copied() -> None:
    program = specialize(parse_program(HEAT), {"N": 10, "T": 8})
    assert unroll_copies(program) is program


def test_a_reshape_is_the_array_itself() -> None:
    text = """reshaped(x: f64[N, M]) {
      a = build n < N, m < M { sum k < N { x[n, m] * x[k, m] } }
      b = build i < N * M { a[i // M, i % M] }
      c = build k < K { sum i < N * M { b[i] * x[i // M, k] } }
      d = build i < N * M { b[i] * b[i] }
      e = build n < N, m < M { d[n * M + m] }
      return c, e }"""
    program = parse_program(text.replace("K", "3"))
    dims = {"N": 20, "M": 5}
    executable = compile_program(program, dims)
    assert copies(executable.lowered.function) == 0
    x = np.random.default_rng(0).standard_normal((20, 5))
    for a, b in zip(executable.run_poisoned([x]).outputs, interpret(program, [x], dims), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_loops_with_rows_keep_their_copies() -> None:
    text = HEAT.replace("u = fold", "u, rows = fold").replace("yield w", "yield w, w")
    text = text.replace("return u", "return u, rows")
    program = specialize(parse_program(text), {"N": 1000, "T": 4})
    (fold,) = unroll_copies(program).body.statements
    assert isinstance(fold, Fold)
    assert fold.var.extent.constant == 4


KEPT = """kept(u0: f64[N], k: f64, T: size) {
  u, rows = fold t < T (v = u0) {
    w = build n < N { k * v[N - 1 - n] + v[n] }
    yield w, v }
  y = build n < N { u[n] + rows[T - 1, N - 1 - n] + rows[0, n] }
  return y RESULT }"""


@pytest.mark.parametrize("result", ["", ", u"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_state_that_is_kept_as_rows_moves_from_row_to_row(steps: int, result: str) -> None:
    program = parse_program(KEPT.replace("RESULT", result))
    dims = {"N": 300, "T": steps}
    executable = compile_program(program, dims)
    function, memory = executable.lowered.function, executable.lowered.memory
    verify_function(function, memory)
    if steps > 1:
        assert not any(isinstance(s, Copy) for loop in walk(function.body) if isinstance(loop, For) for s in loop.body)
        assert [b.shape[0].constant for b in memory.offsets if b.name == "rows"] == [steps + 1]
    inputs = [np.random.default_rng(0).standard_normal(300), np.array(0.3)]
    run = executable.run_poisoned(inputs)
    assert (run.peak, run.stray) == (memory.peak, 0)
    for found, wanted in zip(run.outputs, interpret(program, inputs, dims), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
