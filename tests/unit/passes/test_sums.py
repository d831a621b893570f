"""`passes.sums`: sums of products taken apart."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Scatter
from pullback.ir.verify import verify
from pullback.passes.sums import rearrange_sums
from pullback.rewrite.normal_form import normalize


def test_a_variable_that_no_factor_has() -> None:
    program = parse_program(
        "f(x: f64[3, 4], w: f64[4]) { y = build i < 3 { sum a < 4, b < 50 { x[i, a] * w[a] } } return y }"
    )
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(3, 4)), random.normal(size=4)]
    (before,), (after,) = interpret(program, arrays), interpret(rearrange_sums(program), arrays)
    np.testing.assert_allclose(before, after, rtol=1e-12)


PACKED = """packed(q: f64[10, 10], l: f64[2, 45]) {
  a = build k < 2, t < 45 { l[k, t] + sum j < 10 { [t >= j * (-j + 19) // 2, t - j * (-j + 19) // 2 + j <= 8]
        q[t - j * (-j + 19) // 2 + j + 1, j] } }
  b = build k < 2, t < 45 { sum j < 10 { [t >= j * (-j + 19) // 2, t - j * (-j + 19) // 2 + j <= 8]
        l[k, t] * q[t - j * (-j + 19) // 2 + j + 1, j] } }
  return a, b }"""
FALLING = """falling(x: f64[3], y: f64[5]) {
  z = build i < 20 { sum v < 5 { [i >= v * v, i <= v * v + 2] y[v] * x[-i + v * v + 2] } }
  return z }"""
LINEAR = """linear(x: f64[3], y: f64[5]) {
  z = build i < 20 { sum v < 5 { [i >= 3 * v, i <= 3 * v + 2] y[v] * x[-i + 3 * v + 2] } }
  return z }"""


@pytest.mark.parametrize(("text", "scatters"), [(PACKED, 2), (FALLING, 1), (LINEAR, 0)])
def test_sums_of_which_few_indices_have_a_term(text: str, scatters: int) -> None:
    program = normalize(parse_program(text))
    made = rearrange_sums(program)
    verify(made)
    assert sum(isinstance(s, Scatter) for s in made.body.statements) == scatters
    random = np.random.default_rng(0)
    arrays = [random.normal(size=[d.constant or 0 for d in r.shape]) for r in program.inputs]
    for before, after in zip(interpret(program, arrays), interpret(made, arrays), strict=True):
        np.testing.assert_array_equal(before, after)
