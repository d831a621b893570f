"""Products with arrays that are zero above their diagonal: what is found, what is left out, what it computes."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import walk_statements
from pullback.loops.analysis.triangles import triangles
from pullback.loops.program.nodes import Call, walk
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_program

PRODUCTS = """products(d: f64[3, 70], l: f64[3, 70, 70], x: f64[90, 70]) {
  q = build k < 3, i < 70, j < 70 { [i == j] exp(d[k, i]) + [i >= j + 1] l[k, i, j] }
  y = build k < 3, n < 90, r < 70 { sum c < 70 { x[n, c] * q[k, r, c] } }
  z = build k < 3, n < 90, c < 70 { sum r < 70 { x[n, r] * q[k, r, c] } }
  w = build r < 70, n < 90 { sum c < 70 { q[1, r, c] * x[n, c] } }
  v = build k < 3, n < 90, r < 70 { sum c < 70 { x[n, c] * l[k, r, c] } }
  return y, z, w, v }"""


def steps(text: str) -> list[bool]:
    """For each kernel with tiles of a packed product, whether some end before the sum does."""
    made = lower_program(parse_program(text), {}).function
    out = []
    for s in walk(made.body):
        inner = [c for c in walk(s.kernel.body) if isinstance(c, Call)] if isinstance(s, Call) else []
        tiles = [c for c in inner if c.kernel.name.startswith("multiply")]
        if tiles:
            out.append(any(i.constant != 70 for c in tiles for p, i in _numbers(c) if p == "steps"))
    return out


def _numbers(c: Call) -> list[tuple[str, object]]:
    assert c.indices is not None
    return [(str(p.name), i) for p, i in zip(c.kernel.indices, c.indices, strict=True)]


def test_what_conditions_say() -> None:
    program = parse_program(
        """t(x: f64[5, 5], y: f64[5, 6]) {
          low = build i < 5, j < 5 { [i >= j] x[i, j] }
          high = build i < 5, j < 5 { [j >= i + 1] x[i, j] }
          full = build i < 5, j < 5 { [i >= j] x[i, j] + x[j, i] }
          long = build i < 5, j < 6 { [i >= j] y[i, j] }
          return low, high, full, long }"""
    )
    found = triangles(walk_statements(program.body))
    assert {r.name: axes for r, axes in found.items()} == {"low": (0, 1), "high": (1, 0)}


def test_sums_end_with_the_triangle() -> None:
    assert steps(PRODUCTS) == [True, False, True, False]


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_products_are_the_same() -> None:
    program = parse_program(PRODUCTS)
    random = np.random.default_rng(0)
    inputs = [random.normal(size=[d.constant or 0 for d in r.shape]) for r in program.inputs]
    for want, got in zip(interpret(program, inputs, {}), compile_program(program, {}).run(inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
