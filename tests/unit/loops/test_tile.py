"""`loops.vectors.tile`: what a vector kernel takes, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.runtime.compile import compiler_command
from pullback.runtime.executor import compile_general, compile_program


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize(
    "value",
    [
        "[i == k] 2.0 + sum t < N { [i == k] f64(2.0) }",  # the same expression, once a test around the sum's step
        "sum t < N { [i == k] x[t] } * ([i == k] x[i])",
        "sum t < N { [i >= t] x[t] } + sum t < N { 0.5 * ([i >= t] x[t]) }",
    ],
)
def test_a_condition_around_a_sum_and_elsewhere(value: str) -> None:
    program = parse_program(f"f(x: f64[N]) {{ y = build i < N, k < N {{ {value} }} return y }}")
    for n in (4, 37):
        x = np.random.default_rng(n).normal(size=n)
        (wanted,) = interpret(program, [x])
        for executable in (compile_program(program, {"N": n}), compile_general(program).at({"N": n})):
            np.testing.assert_allclose(executable.run([x])[0], wanted, rtol=1e-12)
