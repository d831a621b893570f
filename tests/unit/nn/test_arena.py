"""The networks in an oversized, poisoned arena: nothing beyond the plan is written, the last planned buffer is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback.ir.dims import solve_dims
from pullback.nn.models import lenet, zhang
from pullback.runtime.executor import compile_program

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("function", "dims"), [(zhang.train, {"N": 3}), (lenet.train, {"S": 2, "B": 3})])
def test_nothing_beyond_the_plan_is_written(function: Any, dims: dict[str, int]) -> None:
    program = function.program()
    inputs: list[Any] = []
    for r in program.inputs:
        shape = tuple(dims[str(d)] if d.constant is None else d.constant for d in r.shape)
        values = RNG.random(shape, np.float32) * 0.1 if r.dtype.is_floating else RNG.integers(0, 10, shape)
        inputs.append(np.asarray(values, r.dtype.numpy))
    assert solve_dims(program, [x.shape for x in inputs]) == dims
    executable = compile_program(program, dims)
    outputs, untouched, written = executable.run_poisoned(inputs)
    assert untouched
    assert written
    for poisoned, plain in zip(outputs, executable.run(inputs), strict=True):
        np.testing.assert_array_equal(poisoned, plain)
