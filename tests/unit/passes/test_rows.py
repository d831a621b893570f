"""Rows that follow from other rows are computed again in the loop that reads them backward."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.program import Fold
from pullback.ir.traverse import specialize
from pullback.ir.verify import verify
from pullback.passes.rows import recompute_cheap_rows
from pullback.runtime.executor import compile_program

TEXT = """swing(x: f64[N], u0: f64[N], k: f64, T: size) {
  u, old, stage, slope = fold t < T (v = u0) {
    s = build n < N { FORCE }
    a = build n < N { v[n] + k * s[n] }
    w = build n < N { v[n] + k * x[N - 1 - n] * a[N - 1 - n] }
    yield w, v, a, s }
  g = fold b < T (h = u) {
    i = build n < N { h[n] * stage[T - 1 - b, n] + slope[T - 1 - b, N - 1 - n] * old[T - 1 - b, n] }
    yield i }
  return g }"""
DIMS = {"N": 5000, "T": 8}


@pytest.mark.parametrize(("force", "rows"), [("x[n] * v[N - 1 - n]", 1), ("sin(v[N - 1 - n])", 2),
                                             ("sum m < 3 { v[m] } * x[n]", 2)])
def test_rows_that_are_cheap_are_computed_again(force: str, rows: int) -> None:
    program = parse_program(TEXT.replace("FORCE", force))
    made = recompute_cheap_rows(specialize(program, DIMS))
    verify(made)
    forward, backward = (s for s in made.body.statements if isinstance(s, Fold))
    assert len(forward.outs) == 1 + rows  # a state, then slope and old; of slope sums and sines are stored
    assert len(backward.body.statements) == 1 + 3 - rows
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(5000), rng.standard_normal(5000), np.array(0.1)]
    (wanted,) = interpret(program, inputs, DIMS)
    np.testing.assert_array_equal(interpret(made, inputs, DIMS)[0], wanted)
    executable = compile_program(program, DIMS)
    run = executable.run_poisoned(inputs)
    assert (run.peak, run.stray) == (executable.lowered.memory.peak, 0)
    np.testing.assert_allclose(run.outputs[0], wanted, rtol=1e-11)


def test_few_rows_stay_stored() -> None:
    program = specialize(parse_program(TEXT.replace("FORCE", "x[n] * v[N - 1 - n]")), {"N": 50, "T": 8})
    assert print_program(recompute_cheap_rows(program)) == print_program(program)
