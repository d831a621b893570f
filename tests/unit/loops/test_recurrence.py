"""Folds over elementwise bodies with the loops exchanged: what they compute, and which are left as they are."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.loops.memory.verify import verify_function
from pullback.loops.program.nodes import For, Function, Parallel, walk
from pullback.machine import SCALAR
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_program
from pullback.runtime.pool import pool_address

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

HORNER = """horner(x: f64[7], t: f64[N]) {
  zero = build n < N { f64(0.0) }
  value = fold j < 7 (v = zero) {
    w = build n < N { v[n] * t[n] + x[-j + 6] }
    yield w }
  return value }"""
SUMS = """sums(r: f64[N], t: f64[N], c: f64[9]) {
  last, moments, ends = fold j < 9 (v = r) {
    s = build { sum n < N { v[n] * c[j] } }
    e = build { sum n < N { v[n] * v[n] } }
    w = build n < N { v[n] * t[n] }
    yield w, s, e }
  return last, moments, ends }"""
PAIR = """pair(a: f64[N], b: f64[N], t: f64[N]) {
  c, d = fold j < 6 (x = a, y = b) {
    f = build n < N { x[n] * t[n] + y[n] }
    g = build n < N { x[n] - f[n] / (1.0 + as_f64(j)) }
    yield f, g }
  return c, d }"""
TURNED = """turned(a: f64[N], b: f64[N], t: f64[N]) {
  c, d = fold j < 6 (x = a, y = b) {
    f = build n < N { x[n] * t[n] + y[n] }
    g = build n < N { x[n] }
    yield f, g }
  return c, d }"""
ROWS = """rows(a: f32[N], w: f32[5, N]) {
  last, old, new = fold j < 5 (x = a) {
    h = build n < N { tanh(x[n]) * w[j, n] }
    y = build n < N { h[n] + x[n] * h[n] }
    yield y, x, h }
  return last, old, new }"""
PLANE = """plane(a: f64[6, N], row: f64[N], column: f64[6], c: f64[8]) {
  last, s = fold j < 8 (x = a) {
    y = build m < 6, n < N { x[m, n] * row[n] + column[m] * c[j] }
    t = build { sum m < 6, n < N { y[m, n] } }
    yield y, t }
  return last, s }"""
TRIPLES = """triples(a: f64[N, 3], c: f64[5, 3], e: f64[N]) {
  last, s = fold j < 5 (x = a) {
    y = build n < N, k < 3 { x[n, k] * c[j, k] + x[n, 0] * e[n] }
    t = build k < 3 { sum n < N { y[n, k] } }
    yield y, t }
  return last, s }"""
AROUND = """around(a: f64[N], c: f64[4, 5]) {
  last = fold i < 4 (x = a) {
    z = fold j < 5 (y = x) {
      w = build n < N { y[n] * c[i, j] + a[n] }
      yield w }
    yield z }
  return last }"""
EXCHANGED = {"horner": HORNER, "sums": SUMS, "pair": PAIR, "turned": TURNED, "rows": ROWS, "plane": PLANE,
             "triples": TRIPLES, "around": AROUND}  # fmt: skip

SHIFTED = """shifted(a: f64[100]) {
  last = fold j < 6 (x = a) {
    y = build n < 100 { x[n] * x[-n + 99] }
    yield y }
  return last }"""
TOTAL = """total(a: f64[100]) {
  last, s = fold j < 6 (x = a) {
    t = build { sum n < 100 { x[n] * x[n] } }
    y = build n < 100 { x[n] / t[] }
    yield y, t }
  return last, s }"""
SHORT = """short(a: f64[100], t: f64[100]) {
  last = fold j < 2 (x = a) {
    y = build n < 100 { x[n] * t[n] }
    yield y }
  return last }"""
GIVEN = """given(a: f64[100], t: f64[100]) {
  last, rows = fold j < 6 (x = a) {
    y = build n < 100 { x[n] * t[n] }
    yield y, t }
  return last, rows }"""
APART = {"shifted": SHIFTED, "total": TOTAL, "short": SHORT, "given": GIVEN}


def assert_same(program: Program, dims: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(0.5, 1.1, [int(str(d)) if str(d).isdigit() else dims[str(d)] for d in r.shape])
              .astype(r.dtype.numpy) for r in program.inputs]  # fmt: skip
    wanted = interpret(program, inputs, {})
    executable = compile_program(program, dims)
    verify_function(executable.lowered.function, executable.lowered.memory)
    got, peak, stray = executable.run_poisoned(inputs)
    assert (peak, stray) == (executable.lowered.memory.peak, 0)
    tolerance = 1e-10 if program.inputs[0].dtype.name == "f64" else 2e-4
    for w, g in zip(wanted, got, strict=True):
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(w).max())))


def loops_in_main(f: Function) -> int:
    """Loops of the function itself: a fold whose loops are exchanged is a call."""
    return sum(isinstance(s, For) for s in f.body)


@needs_compiler
@pytest.mark.parametrize("n", [141, 1000])
@pytest.mark.parametrize("name", EXCHANGED)
def test_exchanged_loops_compute_what_the_fold_does(name: str, n: int) -> None:
    program = parse_program(EXCHANGED[name])
    made = lower_program(program, {"N": n}).function
    assert loops_in_main(made) == (name == "around")
    assert_same(program, {"N": n})


@needs_compiler
@pytest.mark.parametrize("name", APART)
def test_points_that_know_of_one_another_and_few_steps_are_loops(name: str) -> None:
    program = parse_program(APART[name])
    assert loops_in_main(lower_program(program, {}).function) == 1
    assert_same(program, {})


def test_rows_that_leave_the_second_cache_are_written_in_order() -> None:
    program = parse_program(ROWS)
    assert loops_in_main(lower_program(program, {"N": 100}).function) == 0
    assert loops_in_main(lower_program(program, {"N": 100_000}).function) == 1


def test_exact_programs_keep_the_order() -> None:
    program = parse_program(SUMS)
    assert loops_in_main(lower_program(program, {"N": 100}, machine=SCALAR).function) == 1


@pytest.mark.skipif(not pool_address(2), reason="the system has no threads of this kind")
def test_blocks_of_points_are_shared_out() -> None:
    program = parse_program(SUMS)
    made = lower_program(program, {"N": 200_000}, threaded=True).function
    assert any(isinstance(s, Parallel) for s in walk(made.body))
    r, t, c = (np.random.default_rng(k).uniform(0.5, 1.0, n) for k, n in enumerate((200_000, 200_000, 9)))
    results = [compile_program(program, {"N": 200_000}, threads=k).run([r, t, c]) for k in (2, 3)]
    for w, *both in zip(interpret(program, [r, t, c], {}), *results, strict=True):
        np.testing.assert_allclose(both[0], w, rtol=1e-10)
        assert both[0].tobytes() == both[1].tobytes()
