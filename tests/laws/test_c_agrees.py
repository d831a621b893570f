"""The law of the backend: C gives what the interpreter gives, for random typed programs and the programs as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback.errors import IndexRangeError, PullbackError
from pullback.ir.dims import solve_dims
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Choose, Program, While, walk_statements
from pullback.ir.settings import MemoryMode
from pullback.ir.types import f32
from pullback.loops.memory.verify import verify_function
from pullback.passes.arithmetic import count_operations
from pullback.runtime.emit import with_mode
from pullback.runtime.executor import compile_program
from tests.arena import arrays_end
from tests.programs.test_programs import FILES, cases, value
from tests.support.programs import random_program

NDArray = np.ndarray[Any, Any]
SEEDS = range(60)


def bound(program: Program, wanted: NDArray) -> float:
    """What rounding may do: some units in the last place per operation, relative to the largest number around."""
    operations = max(8, count_operations(program.body).constant or 0)
    refs = [*program.inputs, *(r for s in walk_statements(program.body) for r in s.outs)]
    coarse = np.float32 if any(r.dtype is f32 for r in refs) else np.float64
    finite = np.abs(wanted[np.isfinite(wanted)])
    return float(np.finfo(coarse).eps) * 4 * operations * max(1.0, float(finite.max(initial=0.0)))


def assert_agrees(program: Program, inputs: Sequence[NDArray], sizes: dict[str, int], dims: dict[str, int]) -> None:
    wanted = interpret(program, inputs, sizes)
    executable = compile_program(program, dims)
    lowered = executable.lowered
    verify_function(lowered.function, lowered.memory)
    got, peak, stray = executable.run_poisoned(inputs)
    assert stray == 0
    branches = any(isinstance(s, Choose | While) for s in walk_statements(lowered.program.body))
    assert peak <= lowered.memory.peak
    assert branches or arrays_end(lowered) <= peak  # one of two branches may not be taken
    for w, g in zip(wanted, got, strict=True):
        assert w.dtype == g.dtype
        assert w.shape == g.shape
        if w.dtype.kind == "f":
            with np.errstate(over="ignore", invalid="ignore"):
                np.testing.assert_allclose(g, w, rtol=0, atol=bound(lowered.program, w))
        else:
            np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int) -> None:
    case = random_program(np.random.default_rng(seed))
    assert_agrees(case.program, case.inputs, case.sizes, case.dims)


@pytest.mark.parametrize("mode", ["less", "least"])
@pytest.mark.parametrize("seed", range(20))
def test_random_programs_in_every_memory_mode(seed: int, mode: MemoryMode) -> None:
    case = random_program(np.random.default_rng(seed))
    assert_agrees(with_mode(case.program, mode), case.inputs, case.sizes, case.dims)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_programs_as_text(file: Path) -> None:
    text = file.read_text()
    if re.search(r"^# (parse|verify) error", text, re.MULTILINE):
        return
    program = parse_program(text)
    for case in cases(text):
        inputs = [np.array(value(case[r.name]), r.dtype.numpy) for r in program.inputs]
        inputs = [a.reshape((0,) * r.rank) if a.size == 0 else a for a, r in zip(inputs, program.inputs, strict=True)]
        sizes = {name: value(case[name]) for name in program.sizes}
        try:
            dims = solve_dims(program, [a.shape for a in inputs], sizes)
        except PullbackError as error:
            assert error.code == case.get("error")
            continue
        if case.get("error") in ("E401", "E402"):
            with pytest.raises(IndexRangeError) as caught:
                compile_program(program, dims).run(inputs)
            assert caught.value.code == case["error"]
        elif "error" not in case:
            assert_agrees(program, inputs, sizes, dims)
