"""Small statements leave the loops that do not change them."""

from __future__ import annotations

import numpy as np

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.traverse import specialize
from pullback.ir.verify import verify
from pullback.passes.hoist import hoist_small

TEXT = """f(x: f64[N], p0: f64[N], z: f64[T]) {
  p = fold t < T (q = p0) {
    s = build { sum n < N { x[n] } }
    c = build { s * 2.0 }
    d = build { q[0] + z[t] }
    r = build n < N { q[n] * c + d + x[n] }
    yield r }
  return p }"""


def test_what_no_trip_changes_stands_before_the_loop() -> None:
    program = specialize(parse_program(TEXT), {"N": 100, "T": 3})
    made = hoist_small(program)
    verify(made)
    assert [s.outs[0].name for s in made.body.statements] == ["s", "c", "p"]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(100), rng.standard_normal(100), rng.standard_normal(3)]
    np.testing.assert_array_equal(interpret(made, inputs)[0], interpret(program, inputs)[0])


def test_a_loop_of_no_trip_keeps_its_statements() -> None:
    program = parse_program(TEXT)
    assert hoist_small(program).body.statements[0].outs[0].name == "p"


CONVERSIONS = """f(a: f64[], x: f32[N], k: i64[M], z: f64[M]) {
  y = build n < N { f32(a / 3.0) * x[n] }
  w = build n < N { f32(a / 3.0) + x[n] + f32(z[check(k[0], M)]) }
  s = build m < M { sum n < N { f32(z[m]) * x[n] } }
  return y, w, s }"""


def test_a_number_is_converted_once() -> None:
    """Those that depend on an index of the statement, or are read at one that is data, stay where they are."""
    program = specialize(parse_program(CONVERSIONS), {"N": 100, "M": 3})
    made = hoist_small(program)
    verify(made)
    assert [(s.outs[0].name, len(s.outs[0].shape)) for s in made.body.statements] == [
        ("a", 0), ("y", 1), ("w", 1), ("s", 1)
    ]
    rng = np.random.default_rng(0)
    x = rng.standard_normal(100).astype(np.float32)
    inputs = [np.array(2.5), x, np.array([2, 0, 1]), rng.standard_normal(3)]
    for found, expected in zip(interpret(made, inputs), interpret(program, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)
