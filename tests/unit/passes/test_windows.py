"""`passes.windows`: sums over axes of which conditions leave a few steps."""

from __future__ import annotations

import numpy as np

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_statement
from pullback.passes.windows import narrow_windows


def narrowed(text: str) -> str:
    program = parse_program(text)
    result = narrow_windows(program)
    arrays = [np.random.default_rng(0).normal(size=[e.constant for e in r.shape]) for r in program.inputs]
    for a, b in zip(interpret(program, arrays), interpret(result, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    return print_statement(result.body.statements[0])


def test_steps_of_one_run_over_the_window_s_own_index() -> None:
    assert narrowed(
        "f(g: f64[24], k: f64[5]) { x = build i < 28 { sum v < 24 { [i >= v, v + 4 >= i] g[v] * k[i - v] } } return x }"
    ) == "x = build i < 28 { sum v < 5 { [i >= v, v + 23 >= i] g[i - v] * k[v] } }"


def test_steps_of_one_run_upward_where_no_array_has_that_index() -> None:
    assert narrowed(
        "f(g: f64[24]) { x = build i < 20 { sum v < 24 { [v >= i, i + 2 >= v] g[v] } } return x }"
    ) == "x = build i < 20 { sum v < 3 { g[i + v] } }"


def test_a_window_of_most_of_the_axis_stays() -> None:
    text = "x = build i < 9 { sum v < 5 { [i >= v, v + 4 >= i] g[v] * k[i - v] } }"
    assert narrowed(f"f(g: f64[5], k: f64[5]) {{ {text} return x }}") == text


def test_sums_inside_of_guards_and_functions_are_narrowed() -> None:
    assert narrowed(
        "f(x: f64[28], g: f64[24], k: f64[5]) { "
        "x_bar = build i < 28 { 0.0 < x[i] ? exp(sum v < 24 { [i >= v, v + 4 >= i] g[v] * k[i - v] }) : 0.0 } "
        "return x_bar }"
    ) == "x_bar = build i < 28 { 0.0 < x[i] ? exp(sum v < 5 { [i >= v, v + 23 >= i] g[i - v] * k[v] }) : 0.0 }"
