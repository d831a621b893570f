"""The cases of `pullback bench derivatives`: hand-written C and the compiled functions agree, rows become a table."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from benchmarks import derivatives
from benchmarks.harness import Repeated, Row
from benchmarks.suite import lines
from benchmarks.systems import derivatives_c, derivatives_pullback
from pullback.runtime.shim import extension

needs_c = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")) or extension() is None, reason="no C compiler"
)


def arrays(result: Any) -> tuple[np.ndarray[Any, Any], ...]:
    return result if isinstance(result, tuple) else (result,)


@needs_c
@pytest.mark.parametrize("n", [12, 301])
@pytest.mark.parametrize("case", [c for c in derivatives.CASES if c.name in derivatives_c.FORMS], ids=lambda c: c.name)
def test_d16_d17_d18_d19_hand_written_c_agrees(case: derivatives.DerivativeCase, n: int) -> None:
    if case.name in ("project", "nnmf-10", "nnmf-50") and n > 100:
        n = 24
    reference = derivatives_c.prepare(case, n, "hand-written vectors")()
    ours = derivatives_pullback.prepare(case, n, "function")()
    interpreted = derivatives_pullback.FUNCTIONS[case.name].interpret(*case.make(n))  # type: ignore[attr-defined]
    for a, b, c in zip(arrays(reference), arrays(ours), arrays(interpreted), strict=True):
        scale = max(1.0, float(np.abs(c).max()))
        np.testing.assert_allclose(b, c, rtol=1e-11, atol=1e-11 * scale)
        np.testing.assert_allclose(a, c, rtol=1e-11, atol=1e-11 * scale)


def row(case: str, system: str, seconds: float) -> Row:
    return Row(
        case=case, system=system, form="form", dtype="float64", threads=1,
        median=seconds, minimum=seconds, maximum=seconds, first_call=seconds,
    )  # fmt: skip


def test_table_has_the_ratios_of_the_fastest_forms() -> None:
    rows = [
        row("dot-3", "c", 1e-6),
        row("dot-3", "pullback", 2e-6),
        row("dot-3", "jax", 9e-6),
        row("dot-3", "jax", 8e-6),
    ]
    (line,) = lines(rows, derivatives.SYSTEMS)
    assert line.ratio("pullback", "c") == 2
    assert line.best_peer == "jax"
    assert derivatives.cells(rows) == [("dot-3", "1", "2", "8", "–", "–", "–", "–", "2.00", "4.00")]


def test_short_calls_are_repeated_and_timed_singly() -> None:
    count = 0

    def call() -> np.ndarray[Any, Any]:
        nonlocal count
        count += 1
        return np.zeros(1)

    runner = Repeated(call)
    runner.reset()
    runner.call()
    assert count == 1
    runner.reset()
    assert runner.calls > 1
    before = count
    runner.call()
    assert count - before == runner.calls
