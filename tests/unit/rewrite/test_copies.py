"""Copies: what is read at its source, what is computed in the copy's place, what stays."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.program import Program
from pullback.ir.verify import verify
from pullback.rewrite.copies import absorb_copied, inline_copies, tidy
from pullback.rewrite.cse import eliminate_dead


def inlined(p: Program) -> Program:
    return eliminate_dead(inline_copies(p))


CASES = [
    (
        inlined,
        """
f(x: f64[N, M]) {
  one = build { f64(1.0) }
  t = build m < M, n < N { x[n, m] }
  y = build m < M { sum n < N { t[m, n] * one } }
  return y }
""",
        """
f(x: f64[N, M]) {
  y = build m < M { sum n < N { x[n, m] } }
  return y }
""",
    ),
    (
        absorb_copied,
        """
f(x: f64[N, M]) {
  t = build n < N, m < M { exp(x[n, m]) }
  y = build m < M, n < N { t[n, m] }
  return y }
""",
        """
f(x: f64[N, M]) {
  y = build m < M, n < N { exp(x[n, m]) }
  return y }
""",
    ),
    (
        tidy,
        """
f(x: f64[N]) {
  e = build k < N, i < N { [k == i] f64(1.0) }
  a = build k < N, i < N { sum j < N { e[k, j] * e[i, j] } }
  y = build i < N { sum k < N { a[k, i] * x[k] } }
  return y }
""",
        """
f(x: f64[N]) {
  y = build i < N { x[i] }
  return y }
""",
    ),
]

KEPT = [
    # read twice: computed once
    (
        absorb_copied,
        """
f(x: f64[N]) {
  t = build n < N { exp(x[n]) }
  y = build n < N { t[n] }
  z = build n < N { t[n] + y[n] }
  return z }
""",
    ),
    # a diagonal is no permutation of axes
    (
        absorb_copied,
        """
f(x: f64[N]) {
  t = build n < N, m < N { exp(x[n] * x[m]) }
  y = build n < N { t[n, n] }
  return y }
""",
    ),
    # integers may be indices of something
    (
        inlined,
        """
f(x: i64[N]) {
  t = build n < N { x[n] }
  y = build n < N { t[n] + 1 }
  return y }
""",
    ),
]


def parsed(text: str) -> Program:
    p = parse_program(text)
    verify(p)
    return p


@pytest.mark.parametrize(("apply", "before", "after"), CASES)
def test_before_and_after(apply, before, after):
    p = parsed(before)
    found = apply(p)
    verify(found)
    assert print_program(found).strip() == after.strip()
    x = np.random.default_rng(0).standard_normal((3,) if p.inputs[0].rank == 1 else (3, 2))
    np.testing.assert_allclose(interpret(found, [x])[0], interpret(p, [x])[0], rtol=1e-14)


@pytest.mark.parametrize(("apply", "text"), KEPT)
def test_what_stays(apply, text):
    assert print_program(apply(parsed(text))).strip() == text.strip()
