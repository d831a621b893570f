"""Conditions, choices, integers and casts on the vector axis: vectors with masks, the same values at every width."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from pullback.ir.dims import evaluate
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import emit_c
from pullback.runtime.executor import compile_general
from tests.widths import WIDTHS, run_all_at

Array = np.ndarray[Any, Any]
needs_c = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

# programs that have vectors, and dims
VECTORS = {
    "relu": "relu(x: f32[N, M], g: f32[N, M]) { y = build n < N, m < M { x[n, m] > 0.0 ? g[n, m] : 0.0 } return y }",
    "units": """units(x: f32[1, N, 1, M]) { y = build k < 1, n < N, l < 1, m < M {
      [m >= n] x[k, n, l, m] } return y }""",
    "causal": "causal(x: f32[N, N]) { y = build i < N, j < N { [i >= j] x[i, j] + [j >= i + 1] -1000.0 } return y }",
    "stencil": """stencil(x: f64[N, M]) { y = build i < N, j < M {
      [i >= 1] x[i - 1, j] + [N - 2 >= i] x[i + 1, j] + [j >= 1] x[i, j - 1] + [M - 2 >= j] x[i, j + 1]
      + -4.0 * x[i, j] } return y }""",
    "diagonal": """diagonal(x: f32[M], z: f32[N]) { y = build i < N, j < M {
      [i + j >= 3] [M + 2 >= i + j] x[i + j - 3] + z[i] } return y }""",
    "labels": """labels(t: i32[N], x: f32[N, M]) { y = build n < N, m < M {
      t[n] == as_i32(m) ? x[n, m] - 1.0 : x[n, m] } return y }""",
    "wide": """wide(t: i64[M], x: f32[N, M]) { y = build n < N, m < M {
      f32(t[m]) * x[n, m] + f32(t[m] > as_i64(n)) } return y }""",
    "halves": """halves(x: f32[N, M]) { y = build n < N, m < M {
      [m % 2 == n % 2] x[n, m] * as_f32(m // 2 + n) } return y }""",
    "thirds": "thirds(x: f64[N, M]) { y = build n < N, m < M { [m % 3 == n % 3] x[n, m] + as_f64(m // 3) } return y }",
    "above": "above(x: f32[N, M]) { y = build n < N, m < M { x[n, m] > 0.5 && logical_not(isnan(x[n, m])) } return y }",
    "masked": """masked(b: bool[N, M], x: f64[N, M]) { y = build n < N, m < M {
      b[n, m] ? x[n, m] : exp(-x[n, m]) } return y }""",
    "integers": """integers(a: i32[N, M], b: i32[N, M]) { y = build n < N, m < M {
      maximum(a[n, m] * 1234567 + b[n, m], as_i32(m)) } return y }""",
    "bits": "bits(a: u8[N, M], b: u8[N, M]) { y = build n < N, m < M { bitwise_and(a[n, m], b[n, m]) } return y }",
    "shifts": """shifts(t: u64[N, M]) { y = build n < N, m < M { log(f64(t[n, m] * 1234567890123456789 >> 11) + 0.5) }
      return y }""",
    "signed shifts": """shifts(t: i32[N, M]) { y = build n < N, m < M { exp(f32(t[n, m] - 10 >> 2)) } return y }""",
    "short shifts": """shifts(t: u8[N, M], s: i16[N, M]) { y = build n < N, m < M {
      f32(t[n, m] * 13 >> 7) - f32(s[n, m] * -1234 >> 3) } return y }""",
    "window": """window(x: f32[N, 2 * M]) { y = build n < N, m < M {
      u8(argmax p < 2 { x[n, 2 * m + p] }) } return y }""",
    "pooled": """pooled(y: f32[N, M], a: u8[N, M]) { x = build n < N, m < 2 * M {
      [m % 2 == data(a[n, m // 2], 2)] y[n, m // 2] } return x }""",
    "banded": """banded(x: f32[N, M]) { y = build n < N, m < M {
      sum p < 3 { [m + p >= 1] [M >= m + p] x[n, m + p - 1] * as_f32(p + 1) } } return y }""",
    "shifted": """shifted(t: f32[N, 5, 8]) { y = build n < N, j < 12 {
      0.5 * sum q < 5 { [j >= q, q + 7 >= j] t[n, q, j - q] } } return y }""",
    "ends": """ends(t: f64[N, 3, 9], w: f64[M + 2]) { y = build n < N, j < 11 {
      sum q < 3 { [j >= q, q + 8 >= j] w[q] * t[n, q, j - q] } } return y }""",
    "chosen": """chosen(t: u8[M], w: f32[7]) { y = build m < M {
      sum k < 7 { [k >= data(t[m], 20)] w[k] } } return y }""",
    "diagonals": """diagonals(g: f64[5 * N, 3 * M]) { y = build i < 5 * N + 3 * M {
      sum r < 5 * N { [i >= r, r + 3 * M - 1 >= i] maximum(g[r, i - r], g[0, 0]) } } return y }""",
    "rising": """rising(g: f32[5 * N, 3 * M], w: f32[5 * N]) { y = build i < 3 * M {
      max r < 5 * N { [i + r >= 7] [2 * r + 3 >= i] w[r] * g[r, i] } } return y }""",
    "nowhere": """nowhere(t: f32[N, 4]) { y = build n < N, j < 16 {
      sum q < 5 { [j >= q + 9, q + 12 >= j] t[n, j - q - 9] } } return y }""",
    "trailing": """trailing(x: f64[N, M], y: f32[M]) { z = fold t < 3 (a = x) {
      r = build m < M { sum k < N { a[k, m] * f64(y[m]) } }
      b = build n < N, m < M { a[n, m] + [n >= t + 1, m >= 2 * t + 1] f64(as_i64(n)) * r[m] } yield b } return z }""",
    "some rows": """rows(x: f32[N, M], y: f32[M]) { z = fold t < 3 (a = x) {
      r = build m < M { sum k < N { a[k, m] * y[m] } }
      b = build n < N, m < M { a[n, m] + [n >= t, t + 1 >= n, 9 >= m] r[m] } yield b } return z }""",
    "middle": """middle(x: f64[N, M], y: f64[M]) { z = fold t < 3 (a = x) {
      r = build m < M { sum k < N { a[k, m] * y[m] } }
      b = build n < N, m < M { a[n, m] + [t + 2 >= n, m >= t + 1, t + 11 >= m] -r[m] } yield b } return z }""",
    "bool": """bools(b: bool[N, M], c: bool[N, M]) { y = build n < N, m < M {
      b[n, m] == c[n, m] || b[n, m] && [m >= n] true } return y }""",
}


def given(program: Program, dims: dict[str, int]) -> list[Array]:
    rng = np.random.default_rng(0)
    out: list[Array] = []
    for r in program.inputs:
        shape = tuple(evaluate(d, dims) for d in r.shape)
        if r.dtype.is_floating:
            out.append(rng.normal(size=shape).astype(r.dtype.numpy))
        else:
            out.append(rng.integers(0, 2 if r.dtype.is_bool or r.name == "a" else 20, shape).astype(r.dtype.numpy))
    return out


def has_vectors(text: str) -> bool:
    return re.search(r"pb_[fiu]\d+x\d+ \w+ = ", text) is not None


@pytest.mark.parametrize("name", VECTORS)
def test_has_vectors(name: str) -> None:
    assert has_vectors(emit_c(parse_program(VECTORS[name]), {"N": 20, "M": 37}).text)


def test_updates_in_place_pass_over_what_changes_alone() -> None:
    """Rows and vectors without a change are not read; a few elements of each row are loops of their own."""
    text = emit_c(parse_program(VECTORS["trailing"]), {"N": 20, "M": 37}).text
    assert re.search(r"n = t \+ 1; n < 20", text)
    assert re.search(r"m = t / 2; m < 9;", text)
    narrow = VECTORS["middle"].replace("t + 11", "t + 3")
    assert re.search(r"m = t \+ 1; m < t \+ 4", emit_c(parse_program(narrow), {"N": 20, "M": 37}).text)


@pytest.mark.slow
@needs_c
@pytest.mark.parametrize(("vector_bytes", "flags"), WIDTHS, ids=["16", "32", "64", "portable"])
def test_values(vector_bytes: int, flags: tuple[str, ...]) -> None:
    names = [(name, {"N": n, "M": m}) for name in VECTORS for n, m in ((20, 37), (3, 16), (33, 5))]
    programs = {name: parse_program(text) for name, text in VECTORS.items()}
    runs = [(programs[name], dims, given(programs[name], dims)) for name, dims in names]
    for case, run, outputs in zip(names, runs, run_all_at(runs, vector_bytes, flags), strict=True):
        for g, w in zip(outputs, interpret(run[0], run[2], {}), strict=True):
            single = w.dtype == np.float32
            tolerances = (1e-5, 1e-6) if single else (1e-13, 1e-15)
            np.testing.assert_allclose(g, w, *tolerances, err_msg=str(case))


OPEN = ("relu", "causal", "stencil", "diagonal", "above", "masked", "bits", "window", "bool")


@pytest.mark.parametrize("name", OPEN)
def test_has_vectors_for_all_sizes(name: str) -> None:
    assert has_vectors(emit_c(parse_program(VECTORS[name]), {}).text)


@needs_c
@pytest.mark.parametrize("name", VECTORS)
def test_values_for_all_sizes(name: str) -> None:
    program = parse_program(VECTORS[name])
    general = compile_general(program)
    for n, m in ((1, 1), (2, 3), (20, 4), (3, 7), (3, 8), (9, 9), (2, 15), (17, 16), (2, 17), (33, 5), (7, 67)):
        dims = {"N": n, "M": m}
        inputs = given(program, dims)
        outputs, peak, stray = general.at(dims).run_poisoned(inputs)
        assert not stray
        assert peak <= general.at(dims).arena_bytes
        for g, w in zip(outputs, interpret(program, inputs, {}), strict=True):
            single = w.dtype == np.float32
            np.testing.assert_allclose(g, w, rtol=1e-5 if single else 1e-13, atol=1e-6 if single else 1e-15)


def test_windows_of_shifted_rows_need_masks_at_their_ends_only() -> None:
    text = emit_c(parse_program(VECTORS["shifted"]), {"N": 20, "M": 37}).text
    assert "pb_choose" not in text
    assert text.count(" = pb_load_") == 7  # of nine loads: the first of 8 lanes and the last of 4 are whole
