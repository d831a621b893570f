"""Shrinking keeps the bug and drops the rest."""

import numpy as np

from pullback.ir.expr import Apply
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.program import Build, walk_statements
from pullback.ir.traverse import walk
from tests.support.programs import random_program
from tests.support.shrink import shrink


def has(name):
    def fails(p):
        return any(isinstance(e, Apply) and e.primitive.name == name for s in walk_statements(p.body)
                   if isinstance(s, Build) for v in s.values for e in walk(v))
    return fails


def test_what_the_bug_needs_is_left():
    p = parse_program("""f(x: f64[N], y: f64[N]) {
      a = build i < N { x[i] * y[i] + 3.0 }
      b = build i < N { exp(a[i]) + sin(x[i] + y[i]) * 2.0 }
      c = build i < N { a[i] + b[i] }
      s, t = fold k < N (u = c, v = a) {
        r = build i < N { u[i] + v[i] }
        yield r, v }
      return a, c, s }""")
    assert print_program(shrink(p, has("sin"))) == """\
f(x: f64[N], y: f64[N]) {
  b = build i < N { sin(x[i]) }
  return b }
"""


def test_random_programs_become_small():
    for seed in range(3):
        p = random_program(np.random.default_rng(seed)).program
        first = next(r for s in p.body.statements for r in s.outs)
        small = shrink(p, lambda q, dtype=first.dtype: any(r.dtype is dtype for s in q.body.statements for r in s.outs))
        assert len(small.outputs) == 1 and len(small.body.statements) == 1
