"""`passes.stretches`: sums that count on a part of an axis."""

from __future__ import annotations

import numpy as np

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_statement
from pullback.passes.stretches import separate_stretches


def separated(text: str) -> list[str]:
    program = parse_program(text)
    result = separate_stretches(program)
    arrays = [np.random.default_rng(0).normal(size=[e.constant for e in r.shape]) for r in program.inputs]
    for a, b in zip(interpret(program, arrays), interpret(result, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    return [print_statement(s) for s in result.body.statements]


def test_a_sum_on_a_part_is_an_array_of_that_part() -> None:
    assert separated(
        "f(a: f64[9, 4], b: f64[9, 8]) { x = build i < 64, j < 3 { "
        "sum k < 9 { [i // 8 >= 4] a[k, i // 8 - 4] * b[k, i % 8] } + [31 >= i] a[0, 0] } return x }"
    ) == [
        "x_part = build i < 32 { sum k < 9 { a[k, i // 8] * b[k, i % 8] } }",
        "x = build i < 64, j < 3 { [i >= 32] x_part[i - 32] + [31 >= i] a[0, 0] }",
    ]


def test_conditions_on_the_sum_s_own_variables_stay() -> None:
    assert separated(
        "f(a: f64[9, 4]) { x = build i < 12, j < 9 { sum k < 9 { [3 >= i, j >= k] a[k, i] } } return x }"
    ) == [
        "x_part = build i < 4, j < 9 { sum k < 9 { [j >= k] a[k, i] } }",
        "x = build i < 12, j < 9 { [3 >= i] x_part[i, j] }",
    ]


def test_what_counts_on_most_of_the_axis_or_is_short_stays() -> None:
    for text in (
        "x = build i < 12 { sum k < 9 { [9 >= i] a[k, i] } }",
        "x = build i < 12 { sum k < 4 { [3 >= i] a[k, i] } }",
    ):
        assert separated(f"f(a: f64[9, 10]) {{ {text} return x }}") == [text]
