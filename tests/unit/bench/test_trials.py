"""Schedules that are wished for: each is what was asked for, and computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.trials import recorded, schedule_trial, variations
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Build, Program
from pullback.ir.traverse import specialize
from pullback.loops.program.nodes import kernels_of
from pullback.loops.program.schedule import Pack, Schedule, Tile, Vector, Wish
from pullback.machine import GENERIC
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from pullback.runtime.timing import Called, arguments, kernel_seconds

PRODUCT = "f(x: f32[I, K], y: f32[K, J]) { z = build i < I, j < J { sum k < K { x[i, k] * y[k, j] } } return z }"
PROGRAMS = {
    "tile": (PRODUCT, {"I": 48, "J": 37, "K": 7}, 5),
    "packed": (PRODUCT, {"I": 61, "J": 83, "K": 40}, 5),
    "rows": ("f(x: f64[I, K]) { y = build i < I { sum k < K { x[i, k] * x[i, k] } } return y }", {"I": 24, "K": 43}, 4),
    "values": ("f(x: f64[I, J]) { y = build j < J, i < I { sum k < 3 { x[i, j] } } return y }", {"I": 24, "J": 43}, 4),
}


def program(name: str) -> Program:
    text, dims, _ = PROGRAMS[name]
    return specialize(parse_program(text), dims)


@pytest.mark.slow
@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_schedule_computes_the_same(name: str) -> None:
    p, least = program(name), PROGRAMS[name][2]
    made = recorded(p, GENERIC, Wish("packed" if name == "packed" else "tile"))
    assert made is not None
    first, record = made
    inputs = arguments(record)
    (wanted,) = interpret(p, inputs)
    found = 0
    for wish in list(variations(first.schedule)):
        other = recorded(p, GENERIC, Wish(first.name, wish))
        if other is not None and other[0].schedule.has(wish):
            found += 1
            assert other[0].name == first.name
            assert other[0].schedule != first.schedule
            called = Called(other[1], inputs)
            called.seconds()
            np.testing.assert_allclose(called.outputs[0], wanted, rtol=1e-5)
    assert found >= least


def test_a_wish_says_some_steps_and_estimates_the_rest() -> None:
    p = program("packed")
    made = recorded(p, GENERIC, Wish("packed", Schedule((Tile((("i", 5),)),))))
    assert made is not None
    assert Tile((("i", 5),)) in made[0].schedule.steps
    assert Pack("B") in made[0].schedule.steps
    never = recorded(p, GENERIC, Wish("packed", Schedule((Tile((("i", 50),)),))))
    plain = recorded(p, GENERIC, Wish("no such kernel"))
    assert never is not None
    assert plain is not None
    assert never[0] == plain[0]  # where there is none it is the cheapest


def test_variations_keep_their_axes() -> None:
    found = list(variations(Schedule((Pack("B"), Tile((("i", 6),)), Vector("j", 8, 2, (4, 1))))))
    assert len(found) == 13 * 4 - 1
    assert str(found[0]) == "tile i 2 | vector j 8 rest 4 1"
    assert Schedule((Tile((("i", 6),)), Vector("j", 8, 2))) not in found


def test_schedules_of_a_statement_are_tried() -> None:
    (s,) = program("tile").body.statements
    assert isinstance(s, Build)
    found = schedule_trial(s, GENERIC, budget=0.01)
    assert found is not None
    assert len({str(t.chosen) for t in found.tried}) == len(found.tried) > 4
    assert found.tried[0].chosen.schedule == max(found.tried, key=lambda t: -t.chosen.cycles).chosen.schedule
    assert " | vector j " in str(found)


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_kernels_inside_loops_are_timed_by_themselves() -> None:
    text = """f(x: f64[T, N]) {
      start = build j < N { f64(1.0) }
      last = fold t < T (s = start) {
        y = build j < N { [j >= 1] s[j - 1] * x[T - 1 - t, j] }
        z = build j < N { y[j] + [j >= 2] y[j - 2] * x[T - 1 - t, j - 1] }
        yield z }
      return last }"""
    kernels = kernels_of(lower_program(parse_program(text), {"T": 5, "N": 40}, False, GENERIC).function.body)
    assert any(k.indices for k in kernels)
    assert all(kernel_seconds(k, GENERIC, 0.001) > 0 for k in kernels)
