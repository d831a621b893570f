"""`passes.radix`: sums over blocks of which a datum names one element."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_statement
from pullback.passes.radix import sum_blocks


def summed(text: str) -> str:
    program = parse_program(text)
    result = sum_blocks(program)
    random = np.random.default_rng(0)
    arrays = [
        random.normal(size=shape) if r.dtype.is_floating else random.integers(0, 2, shape)
        for r in program.inputs
        for shape in [[e.constant for e in r.shape]]
    ]
    for a, b in zip(interpret(program, arrays), interpret(result, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    return print_statement(result.body.statements[0])


def test_one_element_of_each_block_in_two_axes() -> None:
    guard = "2 * (i % 2) + j % 2 == data(p[i // 2, j // 2], 4)"
    assert summed(
        "f(p: i64[3, 4], g: f64[3, 4]) { b = build { sum i < 6, j < 8 "
        f"{{ [{guard}] g[i // 2, j // 2] }} }} return b }}"
    ) == "b = build { sum i < 3, j < 4 { g[i, j] } }"


def test_other_variables_stay() -> None:
    assert summed(
        "f(p: i64[3, 5], g: f64[3, 5]) { b = build { sum n < 5, i < 6 "
        "{ [i % 2 == data(p[i // 2, n], 2)] g[i // 2, n] } } return b }"
    ) == "b = build { sum n < 5, i < 3 { g[i, n] } }"


@pytest.mark.parametrize(
    "value",
    [
        "[i % 2 == data(p[i // 2], 3)] g[i // 2]",  # a datum that may name none
        "[i % 2 == data(p[i // 2], 2)] x[i]",  # the place is read
        "[i % 2 == data(p[i // 3], 2)] g[i // 2]",  # blocks of two sizes
        "[2 * (i % 2) == data(p[i // 2], 2)] g[i // 2]",  # no number of the place
        "[i % 2 >= data(p[i // 2], 2)] g[i // 2]",
    ],
)
def test_what_stays_as_it_is(value: str) -> None:
    text = f"b = build {{ sum i < 6 {{ {value} }} }}"
    made = summed(f"f(p: i64[3], g: f64[3], x: f64[6]) {{ {text} return b }}")
    assert made.startswith("b = build { sum i < 6 {")


def test_a_datum_of_each_place_is_none_of_the_block() -> None:
    text = "f(p: i64[2], g: f64[12]) { b = build { sum i < 24 { [i % 2 == data(p[i % 2], 2)] g[i // 2] } } return b }"
    assert summed(text) == "b = build { sum i < 24 { [i % 2 == data(p[i % 2], 2)] g[i // 2] } }"


def test_blocks_that_do_not_fill_the_axis_stay() -> None:
    text = "b = build { sum i < 7 { [i % 2 == data(p[i // 2], 2)] g[i // 2] } }"
    assert summed(f"f(p: i64[4], g: f64[4]) {{ {text} return b }}") == text
