"""The networks in an oversized, poisoned arena: in every memory mode it is used up to the predicted peak.

Working memory is the exception: how much of it a tile's edge needs depends on the machine's tile sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback.ir.dims import solve_dims
from pullback.ir.settings import MODES, MemoryMode
from pullback.nn.models import lenet_by_hand, zhang
from pullback.runtime.emit import with_mode
from pullback.runtime.executor import compile_program
from tests.arena import arrays_end

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("function", "dims"), [(zhang.train, {"N": 3}), (lenet_by_hand.train, {"S": 2, "B": 3})])
def test_the_predicted_peak_is_used(function: Any, dims: dict[str, int], mode: MemoryMode) -> None:
    program = with_mode(function.program(), mode)
    inputs: list[Any] = []
    for r in program.inputs:
        shape = tuple(dims[str(d)] if d.constant is None else d.constant for d in r.shape)
        values = RNG.random(shape, np.float32) * 0.1 if r.dtype.is_floating else RNG.integers(0, 10, shape)
        inputs.append(np.asarray(values, r.dtype.numpy))
    assert solve_dims(program, [x.shape for x in inputs]) == dims
    executable = compile_program(program, dims)
    outputs, peak, stray = executable.run_poisoned(inputs)
    assert stray == 0
    assert arrays_end(executable.lowered) <= peak <= executable.lowered.memory.peak
    for poisoned, plain in zip(outputs, executable.run(inputs), strict=True):
        np.testing.assert_array_equal(poisoned, plain)
