"""Loops over two vectors at a time: which they are, and that no bit differs from one vector at a time."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from pullback.ir.index import Var, as_index
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.primitive import PRIMITIVES
from pullback.ir.program import Program
from pullback.ir.types import f64
from pullback.loops.memory.verify import verify_function
from pullback.loops.plain import builder
from pullback.loops.program.nodes import Assign, For, Let, Store, kernels_of, walk
from pullback.loops.program.side_by_side import side_by_side
from pullback.loops.program.values import Apply, Binary, Buffer, Load, Read, Temp, Type
from pullback.machine import of_width
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from tests.widths import run_all_at

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

SERIES = """series(x: f64[N], y: f64[N]) {
  z = build n < N { exp(y[n] * tanh(x[n])) }
  return z }"""
SUM = """sum(x: f64[N]) {
  z = build { sum n < N { exp(tanh(x[n])) } }
  return z }"""
OTHERS = {
    "single": "p(x: f64[N]) {\n  z = build n < N { 1.0 + exp(x[n]) }\n  return z }",
    "beside": "p(x: f64[N], y: f64[N]) {\n  z = build n < N { exp(tanh(x[n])) * exp(tanh(y[n])) }\n  return z }",
    "power": "p(x: f64[N]) {\n  z = build n < N { exp(power(x[n], 1.7)) }\n  return z }",
}
FUNCTIONS = ("exp", "tanh", "sin", "log1p", "logistic", "expm1", "abs", "negate", "sqrt")


def program_of(rng: random.Random, dtype: str, size: str) -> Program:
    """A chain of functions and products over two arrays, for each element or summed, by rows or not."""
    rows, summed = rng.random() < 0.3, rng.random() < 0.3
    space, here = (f"m < 3, n < {size}", "m, n") if rows else (f"n < {size}", "n")
    shape = f"3, {size}" if rows else size
    e = f"x[{here}]"
    for _ in range(rng.randint(2, 6)):
        call = rng.choice(FUNCTIONS)
        inner = f"{e} * y[{rng.choice((here, 'n')) if not rows else here}]" if rng.random() < 0.5 else f"0.5 * {e}"
        e = f"(-({inner}))" if call == "negate" else f"{call}(abs({inner}))" if call == "sqrt" else f"{call}({inner})"
    head = f"p(x: {dtype}[{shape}], y: {dtype}[{shape}])"
    if dtype == "f32":
        e = e.replace("0.5", "f32(0.5)")
    body = f"build {{ sum {space} {{ {e} }} }}" if summed else f"build {space} {{ {e} }}"
    return parse_program(f"{head} {{\n  z = {body}\n  return z }}")


def steps_of(program: Program, dims: dict[str, int], vector_bytes: int = 32) -> list[int]:
    """The steps of the vector loops."""
    made = lower_program(program, dims, machine=of_width(vector_bytes)).function
    verify_function(made, lower_program(program, dims, machine=of_width(vector_bytes)).memory)
    bodies = [made.body, *(k.body for k in kernels_of(made.body))]
    return [s.step for body in bodies for s in walk(body) if isinstance(s, For) and s.kind == "vector"]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_two_vectors_give_the_bits_of_one(vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(vector_bytes)
    runs = []
    for k, n in enumerate((*range(1, 20, 3), 24, 31, 33, 65, 96, 97, 130)):
        dtype = ("f32", "f64")[k % 2]
        program, dims = (program_of(rng, dtype, "N"), {"N": n}) if k % 3 else (program_of(rng, dtype, str(n)), {})
        shape = [n if str(d) == "N" else int(str(d)) for d in program.inputs[0].shape]
        arrays = np.random.default_rng(k).uniform(-1.5, 1.5, (2, *shape)).astype(program.inputs[0].dtype.numpy)
        runs.append((program, dims, list(arrays)))
    pairs = run_all_at(runs, vector_bytes)
    monkeypatch.setattr(builder, "side_by_side", tuple)
    singles = run_all_at(runs, vector_bytes)
    for (program, dims, arrays), two, one in zip(runs, pairs, singles, strict=True):
        limit = {"f32": 1e-4, "f64": 1e-11}[program.inputs[0].dtype.name]
        for a, b, c in zip(two, one, interpret(program, arrays, dims), strict=True):
            assert a.tobytes() == b.tobytes()
            np.testing.assert_allclose(a, c, rtol=limit, atol=limit * max(1.0, float(np.abs(c).max())))


def test_functions_in_series_take_two_vectors() -> None:
    assert steps_of(parse_program(SERIES), {"N": 64}) == [8]
    assert steps_of(parse_program(SERIES), {"N": 68}) == [8]  # the vector that is left is no loop
    assert steps_of(parse_program(SERIES), {}) == [8, 4]
    assert steps_of(parse_program(SERIES), {"N": 4}) == []


def test_a_sum_takes_its_terms_in_order() -> None:
    assert steps_of(parse_program(SUM), {"N": 64}) == [8]


def chain_loop(read: int, step: int = 4, upper: int = 64) -> For:
    """A loop that stores exp(tanh(b[n + read])) in b[n], by vectors of four."""
    n, b, four = Var("n", 64), Buffer("b", f64, (as_index(100),), "parameter", as_index(100)), Type(f64, 4)
    first, second = Temp("t", four), Temp("e", four)
    body = (
        Let(first, Apply(PRIMITIVES["tanh"], (Load(b, as_index(n) + read, four),), four)),
        Let(second, Apply(PRIMITIVES["exp"], (Read(first),), four)),
        Store(b, as_index(n), Read(second)),
    )
    return For(n, as_index(0), as_index(upper), body, step, "vector")


@pytest.mark.parametrize(("read", "step"), [(0, 8), (-4, 4), (4, 4), (1, 4)])
def test_elements_that_other_iterations_change_keep_the_order(read: int, step: int) -> None:
    (loop,) = side_by_side((chain_loop(read),))
    assert isinstance(loop, For)
    assert loop.step == step


def test_vectors_that_overlap_keep_the_order() -> None:
    (loop,) = side_by_side((chain_loop(0, step=2),))
    assert isinstance(loop, For)
    assert loop.step == 2


@pytest.mark.parametrize("upper", range(1, 20))
def test_each_iteration_is_there_once(upper: int) -> None:
    """Whole pairs, and one vector that is left; a loop's end need not be that of a vector."""
    stored = []
    for s in side_by_side((chain_loop(0, upper=upper),)):
        starts = range(0, int(str(s.upper)), s.step) if isinstance(s, For) else [0]
        stores = [t for t in (s.body if isinstance(s, For) else (s,)) if isinstance(t, Store)]
        for start in starts:
            stored += [start + (t.offset - as_index(s.var)).constant if isinstance(s, For) else t.offset.constant
                       for t in stores]  # fmt: skip
    assert stored == list(range(0, upper, 4))


def test_a_sum_that_is_read_keeps_the_order() -> None:
    loop, four = chain_loop(0), Type(f64, 4)
    value = next(s.value for s in loop.body if isinstance(s, Store))
    total = Temp("total", four)
    adds = Assign(total, Binary("+", Read(total), value, four))
    (kept,) = side_by_side((replace(loop, body=(*loop.body[:2], adds)),))
    assert isinstance(kept, For) and kept.step == 8
    out = Buffer("out", f64, (as_index(100),), "parameter", as_index(100))
    (kept,) = side_by_side((replace(loop, body=(*loop.body[:2], adds, Store(out, as_index(loop.var), Read(total)))),))
    assert isinstance(kept, For) and kept.step == 4


@pytest.mark.parametrize("name", OTHERS)
def test_others_take_one(name: str) -> None:
    assert set(steps_of(parse_program(OTHERS[name]), {"N": 66})) <= {4}
