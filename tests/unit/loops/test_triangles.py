"""Tiles that end with a triangle, copies of triangles, and halves of results that nothing reads."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.parser import parse_program
from pullback.loops.analysis.triangles import half_read
from pullback.loops.analysis.zeros import zeros
from pullback.loops.program.nodes import Call, For, If, walk
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_program

TILES = """tiles(d: f64[32, 32], x: f64[90, 32], m: f64[32]) {
  q = build i < 32, j < 32 { [i >= j] d[i, j] }
  t = build j < 32, i < 32 { q[i, j] }
  y = build n < 90, r < 32 { sum c < 32 { t[c, r] * (x[n, c] - m[c]) } }
  z = build r < 32, n < 32 { sum c < 32 { t[c, r] * abs(x[n, c]) } }
  w = build n < 90, c < 32 { sum r < 32 { t[c, r] * (x[n, r] - m[r]) } }
  return y, z, w }"""


def test_a_copy_of_a_triangle_is_one() -> None:
    found = zeros(parse_program(TILES).body)
    assert {r.name: z.triangle for r, z in found.items()} == {"q": (0, 1), "t": (1, 0)}


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


# With 145 columns some tiles touch the diagonal in one corner alone.
HALF = """half(y: f64[300, 145], z: f64[300, 145], x: f64[300, 145], at: i64[4]) {
  low = build i < 145, j < 145 { sum n < 300 { z[n, i] * x[n, j] } }
  high = build i < 145, j < 145 { 2.0 * x[0, i] + sum n < 300 { y[n, i] * x[n, j] } }
  full = build i < 145, j < 145 { sum n < 300 { x[n, i] * x[n, j] } }
  once = build i < 145, j < 145 { sum n < 300 { x[n, i] * x[n, j] } }
  some = build i < 145, j < 145 { sum n < 300 { z[n, j] * x[n, i] } }
  a = build i < 145, j < 145 { [i >= j] low[i, j] }
  b = build i < 145 { low[i, i] + high[i, i] + full[i, i] }
  c = build i < 145, j < 145 { [j >= i + 3] high[i, j] + [i >= j] full[i, j] + [j >= i] full[i, j] }
  e = build k < 4 { [k >= 1] some[data(at[k], 145), k] }
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
    y, z, x = rng.standard_normal((3, 300, 145))
    at = np.array([3, 0, 144, 5])
    run = compile_program(program, {}).run_poisoned([y, z, x, at])
    low, full = z.T @ x, x.T @ x
    high, some = y.T @ x + 2 * x[0][:, None], low.T
    rows, columns = np.indices((145, 145))
    e = np.where(np.arange(4) >= 1, some[at, np.arange(4)], 0.0)
    expected = (
        np.tril(low),
        np.diag(low + high + full),
        high * (columns >= rows + 3) + full * (1 + np.eye(145)),
        full,
        e,
    )
    for found, wanted in zip(run.outputs, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
