"""Normal form: what is lifted keeps the guards that it needs, and sums their order where it is asked for."""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback.ir import expr
from pullback.ir.expr import Ref
from pullback.ir.index import Var, as_index, cond, symbol
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_statement
from pullback.ir.types import bool_, f64
from pullback.ir.verify import verify
from pullback.rewrite.normal_form import _guards_about, normalize

GUARDED = """f(x: f64[3], y: f64[2]) {
  z = build i < 2, j < 9 { [2 - j >= 0] (x[j] > y[i] ? exp(y[i]) : {}) }
  return z }"""


def test_a_guard_keeps_those_that_keep_it_in_range() -> None:
    """Exp's guard reads x[j], and j < 3 has no index in common with exp's operand."""
    program = normalize(parse_program(GUARDED))
    verify(program)
    x, y = np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.5])
    expected = np.zeros((2, 9))
    expected[:, :3] = np.where(x > y[:, None], np.exp(y)[:, None], 0.0)
    np.testing.assert_array_equal(interpret(program, [x, y])[0], expected)


def test_a_sum_that_a_transcendental_needs_is_a_part_of_others() -> None:
    """The sum `x + z` is computed once, also for a sum with one more term."""
    program = normalize(parse_program("""f(x: f64[3], y: f64[3], z: f64[3]) {
      r = build n < 3 { tanh(x[n] + z[n]) * (x[n] + y[n] + z[n]) }
      return r }"""))
    added, *_, last = map(print_statement, program.body.statements)
    assert "x[n] + z[n]" in added and "r_in[n] + y[n]" in last


def test_exact_sums_keep_their_order() -> None:
    """The argument of tanh stands in the sum, and may not be added up first."""
    numbers = np.float64(1e16), np.float64(-1e16), np.float64(1.0)
    with pb.exact():
        f = pb.function(lambda x, y, z: pb.tanh(x + z) * (x + y + z))
        assert f(*numbers) == f.interpret(*numbers) == pb.value_and_grad(f)(*numbers)[0] == 1.0


def test_a_position_inside_of_an_index_becomes_an_array() -> None:
    text = "f(x: f64[5], y: f64[5]) { z = build { x[data(argmax k < 5 { y[k] * y[k] }, 5)] } return z }"
    made = normalize(parse_program(text))
    assert [print_statement(s) for s in made.body.statements] == [
        "z_argmax in [0, 5) = build { argmax k < 5 { y[k] * y[k] } }",
        "z = build { x[data(z_argmax, 5)] }",
    ]


def test_what_a_transcendental_and_others_read_is_computed_once() -> None:
    text = "f(x: f64[5], y: f64[5]) { z = build i < 5 { sin(x[i] / y[i]) * (x[i] / y[i]) } return z }"
    made = normalize(parse_program(text))
    assert sum(print_statement(s).count("/") for s in made.body.statements) == 1


def test_guards_go_along_with_those_that_keep_them_in_range() -> None:
    """A test of b[j] under [i <= j], and a flag without indices, about x[i]: all are about it; one of b[k] is not."""
    n = symbol("N")
    i, j, k = (Var(name, n) for name in "ijk")
    x, b, flag = Ref("x", f64, [n]), Ref("b", bool_, [n]), Ref("flag", bool_, [])
    tied = cond(">=", as_index(j) - as_index(i))
    path = (expr.get(b, k), tied, expr.get(b, j), expr.get(flag))
    assert _guards_about(expr.get(x, i), path) == ([tied, expr.get(b, j), expr.get(flag)], frozenset({i, j}))
