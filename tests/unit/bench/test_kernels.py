"""The cases of `pullback bench kernels`: what is compiled agrees with the interpreter, rows become a table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import kernels
from benchmarks.harness import Row
from benchmarks.suite import markdown
from benchmarks.systems import kernels_pullback
from pullback.runtime.compile import compiler_command

SMALL = kernels.Layer(2, 3, 9, 8, 4, 3, 2, 1)
CASES = [
    *(c for c in kernels.CASES if c.name in ("product-64-f32", "exp", "log", "tanh", "logistic")),
    *kernels._convolutions("small", SMALL),
    *kernels._convolutions("wide", kernels.Layer(1, 5, 9, 8, 4, 3)),
]


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_cases_agree_with_the_interpreter(case: kernels.KernelCase) -> None:
    function, arguments = kernels_pullback.function(case), case.make()
    got, want = function(*arguments), function.interpret(*arguments)
    assert got.shape == case.output
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * float(np.abs(want).max()))


def row(system: str, seconds: float) -> Row:
    return Row(
        case="product-256-f32", system=system, form="call", dtype="float32", threads=1,
        median=seconds, minimum=seconds, maximum=seconds, first_call=seconds,
    )  # fmt: skip


def test_table_has_rates_and_shares() -> None:
    work = 2 * 256**3
    rows = [row(s, work / r / 1e9) for s, r in (("pullback", 90), ("jax", 60), ("torch", 45), ("peak", 100))]
    assert kernels.cells(rows) == [("product-256-f32", "90.0", "60.0", "45.0", "100.0", "90 %", "1.50")]
    assert markdown(kernels.HEAD, kernels.cells(rows)).splitlines()[1].count("---") == 7
