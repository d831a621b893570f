"""Orders of statements: heights, what is alive, and that an order never needs more than the one written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.ir.settings import Settings
from pullback.ir.traverse import specialize
from pullback.ir.verify import verify
from pullback.loops.memory.ordering import block_bytes, schedule, steps
from pullback.loops.plain.storage import replaced_arguments
from tests.support.programs import random_program

TWO_CHAINS = """chains(x: f64[N]) {
  a = build n < N, m < N { x[n] * x[m] }
  b = build n < N, m < N { x[n] + x[m] }
  c = build { sum n < N, m < N { a[n, m] } }
  d = build { sum n < N, m < N { b[n, m] } }
  return c, d }"""


def names(program: Program) -> list[str]:
    return [o.name for s in program.body.statements for o in s.outs]


def test_each_of_two_chains_is_run_to_its_end() -> None:
    program = specialize(parse_program(TWO_CHAINS), {"N": 10})
    ordered = schedule(program)
    assert names(ordered) == ["b", "d", "a", "c"]
    assert block_bytes(program.body) == 2 * 800
    assert block_bytes(ordered.body) == 800


def test_what_is_alive_after_each_statement() -> None:
    program = specialize(parse_program(TWO_CHAINS), {"N": 10})
    shown = [(s.outs[0].name, s.height, [r.name for r in s.live]) for s in steps(program.body)]
    assert shown == [("b", 0, ["b"]), ("d", 1, []), ("a", 0, ["a"]), ("c", 1, [])]


def test_blocks_inside_are_ordered_too() -> None:
    inner = "\n".join(TWO_CHAINS.splitlines()[1:-1])
    text = f"""loop(x: f64[N]) {{
      s = fold t < 3 (y = x) {{ {inner}
        z = build n < N {{ y[n] + c + d }}
        yield z }}
      return s }}"""
    program = specialize(parse_program(text.replace("x[", "y[")), {"N": 10})
    (before,), (after,) = program.body.statements, schedule(program).body.statements
    assert block_bytes(before.body) >= 2 * 800
    assert block_bytes(after.body) <= 816


STEP = """step(w: f64[10], x: f64[10]) {
  a = build n < 10, m < 10 { w[n] * x[m] }
  b = build n < 10, m < 10 { w[n] + x[m] }
  c = build { sum n < 10, m < 10 { a[n, m] } }
  d = build { sum n < 10, m < 10 { b[n, m] } }
  e = build { c * 2.0 }
  v = build n < 10 { w[n] + d }
  return e, v }"""


def test_what_reads_an_argument_that_is_given_away_comes_before_what_is_written_over_it() -> None:
    program = replace(parse_program(STEP), settings=Settings(donate=(0,)))
    ordered = schedule(program)
    assert names(ordered) == ["a", "c", "e", "b", "d", "v"]  # else the chain of v would be the first
    assert [(new.name, old.name) for new, old in replaced_arguments(ordered).items()] == [("v", "w")]


@pytest.mark.parametrize("seed", range(30))
def test_an_order_computes_the_same_and_needs_no_more(seed: int) -> None:
    case = random_program(np.random.default_rng(seed))
    program = specialize(case.program, case.dims)
    ordered = schedule(program)
    verify(ordered)
    assert block_bytes(ordered.body) <= block_bytes(program.body)
    with np.errstate(all="ignore"):
        for a, b in zip(interpret(program, case.inputs, {}), interpret(ordered, case.inputs, {}), strict=True):
            np.testing.assert_array_equal(a, b)
