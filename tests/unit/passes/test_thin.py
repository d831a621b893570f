"""`passes.thin`: terms that hold at one place of an axis are summed apart."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir import nodes as ir
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.traverse import walk
from pullback.ir.verify import verify
from pullback.passes.thin import separate_thin_terms
from pullback.runtime.executor import compile_program

TEXT = """thin(x: f64[12, 5], a: f64[4, 5], t in [0, 12): i64) {{
  y = build k < 12, i < 4 {{ sum j < 5 {{ x[k, j] * a[i, j] {more} }} }}
  return y }}"""
SEPARATED = {
    "one": "+ [k == 3] a[i, j] * a[i, j]",
    "by_data": "+ [k == data(t, 12)] a[i, j]",
    "nested": "+ [i == 1] [k + 2 == data(t, 12)] a[i, j] * x[0, j]",
    "with_a_range": "+ [k == 2, j >= 2] a[i, j - 2]",
    "several": "+ [k == 3] a[i, j] + [k == 4, i >= 2] x[i, j] + [11 == k + j] a[i, j]",
}
LEFT = {"short": "+ [i == 2] x[k, j]", "of_the_sum": "+ [k == j] a[i, j]", "a_range": "+ [k >= 3] a[i, j]", "none": ""}


def sums(program: ir.Program) -> int:
    """The number of sums in its only statement."""
    (s,) = program.body.statements
    assert isinstance(s, ir.Build)
    return sum(isinstance(n, ir.Reduce) for n in walk(s.values[0]))


@pytest.mark.parametrize("name", [*SEPARATED, *LEFT])
def test_values(name: str) -> None:
    program = parse_program(TEXT.format(more=(SEPARATED | LEFT)[name]))
    made = separate_thin_terms(program)
    verify(made)
    assert (sums(made) > 1) is (name in SEPARATED)
    random = np.random.default_rng(0)
    x, a = random.normal(size=(12, 5)), random.normal(size=(4, 5))
    for t in (0, 2, 11):
        (wanted,) = interpret(program, [x, a, np.int64(t)])
        np.testing.assert_allclose(interpret(made, [x, a, np.int64(t)])[0], wanted, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(compile_program(program, {}).run([x, a, np.array(t)])[0], wanted, rtol=1e-13)
