"""Single statements as plain loops: every division is one, short rows are tested in each place."""

from __future__ import annotations

import numpy as np

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.runtime.emit import c_source
from pullback.runtime.executor import compile_program

TEXT = "f(x: f64[], y: f64[]) { z = build { 1.0 / x / x + y / x + y / sqrt(x) } return z }"


def test_divisions_are_as_written() -> None:
    """A reciprocal of a subnormal number is infinite."""
    program = parse_program(TEXT)
    assert c_source(program, {}, comments=False).count(" / ") == 4
    inputs = [np.array(0.3), np.array(-1.7)]
    (wanted,) = interpret(program, inputs, {})
    (found,) = compile_program(program, {}).run(inputs)
    np.testing.assert_array_equal(found, wanted)


def test_short_rows_with_one_element_are_tested() -> None:
    text = "unit(x: f64[B, N]) {{ y = build b < B, i < N, j < N {{ [i == j] {} }} return y }}"
    for value in ("f64(-1.0)", "x[b, j]"):
        program = parse_program(text.format(value))
        for n in (1, 3, 7, 9):
            inputs = [np.random.default_rng(n).random((5, n))]
            assert ("memset" in c_source(program, {"B": 5, "N": n}, comments=False)) == (n == 9)
            (wanted,) = interpret(program, inputs)
            (found,) = compile_program(program, {"B": 5, "N": n}).run(inputs)
            np.testing.assert_array_equal(found, wanted)
