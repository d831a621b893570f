"""Small statements move up, large ones keep their order."""

from __future__ import annotations

from pullback.ir.parser import parse_program
from pullback.ir.traverse import specialize
from pullback.ir.verify import verify
from pullback.passes.gather import gather_neighbors

TEXT = """
mixed(x: f64[N], s: f64[]) {
  y = build n < N { x[n] * x[n] }
  c = build { sqrt(s) }
  z = build n < N { c * y[n] }
  t = build { sum n < N { z[n] } }
  d = build { c / t }
  w = build n < N { d * z[n] }
  return w }
"""


def test_small_statements_are_as_early_as_what_they_read() -> None:
    program = gather_neighbors(specialize(parse_program(TEXT), {"N": 1000}))
    assert [s.outs[0].name for s in program.body.statements] == ["c", "y", "z", "t", "d", "w"]


def test_statements_stay_behind_those_that_are_not_much_larger() -> None:
    """`d` with 20 elements could pass `a` and `b`, but not `c` with 100, which stands between."""
    program = parse_program("""f(x: f64[1000], y: f64[100], z: f64[20]) {
      a = build n < 1000 { 2.0 * x[n] }
      b = build n < 1000 { 3.0 * x[n] }
      c = build n < 100 { 2.0 * y[n] }
      d = build n < 20 { 2.0 * z[n] }
      return a, b, c, d }""")
    assert [s.outs[0].name for s in gather_neighbors(program).body.statements] == ["a", "b", "c", "d"]


STEP = """
adam(p: f64[N], q: f64[N], g: f64[N], h: f64[N], m: f64[N], o: f64[N]) {
  a = build n < N { 0.9 * m[n] + 0.1 * g[n] }
  b = build n < N { 0.9 * o[n] + 0.1 * h[n] }
  c = build n < N { p[n] - a[n] }
  r = build n < N { b[N - 1 - n] + q[n] }
  d = build n < N { q[n] - b[n] }
  return a, b, c, r, d }
"""


def test_results_stand_beside_what_they_are_made_of() -> None:
    """One that is read elsewhere than at its own point is no neighbor; none moves past what reads its operands."""
    program = gather_neighbors(specialize(parse_program(STEP), {"N": 1000}))
    assert [s.outs[0].name for s in program.body.statements] == ["a", "c", "b", "r", "d"]
    verify(program)
