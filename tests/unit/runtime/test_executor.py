"""Compiled programs give what the interpreter gives, inside the memory that was planned."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from pullback.errors import DTypeError, IndexRangeError, ShapeError
from pullback.ir.expr import Ref, get
from pullback.ir.index import Var, symbol
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Block, Build, Program
from pullback.ir.settings import Settings
from pullback.ir.traverse import specialize
from pullback.ir.types import f64
from pullback.runtime.executor import Executable, compile_program
from tests.unit.runtime.programs import CASES


def sample_inputs(program: Program, dims: dict[str, int], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    out = []
    for r in specialize(program, dims).inputs:
        shape = tuple(d.constant for d in r.shape)
        if r.dtype.is_floating:
            out.append(np.asarray(rng.standard_normal(shape), r.dtype.numpy))
        else:
            out.append(np.asarray(rng.integers(0, 2 if r.dtype.is_bool else 5, shape), r.dtype.numpy))
    return out


def compiled(text: str, **dims: int) -> tuple[Program, Executable]:
    program = parse_program(text)
    return program, compile_program(program, dims)


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_interpreter_in_a_poisoned_arena(name: str) -> None:
    text, dims = CASES[name]
    program, executable = compiled(text, **dims)
    inputs = sample_inputs(program, dims)
    wanted = interpret(program, inputs, dims)
    got, peak, stray = executable.run_poisoned(inputs)
    assert (peak, stray) == (executable.lowered.memory.peak, 0)
    for w, g in zip(wanted, got, strict=True):
        assert w.dtype == g.dtype
        if w.dtype.kind == "f":
            np.testing.assert_allclose(g, w, rtol=1e-4 if w.dtype.itemsize == 4 else 1e-12, atol=1e-6)
        else:
            np.testing.assert_array_equal(g, w)
    again = executable.run(inputs)
    for a, b in zip(got, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_failed_range_check_names_array_index_and_extent() -> None:
    text, dims = CASES["gathered"]
    program, executable = compiled(text, **dims)
    x, j, w = sample_inputs(program, dims)
    for bad in (5, -1):
        j[3] = bad
        with pytest.raises(IndexRangeError, match=rf"E401.*y: the index {bad} on axis 0 of x is outside 0 … 4"):
            executable.run([x, j, w])
    j[3] = 0
    executable.run([x, j, w])


def test_declared_bounds_are_checked_at_entry() -> None:
    text = "f(j in [0, 4): i32[K], x: f64[4]) { y = build k < K { x[data(j[k], 4)] } return y }"
    _, executable = compiled(text, K=3)
    x = np.arange(4.0)
    np.testing.assert_array_equal(executable.run([np.array([3, 0, 1], np.int32), x])[0], [3, 0, 1])
    with pytest.raises(IndexRangeError, match=r"E402.*j holds 4"):
        executable.run([np.array([3, 4, 1], np.int32), x])


def test_a_state_may_be_updated_in_the_array_of_its_input() -> None:
    text, dims = CASES["descent"]
    program, executable = compiled(text, **dims)
    p, q, x = sample_inputs(program, dims)
    wanted = executable.run([p, q, x])
    assert executable.in_place == {0: 0, 1: 1}
    got = executable.run([p, q, x], [p, q, np.empty(4)])
    assert got[0] is p
    for w, g in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(w, g)


def test_outputs_that_overlap_inputs_are_written_after_the_call() -> None:
    _, executable = compiled("reverse(x: f64[N]) { y = build n < N { x[N - 1 - n] } return y }", N=5)
    x = np.arange(5.0)
    executable.run([x], [x])
    np.testing.assert_array_equal(x, [4, 3, 2, 1, 0])


def test_strided_inputs_are_copied_and_strided_outputs_filled() -> None:
    _, executable = compiled("twice(x: f64[N]) { y = build n < N { 2.0 * x[n] } return y }", N=3)
    out = np.zeros((3, 2))
    executable.run([np.arange(6.0)[::2]], [out[:, 1]])
    np.testing.assert_array_equal(out, [[0, 0], [0, 4], [0, 8]])


def test_wrong_arrays_are_refused() -> None:
    _, executable = compiled("twice(x: f64[N]) { y = build n < N { 2.0 * x[n] } return y }", N=3)
    with pytest.raises(DTypeError, match="E122"):
        executable.run([np.zeros(3, np.float32)])
    with pytest.raises(DTypeError, match="byte order"):
        executable.run([np.zeros(3, ">f8")])
    with pytest.raises(ShapeError, match="E111"):
        executable.run([np.zeros(4)])


def test_calls_from_several_threads() -> None:
    text, dims = CASES["nested"]
    program, executable = compiled(text, **dims)
    inputs = [sample_inputs(program, dims, seed) for seed in range(4)]
    wanted = [executable.run(i)[0] for i in inputs]
    failures: list[int] = []

    def work(k: int) -> None:
        failures.extend(k for _ in range(200) if not np.array_equal(executable.run(inputs[k])[0], wanted[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_exact_programs_sum_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_MACHINE", "sse2")  # a machine with vectors
    program = parse_program("total(x: f32[N], y: f32[N]) { s = build { sum n < N { x[n] * y[n] } } return s }")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(1000).astype(np.float32) for _ in range(2))
    wanted = np.float32(0)
    for a, b in zip(x, y, strict=True):
        wanted += a * b
    exact = compile_program(replace(program, settings=Settings(exact=True)), {"N": 1000}).run([x, y])[0]
    assert exact == wanted
    assert compile_program(program, {"N": 1000}).run([x, y])[0] != wanted


@pytest.mark.slow
def test_deep_expressions() -> None:
    size = symbol("N")
    n, x, y = Var("n", size), Ref("x", f64, (size,)), Ref("y", f64, (size,))
    value = get(x, n)
    is_shallow = (3, 12, 0) <= sys.version_info[:3] < (3, 12, 2)  # calls through C have a limit of their own there
    for _ in range(300 if is_shallow else 1500):
        value = 1.0 - 0.5 * value
    program = Program("deep", (x,), Block((Build((y,), (n,), (value,)),), (y,)), ("y",))
    np.testing.assert_allclose(compile_program(program, {"N": 2}).run([np.ones(2)])[0], 2 / 3)
