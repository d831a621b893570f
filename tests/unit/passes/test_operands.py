"""`passes.operands`: a guarded factor becomes an operand only where its term is zero elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.index import Var, as_index, cond
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.program import Program
from pullback.passes.cost import LONGEST, range_of
from pullback.passes.operands import separate_operands
from pullback.passes.speculate import speculate_guards

TEXT = """f(x: f64[40, 30], w: f64[50, 30], c: f64[30]) {
  y = build i < 40, j < 50 { sum k < 30 { c[k] > 0.0 ? x[i, k] * w[j, k] : OTHER } }
  return y }"""


@pytest.mark.parametrize(("other", "apart"), [("{}", True), ("1.0", False), ("0.0", False)])
def test_what_is_no_zero_is_no_guard(other: str, apart: bool) -> None:
    program = parse_program(TEXT.replace("OTHER", other))
    made = separate_operands(program)
    arrays = [np.random.default_rng(0).normal(size=[e.constant for e in r.shape]) for r in program.inputs]
    np.testing.assert_allclose(interpret(made, arrays)[0], interpret(program, arrays)[0], rtol=1e-12)
    assert (print_program(made) != print_program(program)) == apart


def test_an_axis_is_as_long_as_the_conditions_about_it_alone_allow() -> None:
    u, v = Var("u", LONGEST), Var("v", 8)
    inside = [cond(">=", as_index(u) - 3), cond(">=", 17 - as_index(u))]
    assert range_of(u, inside) == (3, 17)
    assert range_of(u, [*inside, cond(">=", as_index(u) - as_index(v))]) == (3, 17)
    assert range_of(u, [cond("==", as_index(u) - as_index(v))]) == (0, LONGEST - 1)
    assert range_of(u, [cond(">=", 2 - as_index(u)), inside[0]]) == (0, 0)
    assert range_of(u, []) == (0, LONGEST - 1)
    long = Var("u", LONGEST + 1)
    assert range_of(long, [cond(">=", 17 - as_index(long))]) == (0, LONGEST)


BORDERS = """f(t: f64[20, 9, 40], g: f64[20, 9, 40], x: f64[20, 12, 40]) {{
  {before}w = build o < 9, c < 12, u < 3 {{ sum n < 20, i < 40 {{ [i + u >= 1, 40 >= i + u] ({test} ?
      {factor}[n, o, i] * x[n, c, i + u - 1] : {{}}) }} }}
  return w }}"""


def same(program: Program, made: Program) -> None:
    random = np.random.default_rng(0)
    arrays = [random.normal(size=[e.constant for e in r.shape]) for r in program.inputs]
    for value in (1.0, np.inf):
        arrays[-1][3, 2, 4] = value
        np.testing.assert_allclose(interpret(made, arrays)[0], interpret(program, arrays)[0], rtol=1e-12)


def test_borders_of_the_other_factor_keep_no_operand() -> None:
    program = parse_program(BORDERS.format(before="", test="t[n, o, i] > 0.0", factor="g"))
    made = separate_operands(program)
    assert "g_guarded = build n < 20, o < 9, i < 40 { t[n, o, i] > 0.0 ? g[n, o, i] : {} }" in print_program(made)
    assert print_program(made).count("build o < 9") == 2  # without the guard, and as it was
    same(program, made)


def test_a_factor_that_is_zero_outside_of_the_guard_needs_none() -> None:
    before = "h = build n < 20, o < 9, i < 40 { t[n, o, i] > 0.0 ? g[n, o, i] : {} }\n  "
    program = parse_program(BORDERS.format(before=before, test="t[n, o, i] > 0.0", factor="h"))
    made = speculate_guards(program)
    assert "sum n < 20, i < 40 { [40 >= u + i, u + i >= 1] h[n, o, i] * x[n, c, u + i - 1] }" in print_program(made)
    assert print_program(separate_operands(made)) == print_program(made)  # the other branch stays as it is
    same(program, made)
