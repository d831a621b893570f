"""Every reduction over every layout of two operands, at sizes where kernels for products are considered: NumPy agrees.

Random programs are small, so that these kernels stay out of their reach.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.runtime.compile import compiler_command

pytestmark = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

REDUCTIONS: dict[str, tuple[Any, Any]] = {
    "sum": (pb.sum_over, np.sum),
    "prod": (pb.prod_over, np.prod),
    "max": (pb.max_over, np.max),
    "min": (pb.min_over, np.min),
    "argmax": (pb.argmax_over, np.argmax),
    "argmin": (pb.argmin_over, np.argmin),
}
TERMS: dict[str, Any] = {"product": lambda a, b: a * b, "sum": lambda a, b: a + b}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reductions_of_two_operands(name: str, dtype: Any) -> None:
    ours, theirs = REDUCTIONS[name]
    rng = np.random.default_rng(0)
    for n, m, k in ((9, 17, 33), (64, 64, 64), (40, 72, 100)):
        for first, second in product((False, True), repeat=2):  # whether the summed axis is the first one
            a = rng.uniform(0.5, 1.5, (k, n) if first else (n, k)).astype(dtype)
            b = rng.uniform(0.5, 1.5, (k, m) if second else (m, k)).astype(dtype)
            rows, columns = a.T if first else a, b.T if second else b
            for term in TERMS.values():

                def reduced(a: Any, b: Any, term: Any = term) -> Any:
                    def element(i: Any, j: Any) -> Any:
                        return ours(k, lambda r: term(a[r, i] if first else a[i, r], b[r, j] if second else b[j, r]))

                    return pb.build((n, m), element)

                wanted = theirs(term(rows[:, None], columns[None]).astype(dtype), axis=-1)
                np.testing.assert_allclose(
                    pb.function(reduced)(a, b), wanted, rtol=1e-4 if dtype is np.float32 else 1e-10
                )
