"""Statements that are equal up to names are lowered once: kernels in common, places and working memory of their own."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.memory.verify import verify_function
from pullback.loops.program.nodes import Call, Function, Kernel, walk
from pullback.machine import GENERIC
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program, print_lowered
from pullback.runtime.executor import compile_program

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

LAYERS = """layers(x: f32[40, 64], u: f32[64, 64], v: f32[64, 64], w: f32[64, 64]) {
  a = build n < 40, k < 64 { sum m < 64 { x[n, m] * u[m, k] } }
  b = build i < 40, j < 64 { sum l < 64 { a[i, l] * v[l, j] } }
  c = build n < 40, k < 64 { sum m < 64 { b[n, m] * w[m, k] } }
  return c }"""
CHECKED = """checked(x: f64[8], at: i64[20], by: i64[20]) {
  a = build n < 20 { x[check(at[n], 8)] }
  b = build n < 20 { x[check(by[n], 8)] }
  return a, b }"""
ALIASED = """aliased(x: f64[30]) {
  a = build n < 30 { sum m < 30 { x[n] * x[m] } }
  b = build n < 30 { sum m < 30 { x[n] * a[m] } }
  return a, b }"""


def kernels(f: Function) -> list[Kernel]:
    return [s.kernel for s in walk(f.body) if isinstance(s, Call)]


def test_equal_layers_have_one_kernel() -> None:
    made = lower_program(parse_program(LAYERS), {}, machine=GENERIC)
    found = kernels(made.function)
    assert found[1] is found[2]  # their older operand is the weights, that of the first is not
    assert print_lowered(made).text.count("static void") == 2
    verify_function(made.function, made.memory)


def test_range_checks_name_their_own_arrays() -> None:
    made = lower_program(parse_program(CHECKED), {})
    assert [s.statement for s in print_lowered(made).sites] == ["a", "b"]


def test_the_same_array_twice_is_another_kernel() -> None:
    assert len(set(kernels(lower_program(parse_program(ALIASED), {}).function))) == 2


@needs_compiler
def test_layers_give_what_they_say() -> None:
    program = parse_program(LAYERS)
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(s).astype(np.float32) for s in ((40, 64), (64, 64), (64, 64), (64, 64))]
    outputs, untouched, _ = compile_program(program, {}).run_poisoned(arrays)
    assert untouched
    np.testing.assert_allclose(outputs[0], interpret(program, arrays)[0], rtol=1e-3, atol=1e-2)
