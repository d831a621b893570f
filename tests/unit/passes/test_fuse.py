"""Fusion of stages of a stencil: large arrays read at a few constant distances are computed again by their readers."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Build, Program
from pullback.ir.traverse import specialize
from pullback.passes.pipeline import optimize
from pullback.runtime.executor import compile_program

STAGES = """stages(x: f64[N], u: f64[N]) {
  a = build n < N { x[n] * ([n >= 1] u[n - 1] + [0 >= n] 1.0) }
  b = build n < N { x[n] * ([n >= 1] (u[n - 1] + 0.5 * a[n - 1]) + [0 >= n] 1.0) }
  y = build n < N { u[n] + a[n] + b[n] }
  return y }"""

SQUARES = """squares(u: f64[N, N]) {
  a = build i < N, j < N { SUM u }
  y = build i < N, j < N { SUM a }
  return y }""".replace(
    "SUM u", "u[i, j] + 0.1 * ([i >= 1] u[i - 1, j] + [N - 2 >= i] u[i + 1, j]) + 0.2 * ([j >= 1] u[i, j - 1])"
).replace("SUM a", "a[i, j] + 0.1 * ([i >= 1] a[i - 1, j] + [N - 2 >= i] a[i + 1, j]) + 0.2 * ([j >= 1] a[i, j - 1])")


def builds(program: Program) -> int:
    return sum(isinstance(s, Build) for s in program.body.statements)


@pytest.mark.parametrize(("size", "left"), [(300, 2), (20_000, 2), (200_000, 1)])
def test_large_stages_go_into_their_readers(size: int, left: int) -> None:
    program = parse_program(STAGES)
    assert builds(optimize(program, {"N": size})) == left
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(size), rng.standard_normal(size)]
    (wanted,) = interpret(program, inputs, {"N": size})
    np.testing.assert_allclose(compile_program(program, {"N": size}).run(inputs)[0], wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("element", "left"), [("[n >= 1] a[n - 1]", 1), ("a[N - 1 - n]", 2), ("a[n // 2]", 2)])
def test_stages_that_are_read_at_no_constant_distance_are_stored(element: str, left: int) -> None:
    text = f"""f(x: f64[N], u: f64[N]) {{
      a = build n < N {{ x[n] * u[n] + u[n] * u[n] + 0.5 * x[n] + u[n] }}
      y = build n < N {{ x[n] + a[n] + {element} }}
      return y }}"""
    assert builds(optimize(parse_program(text), {"N": 200_000})) == left


def test_what_is_read_at_many_distances_or_has_borders_along_two_axes_is_stored() -> None:
    assert builds(optimize(specialize(parse_program(SQUARES), {"N": 200}), {})) == 2
