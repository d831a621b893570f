"""Products with arrays that are zero above their diagonal: what is found, what is left out, what it computes."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import walk_statements
from pullback.loops.analysis.triangles import half_read, triangles
from pullback.loops.program.nodes import Call, For, If, walk
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


TILES = """tiles(d: f64[32, 32], x: f64[90, 32], m: f64[32]) {
  q = build i < 32, j < 32 { [i >= j] d[i, j] }
  t = build j < 32, i < 32 { q[i, j] }
  y = build n < 90, r < 32 { sum c < 32 { t[c, r] * (x[n, c] - m[c]) } }
  z = build r < 32, n < 32 { sum c < 32 { t[c, r] * abs(x[n, c]) } }
  w = build n < 90, c < 32 { sum r < 32 { t[c, r] * (x[n, r] - m[r]) } }
  return y, z, w }"""


def test_a_copy_of_a_triangle_is_one() -> None:
    found = triangles(walk_statements(parse_program(TILES).body))
    assert {r.name: axes for r, axes in found.items()} == {"q": (0, 1), "t": (1, 0)}


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_tiles_end_with_the_triangle() -> None:
    program = parse_program(TILES)
    rng = np.random.default_rng(0)
    d, x, m = rng.standard_normal((32, 32)), rng.standard_normal((90, 32)), rng.standard_normal(32)
    calls = [c for c in walk(lower_program(program, {}).function.body) if isinstance(c, Call)]
    bounds = {c.kernel.name: [f.upper for f in walk(c.kernel.body) if isinstance(f, For)] for c in calls}
    assert {n for n, uppers in bounds.items() if any(u.free for u in uppers)} == {"y"}
    low = np.tril(d)
    expected = (x - m) @ low.T, low @ np.abs(x[:32]).T, (x - m) @ low
    for found, wanted in zip(compile_program(program, {}).run([d, x, m]), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


HALF = """half(y: f64[300, 130], z: f64[300, 130], x: f64[300, 130], at: i64[4]) {
  low = build i < 130, j < 130 { sum n < 300 { z[n, i] * x[n, j] } }
  high = build i < 130, j < 130 { 2.0 * x[0, i] + sum n < 300 { y[n, i] * x[n, j] } }
  full = build i < 130, j < 130 { sum n < 300 { x[n, i] * x[n, j] } }
  once = build i < 130, j < 130 { sum n < 300 { x[n, i] * x[n, j] } }
  some = build i < 130, j < 130 { sum n < 300 { z[n, j] * x[n, i] } }
  a = build i < 130, j < 130 { [i >= j] low[i, j] }
  b = build i < 130 { low[i, i] + high[i, i] + full[i, i] }
  c = build i < 130, j < 130 { [j >= i + 3] high[i, j] + [i >= j] full[i, j] + [j >= i] full[i, j] }
  e = build k < 4 { [k >= 1] some[data(at[k], 130), k] }
  return a, b, c, once, e }"""


def test_what_is_read_of_an_array() -> None:
    found = half_read(parse_program(HALF).body)
    assert {r.name: axes for r, axes in found.items()} == {"low": (0, 1), "high": (1, 0)}


@pytest.mark.slow
@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_tiles_that_nothing_reads_are_left_out() -> None:
    program = parse_program(HALF)
    made = lower_program(program, {}).function
    kernels = [s.kernel for s in walk(made.body) if isinstance(s, Call)]
    tests = {k.name: [t for t in walk(k.body) if isinstance(t, If)] for k in kernels}
    assert {name for name, found in tests.items() if found} == {"low", "high"}
    rng = np.random.default_rng(0)
    y, z, x = rng.standard_normal((3, 300, 130))
    at = np.array([3, 0, 129, 5])
    run = compile_program(program, {}).run_poisoned([y, z, x, at])
    low, full = z.T @ x, x.T @ x
    high, some = y.T @ x + 2 * x[0][:, None], low.T
    rows, columns = np.indices((130, 130))
    e = np.where(np.arange(4) >= 1, some[at, np.arange(4)], 0.0)
    expected = (
        np.tril(low),
        np.diag(low + high + full),
        high * (columns >= rows + 3) + full * (1 + np.eye(130)),
        full,
        e,
    )
    for found, wanted in zip(run.outputs, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
