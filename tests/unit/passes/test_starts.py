"""Loops that begin with one constant array have one each."""

from __future__ import annotations

import numpy as np

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.traverse import specialize
from pullback.ir.verify import verify
from pullback.passes.starts import separate_starts
from pullback.runtime.emit import lower_program

TEXT = """twice(x: f64[T, N]) {
  z = build n < N { f64(0.5) }
  s = fold t < T (a = z) { b = build n < N { a[n] * 0.5 + x[t, n] }  yield b }
  y = build n < N { s[n] * s[N - 1 - n] }
  r = fold t < T (c = z) { d = build n < N { c[n] * x[t, N - 1 - n] + y[n] }  yield d }
  return r }"""
DIMS = {"T": 5, "N": 1000}


def test_each_loop_has_its_own() -> None:
    program = specialize(parse_program(TEXT), DIMS)
    made = separate_starts(program)
    verify(made)
    assert len(made.body.statements) == len(program.body.statements) + 1
    x = np.random.default_rng(0).standard_normal((5, 1000))
    np.testing.assert_array_equal(interpret(made, [x], {})[0], interpret(program, [x], {})[0])
    assert print_program(separate_starts(made)) == print_program(made)


def test_nothing_is_copied_and_nothing_waits() -> None:
    """The state of the first loop, and what is made of it: the second loop begins in the result."""
    lowered = lower_program(parse_program(TEXT), DIMS)
    assert lowered.memory.bytes <= 3 * 8 * 1000


def test_what_reads_an_array_stays() -> None:
    program = parse_program(TEXT.replace("{ f64(0.5) }", "{ x[0, n] }"))
    assert print_program(separate_starts(program)) == print_program(program)
