"""One division for each square root: the products it becomes, and numbers at the ends of the types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pullback.ir import nodes as ir
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.program import Program, walk_statements
from pullback.ir.settings import Settings
from pullback.ir.traverse import walk
from pullback.passes.pipeline import optimize
from pullback.passes.roots import share_reciprocals
from pullback.runtime.compile import compiler_command
from pullback.runtime.executor import compile_program

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

FORCE = """force(s: TYPE[N], x: TYPE[N]) {
  y = build n < N { x[n] / sqrt(s[n]) / sqrt(s[n]) * (0.5 / sqrt(s[n])) }
  return y }"""
ONCE = """once(s: f64[N], x: f64[N]) {
  y = build n < N { x[n] / sqrt(s[n]) + s[n] / sqrt(x[n]) }
  return y }"""
OTHERS = """others(s: f64[N], x: f64[N]) {
  y = build n < N { x[n] / s[n] / s[n] + 0.5 / s[n] }
  return y }"""


def divisions(program: Program) -> int:
    found = {n for s in walk_statements(program.body) if isinstance(s, ir.Build) for v in s.values for n in walk(v)}
    return sum(isinstance(n, ir.Apply) and n.primitive.name == "divide" for n in found)


def test_a_root_divides_once() -> None:
    program = parse_program(FORCE.replace("TYPE", "f64"))
    assert (divisions(program), divisions(share_reciprocals(program))) == (3, 1)
    assert divisions(optimize(program, {"N": 20})) == 1


@pytest.mark.parametrize("text", [ONCE, OTHERS])
def test_single_quotients_and_other_divisors_stay(text: str) -> None:
    program = parse_program(text)
    assert divisions(share_reciprocals(program)) == divisions(program)


def test_a_root_that_divides_once_beside_another_stays() -> None:
    text = FORCE.replace("TYPE", "f64").replace("0.5 / sqrt(s[n])", "0.5 / sqrt(s[n]) + s[n] / sqrt(x[n])")
    found = share_reciprocals(parse_program(text))
    assert divisions(found) == 2
    assert "s[n] / sqrt(x[n])" in print_program(found)


def test_exact_programs_keep_their_divisions() -> None:
    program = replace(parse_program(FORCE.replace("TYPE", "f64")), settings=Settings(exact=True))
    assert divisions(optimize(program, {"N": 20})) == 3


@needs_compiler
@pytest.mark.parametrize(("dtype", "places"), [(np.float64, 3e-16), (np.float32, 3e-7)])
def test_numbers_at_the_ends_of_the_types(dtype: type, places: float) -> None:
    info = np.finfo(dtype)
    ends = np.array([0.0, info.smallest_subnormal, info.tiny, 1.0, 3.0, info.max, np.inf, np.nan, -1.0], dtype)
    normal = ends[np.abs(ends) != info.smallest_subnormal]  # numbers go first in products: half of it is 0
    s, x = (a.ravel() for a in np.meshgrid(ends, np.concatenate([normal, -normal])))
    program = parse_program(FORCE.replace("TYPE", "f64" if dtype is np.float64 else "f32"))
    with np.errstate(all="ignore"):
        (wanted,) = interpret(program, [s, x], {"N": len(s)})
    (got,) = compile_program(program, {"N": len(s)}).run([s, x])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted))
    fine = np.isfinite(wanted)
    np.testing.assert_allclose(got[fine], wanted[fine], rtol=4 * places, atol=4 * float(info.tiny))
