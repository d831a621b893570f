"""y := y + α Σ as one statement: the product adds to y, and needs no memory for the sum."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.memory.verify import verify_function
from pullback.runtime.emit import c_source, lower_program
from pullback.runtime.executor import compile_program

TEXT = """descent(w0: f64[M, N], x: f64[T, K, M], y: f64[K, N], rate: f64) {
  w, last = fold t < T (v = w0, p = y) {
    z = build m < M, n < N { v[m, n] + FACTOR sum k < K { x[t, k, m] * p[k, n] } }
    q = build k < K, n < N { p[K - 1 - k, n] }
    yield z, q }
  return w }"""

DIMS = {"M": 45, "N": 70, "K": 190, "T": 3}


@pytest.mark.parametrize("factor", ["", "-1.0 * rate *", "rate *", "0.5 *", "rate * rate *"])
def test_an_update_by_a_product(factor: str) -> None:
    program = parse_program(TEXT.replace("FACTOR", factor))
    executable = compile_program(program, DIMS)
    lowered = executable.lowered
    verify_function(lowered.function, lowered.memory)
    assert ("partial" in {b.name for b in lowered.memory.offsets}) == (factor == "rate * rate *")
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape) for shape in ((45, 70), (3, 190, 45), (190, 70), ())]
    (wanted,) = interpret(program, inputs, DIMS)
    run = executable.run_poisoned(inputs)
    assert (run.peak, run.stray) == (lowered.memory.peak, 0)
    np.testing.assert_allclose(run.outputs[0], wanted, rtol=1e-12, atol=1e-10)


def test_the_factor_stands_in_the_tile() -> None:
    text = c_source(parse_program(TEXT.replace("FACTOR", "-1.0 * rate *")), DIMS)
    assert "-1 * scale * sum over k" in text
    panels, factors = 190 * 115 * 8, 2 * 190 * 70 * 8
    assert lower_program(parse_program(TEXT.replace("FACTOR", "")), DIMS).memory.bytes < panels + factors + 20_000
