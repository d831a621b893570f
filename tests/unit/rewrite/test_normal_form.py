"""Normal form: what is lifted keeps the guards that it needs, and sums their order where it is asked for."""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.verify import verify
from pullback.rewrite.normal_form import normalise

GUARDED = """f(x: f64[3], y: f64[2]) {
  z = build i < 2, j < 9 { [2 - j >= 0] (x[j] > y[i] ? exp(y[i]) : {}) }
  return z }"""


def test_a_guard_keeps_those_that_keep_it_in_range() -> None:
    """Exp's guard reads x[j], and j < 3 has no index in common with exp's operand."""
    program = normalise(parse_program(GUARDED))
    verify(program)
    x, y = np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.5])
    expected = np.zeros((2, 9))
    expected[:, :3] = np.where(x > y[:, None], np.exp(y)[:, None], 0.0)
    np.testing.assert_array_equal(interpret(program, [x, y])[0], expected)


def test_exact_sums_keep_their_order() -> None:
    """The argument of tanh stands in the sum, and may not be added up first."""
    f = pb.function(lambda x, y, z: pb.tanh(x + z) * (x + y + z))
    numbers = np.float64(1e16), np.float64(-1e16), np.float64(1.0)
    with pb.exact():
        assert f(*numbers) == f.interpret(*numbers) == pb.value_and_grad(f)(*numbers)[0] == 1.0
