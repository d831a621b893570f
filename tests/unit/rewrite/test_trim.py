"""Trimming: arrays that are read at part of their places are computed there alone; others stay."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.verify import verify
from pullback.rewrite.trim import trim

CASES = [
    (  # a window that slides over borders, whose results at the borders nothing reads: no condition is left
        """
f(x: f64[8], w: f64[3]) {
  m = build i < 8, k < 3 { [8 >= i + k, i + k >= 1] x[i + k - 1] * w[k] }
  y = build i < 8 { sum k < 3 { m[i, k] } }
  z = build i < 6 { y[i + 1] }
  q = build { sum i < 6 { y[i + 1] * y[i + 1] } }
  return z, q }
""",
        """
f(x: f64[8], w: f64[3]) {
  m = build i < 6, k < 3 { x[i + k] * w[k] }
  y = build i < 6 { sum k < 3 { m[i, k] } }
  z = build i < 6 { y[i] }
  q = build { sum i < 6 { y[i] * y[i] } }
  return z, q }
""",
    ),
    (  # from a dim on
        """
f(x: f64[N], k: f64[K]) where N >= K {
  y = build i < N { 2.0 * x[i] }
  z = build i < N - K { y[i + K] + k[0] }
  return z }
""",
        """
f(x: f64[N], k: f64[K]) where N >= K {
  y = build i < N - K { 2.0 * x[i + K] }
  z = build i < N - K { y[i] + k[0] }
  return z }
""",
    ),
]
KEPT = [
    """
f(x: f64[8]) {
  y = build i < 8 { 2.0 * x[i] }
  z = build i < 6 { y[i + 1] + y[i] }
  return z }
""",  # two places
    """
f(x: f64[8]) {
  y = build i < 8 { 2.0 * x[i] }
  z = build i < 6 { y[i + 1] }
  return y, z }
""",  # a result
    """
f(x: f64[8]) {
  y = build i < 8 { 2.0 * x[i] }
  z = build i < 4 { y[2 * i] }
  return z }
""",  # steps
    """
f(x: f64[8]) {
  y = build i < 8 { 2.0 * x[i] }
  z = build i < 8 { [6 >= i] y[i + 1] }
  return z }
""",  # beyond the array, under a condition
]


@pytest.mark.parametrize(("before", "after"), CASES)
def test_trimmed(before: str, after: str) -> None:
    p = parse_program(before)
    q = trim(p)
    verify(q)
    assert print_program(q).strip() == after.strip()
    sizes = {"N": 7, "K": 3}
    arrays = [
        np.random.default_rng(k).normal(size=[e.constant or sizes[str(e)] for e in r.shape])
        for k, r in enumerate(p.inputs)
    ]
    np.testing.assert_equal(interpret(q, arrays), interpret(p, arrays))


@pytest.mark.parametrize("text", KEPT)
def test_kept(text: str) -> None:
    p = parse_program(text)
    assert trim(p) is p
