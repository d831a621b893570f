"""Factors in one order: what is equal looks equal, values stay, exact programs keep the order of long products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.settings import Settings
from pullback.ir.verify import verify
from pullback.passes.commute import commute
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from tests.support.programs import random_program

TEXT = """f(a: f64[N], b: f64[N], s: f64[]) {
  u = build n < N { exp(a[n]) }
  v = build n < N { u[n] * b[n] * s * 2.0 }
  w = build n < N { s * b[n] * 2.0 * u[n] }
  return v, w }"""


def test_the_order() -> None:
    text = print_program(commute(parse_program(TEXT)))
    assert text.count("2.0 * s * b[n] * u[n]") == 2


def test_equal_products_are_computed_once() -> None:
    program = eliminate_dead(eliminate_common(commute(parse_program(TEXT))))
    assert len(program.body.statements) == 2


def test_exact_programs_keep_the_order_of_long_products() -> None:
    program = replace(parse_program(TEXT), settings=Settings(exact=True))
    assert print_program(commute(program)) == print_program(program)
    two = parse_program("f(a: f64[N], s: f64[]) { v = build n < N { a[n] * s } return v }")
    assert "s * a[n]" in print_program(commute(replace(two, settings=Settings(exact=True))))


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("seed", range(40))
def test_values_stay(seed: int) -> None:
    case = random_program(np.random.default_rng(seed))
    changed = commute(case.program)
    verify(changed)
    before, after = (interpret(p, list(case.inputs), case.sizes) for p in (case.program, changed))
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4 if a.dtype == np.float32 else 1e-10)
