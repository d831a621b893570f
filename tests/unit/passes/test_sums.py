"""`passes.sums`: sums of products taken apart."""

from __future__ import annotations

import numpy as np

import pullback.prim  # noqa: F401  (registers the primitives)
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.passes.sums import rearrange_sums


def test_a_variable_that_no_factor_has() -> None:
    program = parse_program(
        "f(x: f64[3, 4], w: f64[4]) { y = build i < 3 { sum a < 4, b < 50 { x[i, a] * w[a] } } return y }"
    )
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(3, 4)), random.normal(size=4)]
    (before,), (after,) = interpret(program, arrays), interpret(rearrange_sums(program), arrays)
    np.testing.assert_allclose(before, after, rtol=1e-12)
