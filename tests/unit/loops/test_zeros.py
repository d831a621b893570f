"""Products with arrays that are zero above their diagonal or in a border: what is found, left out, and computed."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.index import Var, as_index
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.analysis.zeros import zeros
from pullback.loops.program.nodes import Call, LetIndex, walk
from pullback.machine import AVX512
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
    found = zeros(program.body)
    assert {r.name: z.triangle for r, z in found.items()} == {"low": (0, 1), "high": (1, 0)}


def test_the_inside_of_a_border() -> None:
    program = parse_program(
        """t(x: f64[5, 6]) {
          p = build i < 9, j < 6 { [i >= 2, 6 - i >= 0] x[i - 2, j] }
          left = build i < 5, j < 7 { [j >= 1] x[i, j - 1] }
          sum = build i < 5, j < 7 { [j >= 1] x[i, j - 1] + x[i, 0] }
          return p, left, sum }"""
    )
    found = {r.name: z.inside for r, z in zeros(program.body).items()}
    assert found == {"p": ((as_index(2), as_index(6)), None), "left": (None, (as_index(1), as_index(6)))}


CONVOLUTION = """convolution(x: f32[2, 40, 14, 28], w: f32[64, 40, {u}, {v}]) {{
  p = build n < 2, c < 40, i < {rows}, j < {columns} {{ [i >= {top}, {top} + 13 - i >= 0, j >= 1, 28 - j >= 0]
    x[n, c, i - {top}, j - 1] }}
  y = build n < 2, o < 64, i < {high}, j < 28 {{ sum c < 40, u < {u}, v < {v} {{
    w[o, c, u, v] * p[n, c, {stride} * i + {dilation} * u, j + v] }} }}
  return y }}"""
LAST = """last(x: f32[1, 14, 14, 256], w: f32[3, 3, 256, 64]) {
  p = build n < 1, i < 16, j < 16, c < 256 { [i >= 1, 14 - i >= 0, j >= 1, 14 - j >= 0] x[n, i - 1, j - 1, c] }
  y = build n < 1, i < 14, j < 14, o < 64 { sum u < 3, v < 3, c < 256 { w[u, v, c, o] * p[n, i + u, j + v, c] } }
  return y }"""


def convolution(u: int, top: int, stride: int = 1, dilation: int = 1) -> str:
    """A convolution with u rows in its window and a border of so many rows."""
    rows = 14 + 2 * top
    high = (rows - 1 - dilation * (u - 1)) // stride + 1
    return CONVOLUTION.format(u=u, v=3, top=top, rows=rows, columns=30, high=high, stride=stride, dilation=dilation)


def computed(text: str) -> set[str]:
    """The names of indices that say which steps of a product are inside."""
    made = lower_program(parse_program(text), {}, machine=AVX512).function
    kernels = (s.kernel for s in walk(made.body) if isinstance(s, Call))
    lets = (s.var.name for k in kernels for s in walk(k.body) if isinstance(s, LetIndex) and isinstance(s.var, Var))
    return {name for name in lets if name.startswith(("first", "last", "inside", "outside"))}


def test_steps_in_a_border_are_left_out() -> None:
    assert {"first1", "last1"} <= computed(convolution(3, 1))
    assert {"first1", "last1"} <= computed(convolution(5, 4, stride=2))
    assert not computed(convolution(3, 2, dilation=2))  # not every step is inside or outside by its distance alone
    assert not computed(convolution(3, 0))
    assert {"outside0", "inside"} <= computed(LAST)


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("text", [
    convolution(3, 1), convolution(3, 4), convolution(5, 4, stride=2), convolution(3, 2, dilation=2), LAST,
])  # fmt: skip
def test_convolutions_are_the_same(text: str) -> None:
    program = parse_program(text)
    random = np.random.default_rng(0)
    x, w = (random.integers(-3, 4, [d.constant or 0 for d in r.shape]).astype(np.float32) for r in program.inputs)
    (got,) = compile_program(program, {}).run([x, w])
    np.testing.assert_array_equal(got, interpret(program, [x, w], {})[0])  # all sums are exact


def test_sums_end_with_the_triangle() -> None:
    assert steps(PRODUCTS) == [True, False, True, False]


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_products_are_the_same() -> None:
    program = parse_program(PRODUCTS)
    random = np.random.default_rng(0)
    inputs = [random.normal(size=[d.constant or 0 for d in r.shape]) for r in program.inputs]
    for want, got in zip(interpret(program, inputs, {}), compile_program(program, {}).run(inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
