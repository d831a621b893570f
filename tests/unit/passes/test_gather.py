"""Small statements move up, large ones keep their order."""

from __future__ import annotations

from pullback.ir.parser import parse_program
from pullback.ir.traverse import specialise
from pullback.passes.gather import gather_neighbours

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
    program = gather_neighbours(specialise(parse_program(TEXT), {"N": 1000}))
    assert [s.outs[0].name for s in program.body.statements] == ["c", "y", "z", "t", "d", "w"]
