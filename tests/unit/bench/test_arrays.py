"""The cases of `pullback bench arrays`: what is compiled agrees with NumPy, rows become a table."""

import numpy as np
import pytest

from benchmarks import arrays
from benchmarks.harness import Row
from benchmarks.suite import markdown
from pullback.runtime.compile import compiler_command

SMALL = [
    arrays.ArrayCase("sort", "float32", ((100,),)), arrays.ArrayCase("argsort", "float64", ((5, 20),)),
    arrays.ArrayCase("fft", "complex128", ((24,),)), arrays.ArrayCase("fft-of-parts", "float64", ((17,), (17,))),
    arrays.ArrayCase("rfft", "float64", ((20,),)), arrays._einsum("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    arrays.ArrayCase("uniform", "float32", ((10,),)), arrays.ArrayCase("normal", "float64", ((10,),)),
]  # fmt: skip


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("case", SMALL, ids=lambda c: c.name)
def test_cases_agree_with_numpy(case: arrays.ArrayCase) -> None:
    for a, b in zip(np.atleast_1d(arrays._pullback(case)()), np.atleast_1d(arrays._numpy(case)()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_names_are_different() -> None:
    names = [c.name for c in arrays.CASES]
    assert len(set(names)) == len(names)


def test_table() -> None:
    def row(system: str, seconds: float) -> Row:
        return Row(case="sort-100-float32", system=system, form="call", dtype="float32", threads=1, median=seconds,
                   minimum=seconds, maximum=seconds, first_call=seconds)

    rows = [row("pullback", 2e-6), row("numpy", 1e-6), row("jax", 4e-6)]
    assert arrays.cells(rows) == [("sort-100-float32", "2", "1", "4", "0.50", "0.50")]
    assert markdown(arrays.HEAD, arrays.cells(rows)).count("\n") == 2
