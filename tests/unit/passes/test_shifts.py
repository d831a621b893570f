"""`passes.shifts`: products of which a shifted axis' conditions leave a part come before the shifts."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_statement
from pullback.ir.program import Choose, blocks_of
from pullback.ir.verify import verify
from pullback.passes.pipeline import optimize
from pullback.passes.shifts import shift_products
from pullback.runtime.compile import compiler_command
from pullback.runtime.executor import compile_general


def shifted(inputs: str, statement: str, *, infinite: bool = False) -> list[str]:
    program = parse_program(f"f({inputs}) {{ {statement} return x }}")
    result = shift_products(program)
    verify(result)
    arrays = [np.random.default_rng(0).normal(size=[e.constant for e in r.shape]) for r in program.inputs]
    if infinite:
        arrays[0].flat[3] = np.inf
    for a, b in zip(interpret(program, arrays), interpret(result, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    return [print_statement(s) for s in result.body.statements]


GRADIENT = """x = build c < 2, i < 12, j < 12 { 0.5 * sum o < 20, p < 5, q < 5 {
    [i >= p, j >= q, p + 7 >= i, q + 7 >= j] w[o, c, p, q] * g[o, i - p, j - q] } }"""


OPEN = """f(w: f64[O, C, P, Q], g: f64[O, I, J]) {
  x = build c < C, i < I + P - 1, j < J + Q - 1 { sum o < O, p < P, q < Q {
    [i >= p, j >= q, p + I - 1 >= i, q + J - 1 >= j] w[o, c, p, q] * g[o, i - p, j - q] } }
  return x }"""


def test_the_gradient_of_a_convolution_by_its_image() -> None:
    assert shifted("w: f64[20, 2, 5, 5], g: f64[20, 8, 8]", GRADIENT) == [
        "x_product = build c < 2, i < 12, q < 5, j < 8 { sum o < 20, p < 5 { [i >= p, p + 7 >= i] "
        "w[o, c, p, q] * g[o, i - p, j] } }",
        "x = build c < 2, i < 12, j < 12 { 0.5 * sum q < 5 { [j >= q, q + 7 >= j] x_product[c, i, q, j - q] } }",
    ]


def test_infinities_stay_where_they_are() -> None:
    assert len(shifted("w: f64[20, 2, 5, 5], g: f64[20, 8, 8]", GRADIENT, infinite=True)) == 2


def test_steps_and_offsets() -> None:
    assert shifted(
        "w: f64[90, 2, 3], g: f64[90, 10]",
        "x = build b < 3, c < 2, j < 16 { sum o < 90, q < 3 { [j + 2 * q >= 5, 14 >= j + 2 * q] "
        "w[o, c, q] * g[o, j + 2 * q - 5] } }",
    ) == [
        "x_product = build c < 2, q < 3, j < 10 { sum o < 90 { w[o, c, q] * g[o, j] } }",
        "x = build b < 3, c < 2, j < 16 { sum q < 3 { [14 >= j + 2 * q, j + 2 * q >= 5] "
        "x_product[c, q, j + 2 * q - 5] } }",
    ]


def test_what_saves_little_stays() -> None:
    few = "x = build j < 12 { sum o < 9, q < 5 { [j >= q, q + 7 >= j] w[o, q] * g[o, j - q] } }"
    assert len(shifted("w: f64[9, 5], g: f64[9, 8]", few)) == 1
    same = "x = build j < 12 { sum o < 900, q < 3 { [j + q >= 1, 12 >= j + q] w[o, q] * g[o, j + q - 1] } }"
    assert len(shifted("w: f64[900, 3], g: f64[900, 12]", same)) == 1


def test_terms_that_see_the_axis_otherwise_stay() -> None:
    text = "x = build j < 12 { sum o < 90, q < 5 { [j >= q, q + 7 >= j] w[o, q] * g[o, j - q] * h[j] } }"
    assert len(shifted("w: f64[90, 8], g: f64[90, 8], h: f64[12]", text)) == 1


def test_conditions_about_more_than_the_shift_stay() -> None:
    text = "x = build j < 12 { sum o < 90, q < 5 { [j >= q, q + 7 >= j, j >= o] w[o, q] * g[o, j - q] } }"
    assert len(shifted("w: f64[90, 5], g: f64[90, 8]", text)) == 1


def test_elements_must_exist_wherever_the_shift_goes() -> None:
    text = "x = build j < 9 { sum o < 900, q < 2 { [j + 2 >= q, q + 5 >= j] w[o, q] * g[o, j - q + 1] } }"
    assert len(shifted("w: f64[900, 2], g: f64[900, 7]", text)) == 1

@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("channels", [2, 20])
@pytest.mark.parametrize("side", [3, 8, 40])
def test_for_all_sizes_the_program_asks_what_pays(channels: int, side: int) -> None:
    """Few channels have borders or conditions, many channels of a small image products before shifts."""
    program = parse_program(OPEN)
    (choice,) = (s for s in optimize(program, {}).body.statements if isinstance(s, Choose))
    assert any(s.outs[0].name.endswith("_product") for b in blocks_of(choice) for s in b.statements)
    dims = {"O": channels, "C": 2, "P": 5, "Q": 5, "I": side, "J": side}
    rng = np.random.default_rng(side)
    inputs = [rng.normal(size=[dims[str(d)] for d in r.shape]) for r in program.inputs]
    (wanted,) = interpret(program, inputs)
    np.testing.assert_allclose(compile_general(program).at(dims).run(inputs)[0], wanted, rtol=1e-10, atol=1e-12)
