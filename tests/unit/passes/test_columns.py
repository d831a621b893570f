"""`passes.columns`: operands that vectors would gather from columns are stored transposed."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir import nodes as ir
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Build
from pullback.ir.verify import verify
from pullback.machine import AVX512, SCALAR
from pullback.passes.columns import transpose_operands
from pullback.runtime.executor import compile_program

DISTANCES = """f(x: f64[100, 9], c: f64[12, 9]) {
  y = build i < 100, j < 12 { sum d < 9 { (x[i, d] - c[j, d]) * (x[i, d] - c[j, d]) } } return y }"""
DENSITIES = """f(x: f64[100, 9], m: f64[3, 9], q: f64[3, 12, 9]) {
  y = build i < 100, k < 3, r < 12 { 2.0 * sum c < 9 { q[k, r, c] * (x[i, c] - m[k, c]) } } return y }"""
TURNED = {"distances": (DISTANCES, ["c_turned"]), "densities": (DENSITIES, ["q_turned"])}
LEFT = {
    "a product": DISTANCES.replace("(x[i, d] - c[j, d]) * (x[i, d] - c[j, d])", "x[i, d] * c[j, d]"),
    "products": DISTANCES.replace("(x[i, d] - c[j, d]) * (x[i, d] - c[j, d])", "[i == 0] x[i, d] * c[j, d] - c[j, d]"),
    "few results": DISTANCES.replace("100", "20"),
    "a short sum": DISTANCES.replace("9", "5"),
    "in rows already": DISTANCES.replace("f64[12, 9]", "f64[9, 12]").replace("c[j, d]", "c[d, j]"),
    "a large array": DENSITIES.replace("3", "3000"),
    "a part": DISTANCES.replace("f64[12, 9]", "f64[12, 10]"),
}


def arrays(program: ir.Program) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    random = np.random.default_rng(0)
    return [random.normal(size=[d.constant or 0 for d in r.shape]) for r in program.inputs]


@pytest.mark.parametrize("name", TURNED)
def test_transposed(name: str) -> None:
    text, names = TURNED[name]
    program = parse_program(text)
    made = transpose_operands(program, AVX512)
    verify(made)
    builds = [s for s in made.body.statements if isinstance(s, Build)]
    assert [s.outs[0].name for s in builds[:-1]] == names
    given = arrays(program)
    (wanted,) = interpret(program, given)
    np.testing.assert_allclose(interpret(made, given)[0], wanted, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(compile_program(program, {}).run(given)[0], wanted, rtol=1e-12, atol=1e-13)
    assert transpose_operands(program, SCALAR) is program


@pytest.mark.parametrize("name", LEFT)
def test_left_as_they_are(name: str) -> None:
    program = parse_program(LEFT[name])
    assert len(transpose_operands(program, AVX512).body.statements) == 1
