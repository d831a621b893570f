"""The law of threads: a program gives the same bits whatever the number of threads, and what it gives without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.program import Program
from pullback.loops import parallel
from pullback.loops.nodes import Parallel, walk
from pullback.loops.verify import verify_function
from pullback.runtime.executor import Executable, _made
from pullback.testing.programs import random_program
from tests.laws.test_c_agrees import bound

NDArray = np.ndarray[Any, Any]
WORKERS = (1, 2, 3, 5)


@pytest.fixture(autouse=True)
def _everything_is_worth_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "LEAST", 1)
    monkeypatch.setattr(parallel, "CHUNK", 1)


def assert_same_bits(program: Program, inputs: Sequence[NDArray], sizes: dict[str, int], dims: dict[str, int]) -> int:
    """Everything that can be is shared out; gives the number of parallel statements."""
    record, made = _made(program, dims)
    verify_function(made.function, made.memory)
    count = sum(isinstance(s, Parallel) for s in walk(made.function.body))
    if not count:
        return 0
    entry = record.entry()
    first: list[NDArray] = []
    for workers in WORKERS:
        executable = Executable(record, entry, lambda: made, threads=workers)
        got, peak, stray = executable.run_poisoned(inputs)
        assert peak <= executable.arena_bytes, "written beyond the planned arena"
        assert not stray
        first = first or got
        for w, g in zip(first, got, strict=True):
            assert w.tobytes() == g.tobytes(), f"{workers} threads"
    for w, g in zip(interpret(program, inputs, sizes), first, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            np.testing.assert_allclose(g, w, rtol=0, atol=bound(made.program, w) if w.dtype.kind == "f" else 0)
    return count


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed: int) -> None:
    case = random_program(np.random.default_rng(seed))
    assert_same_bits(case.program, case.inputs, case.sizes, case.dims)
