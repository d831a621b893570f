"""Operation counts of programs, as in the header of generated C."""

from __future__ import annotations

import pytest

from pullback.ir.parser import parse_program
from pullback.passes.arithmetic import count_operations


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("x[n] * y[n]", "N"),
        ("(x[n] + y[n]) * (x[n] + y[n])", "2 * N"),  # the sum is computed once
        ("(x[n] + y[n]) * (x[n] - y[n])", "4 * N"),
    ],
)
def test_shared_parts_count_once(value: str, count: str) -> None:
    program = parse_program(f"f(x: f64[N], y: f64[N]) {{ z = build n < N {{ {value} }} return z }}")
    assert str(count_operations(program.body)) == count
