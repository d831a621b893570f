"""Long names: a signature that does not fit a line still is one."""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.runtime.emit import c_source


def test_a_name_longer_than_a_line_keeps_its_parenthesis() -> None:
    name = "f" * 130
    program = parse_program(f"{name}(x: f64[3]) {{ y = build n < 3 {{ sin(x[n]) }} return y }}")
    assert f"int {name}(const double *restrict x,\n" in c_source(program, {})
    assert interpret(program, [np.zeros(3)])[0].tolist() == [0.0, 0.0, 0.0]


def test_twelve_derivatives_of_sine() -> None:
    @pb.function
    def derived(x: float) -> object:
        return pb.sin(x)

    for _ in range(12):
        derived = pb.jacobian(derived, mode="mixed")
    assert float(derived(0.5)) == np.sin(0.5)
