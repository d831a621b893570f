"""Every example in every memory mode: the right numbers, and the arena used up to the predicted peak, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.program import Choose, Program, While, walk_statements
from pullback.ir.settings import MODES, MemoryMode
from pullback.loops.memory.verify import verify_function
from pullback.runtime import emit
from pullback.runtime.emit import with_mode
from pullback.runtime.executor import compile_program
from tests.examples.test_examples import FUNCTIONS


def arguments(program: Any, dims: dict[str, int]) -> list[Any]:
    rng = np.random.default_rng(2)  # the two largest of every pooled block are further apart than rounding
    out = []
    for r in program.inputs:
        shape = tuple(dims[str(d)] if d.constant is None else d.constant for d in r.shape)
        values = rng.uniform(0.1, 0.5, shape) if r.dtype.is_floating else rng.integers(0, 10, shape)
        out.append(np.asarray(values, r.dtype.numpy))
    return out


@cache
def traced(name: str) -> Program:
    function, _ = FUNCTIONS[name]
    program: Program = function.program()
    return program


@pytest.fixture(autouse=True)
def _forms_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three modes choose among the same forms of a program, each of which takes as long as all else."""
    monkeypatch.setattr(emit, "_Forms", shared_forms)


FORMS: dict[tuple[Any, ...], tuple[Program, Any]] = {}
forms_now = emit._Forms


def shared_forms(program: Program, dims: Mapping[str, int], settings: Any) -> Any:
    key = (id(program.body), *sorted(dims.items()), repr(settings))  # a mode is a setting of the program
    if key not in FORMS:
        FORMS[key] = program, forms_now(program, dims, settings)
    return FORMS[key][1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_x04_the_predicted_peak_is_used(name: str, mode: MemoryMode) -> None:
    _, dims = FUNCTIONS[name]
    program = with_mode(traced(name), mode)
    inputs = arguments(program, dims)
    executable = compile_program(program, dims)
    lowered = executable.lowered
    verify_function(lowered.function, lowered.memory)
    run = executable.run_poisoned(inputs)
    assert run.stray == 0
    branches = any(isinstance(s, Choose | While) for s in walk_statements(lowered.program.body))
    assert run.peak == lowered.memory.peak or (branches and run.peak < lowered.memory.peak)
    if mode != "less":
        sizes = {n: dims[n] for n in program.sizes}
        for a, b in zip(run.outputs, interpret(program, inputs, sizes), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4)
