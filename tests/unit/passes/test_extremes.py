"""`passes.extremes`: an extreme is read where its position is known."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.verify import verify
from pullback.passes.extremes import read_extremes


def made(text: str) -> list[str]:
    program = parse_program(text)
    result = read_extremes(program)
    verify(result)
    arrays = [np.random.default_rng(0).normal(size=[e.constant for e in r.shape]) for r in program.inputs]
    for a, b in zip(interpret(program, arrays), interpret(result, arrays), strict=True):
        np.testing.assert_array_equal(a, b)
    return [line.strip() for line in print_program(result).splitlines()[1:] if not line.strip().startswith("return")]


@pytest.mark.parametrize("op", ["max", "min"])
def test_the_position_comes_first_and_is_read(op: str) -> None:
    text = (f"f(x: f64[3, 5]) {{ m = build i < 3 {{ {op} n < 5 {{ x[i, n] }} }} "
            f"p in [0, 5) = build j < 3 {{ arg{op} k < 5 {{ x[j, k] }} }} return m, p }}")  # fmt: skip
    assert made(text) == [
        f"p in [0, 5) = build j < 3 {{ arg{op} k < 5 {{ x[j, k] }} }}",
        "m = build i < 3 { x[i, data(p[i], 5)] }",
    ]


@pytest.mark.parametrize(
    "extreme",
    [
        "m = build i < 3 { min n < 5 { x[i, n] } }",  # of the other end
        "m = build i < 3 { max n < 5 { y[i, n] } }",  # of another array
        "m = build i < 3 { max n < 4 { x[i, n] } }",  # of fewer
        "m = build i < 2 { max n < 5 { x[i, n] } }",  # at fewer places
    ],
)
def test_another_extreme_stays(extreme: str) -> None:
    position = "p in [0, 5) = build j < 3 { argmax k < 5 { x[j, k] } }"
    assert made(f"f(x: f64[3, 5], y: f64[3, 5]) {{ {extreme} {position} return m, p }}") == [extreme, position]


def test_inside_of_loops() -> None:
    lines = made("""f(x: f64[3, 5]) {
        z = build { f64(0.0) }
        s, p = fold t < 3 (s0 = z) {
            m = build { s0[] + max n < 5 { x[t, n] } }
            q in [0, 5) = build { argmax k < 5 { x[t, k] } }
            yield m, q }
        return s, p }""")
    assert "m = build { s0 + x[t, data(q, 5)] }" in lines
