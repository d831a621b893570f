"""Positions of extremes in vectors, against NumPy: ties, NaN, infinities, rows, and what reads them."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from pullback.ir.parser import parse_program
from pullback.loops.program.nodes import Call, walk
from pullback.machine import AVX512
from pullback.passes.pipeline import optimize
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_general, compile_program

pytestmark = pytest.mark.skipif(not any(shutil.which(n) for n in ("cc", "gcc", "clang")), reason="no C compiler")
Array = np.ndarray[Any, Any]


def position(x: Array, op: str) -> int:
    t = "f32" if x.dtype == np.float32 else "f64"
    program = parse_program(f"where(x: {t}[N]) {{ p = build {{ arg{op} n < N {{ x[n] }} }}  return p }}")
    return int(compile_program(program, {"N": len(x)}).run([x])[0][()])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [12, 13, 16, 19, 25, 31, 64, 100, 256, 259, 512, 1000, 1031])
def test_first_of_the_extremes(n: int, dtype: type) -> None:
    rng = np.random.default_rng(n)
    for trial in range(12):
        x = rng.integers(-3, 4, n).astype(dtype) if trial % 2 else rng.normal(size=n).astype(dtype)
        if trial % 3 == 1:
            x[rng.integers(n, size=2)] = np.nan
        if trial % 4 == 2:
            x[rng.integers(n, size=3)] = rng.choice([np.inf, -np.inf])
        assert position(x, "max") == int(np.argmax(x))
        assert position(x, "min") == int(np.argmin(x))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("n", range(2, 12))
def test_rows_of_a_few_elements(n: int, dtype: str) -> None:
    """One row lies in each lane; no branch depends on the elements."""
    text = f"rows(x: {dtype}[M, {n}]) {{ p = build m < M {{ argmin j < {n} {{ x[m, j] }} }} return p }}"
    program = parse_program(text)
    rng = np.random.default_rng(n)
    for m in (40, 61):
        x = rng.integers(-3, 4, (m, n)).astype(dtype.replace("f", "float"))
        x[rng.integers(m, size=5), rng.integers(n, size=5)] = rng.choice([np.nan, np.inf, -np.inf], size=5)
        np.testing.assert_array_equal(compile_program(program, {"M": m}).run([x])[0], np.argmin(x, axis=1))
    kernels = [s.kernel for s in walk(lower_program(program, {"M": 61}, machine=AVX512).function.body)
               if isinstance(s, Call)]
    assert [k.choice.name for k in kernels if k.choice] == ["masked"]


@pytest.mark.parametrize("n", [64 * 256, 20_037])
def test_first_of_the_extremes_of_many_blocks(n: int) -> None:
    rng = np.random.default_rng(n)
    for trial in range(6):
        x = rng.integers(-3, 4, n).astype(np.float32) if trial % 2 else rng.normal(size=n).astype(np.float32)
        if trial % 3 == 1:
            x[rng.integers(n, size=2)] = np.nan
        assert position(x, "max") == int(np.argmax(x))
        assert position(x, "min") == int(np.argmin(x))
    assert position(np.full(n, -np.inf), "max") == 0


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", ["max", "min"])
def test_first_of_the_extremes_of_any_number(dtype: str, op: str) -> None:
    text = f"where(x: {dtype}[M, N]) {{ p = build m < M {{ arg{op} n < N {{ x[m, n] }} }}  return p }}"
    program = parse_program(text)
    assert any(isinstance(s, Call) and s.kernel.choice and s.kernel.choice.name == "position"
               for s in walk(lower_program(program, {}).function.body))
    general = compile_general(program)
    for n in (1, 2, 7, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 320, 521, 20_037):
        rng = np.random.default_rng(n)
        x = rng.integers(-3, 4, (6, n)).astype(dtype.replace("f", "float"))
        x[1], x[2] = -np.inf, np.nan
        x[3, rng.integers(n, size=2)] = np.nan
        x[4, rng.integers(n, size=2)] = -np.inf
        x[5, rng.integers(n, size=2)] = np.inf
        (found,) = general.at({"M": 6, "N": n}).run([x])
        np.testing.assert_array_equal(found, (np.argmax if op == "max" else np.argmin)(x, axis=1))


def test_nothing_but_the_worst() -> None:
    assert position(np.full(300, -np.inf), "max") == 0
    assert position(np.full(300, np.nan), "min") == 0


def test_rows_of_an_expression() -> None:
    program = parse_program("""
rows(x: f64[M, N], w: f64[N]) {
  p = build m < M { argmax n < N { x[m, n] * w[n] } }
  return p }
""")
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(7, 300)), rng.normal(size=300)
    (found,) = compile_program(program, {"M": 7, "N": 300}).run([x, w])
    assert found.tolist() == (x * w).argmax(1).tolist()


def test_a_maximum_is_read_at_its_position() -> None:
    program = parse_program("""
both(x: f64[N]) {
  m = build { max n < N { x[n] } }
  y = build n < N { x[n] - m }
  p in [0, N) = build { argmax n < N { x[n] } }
  z = build n < N { y[n] + [n == data(p, N)] m }
  return y, z }
""")
    x = np.random.default_rng(1).normal(size=200)
    optimized = optimize(program, {"N": 200})
    assert [s.outs[0].name for s in optimized.body.statements][:2] == ["p", "m"]
    y, z = compile_program(program, {"N": 200}).run([x])
    np.testing.assert_allclose(y, x - x.max())
    np.testing.assert_allclose(z, y + (np.arange(200) == x.argmax()) * x.max())


@pytest.mark.parametrize("n", [9, 40])
def test_terms_on_a_part_are_written_apart(n: int) -> None:
    """[i == j] and the like: zeros or the rest everywhere, then a loop over the part."""
    program = parse_program("""
parts(x: f64[N], a: f64[N, N]) {
  d = build i < N, j < N { [i == j] x[i] }
  e = build i < N, j < N { a[i, j] + [i + j == N - 1] x[i] + [i == 2] a[j, i] }
  f = build i < N, j < N { [2 * i == j + 1] a[i, j] }
  return d, e, f }
""")
    rng = np.random.default_rng(n)
    x, a = rng.normal(size=n), rng.normal(size=(n, n))
    d, e, f = compile_program(program, {"N": n}).run([x, a])
    i, j = np.indices((n, n))
    np.testing.assert_array_equal(d, np.diag(x))
    np.testing.assert_allclose(e, a + (i + j == n - 1) * x[:, None] + (i == 2) * a.T, rtol=1e-15)
    np.testing.assert_array_equal(f, (2 * i == j + 1) * a)
