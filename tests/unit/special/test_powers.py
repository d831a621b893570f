"""Powers where libm's `pow`, square roots and products differ."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

INF, NAN = np.inf, np.nan


CASES = ((-INF, (INF, INF, 0.0, INF)), (-0.0, (0.0, 0.0, INF, 0.0)), (-1.0, (NAN,) * 4), (4.0, (2, 8, 0.5, 32)))


@pb.function
def powers(x):
    return x**0.5, x**1.5, x**-0.5, x**2.5


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 9, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_at_minus_infinity_and_minus_zero(count: int, dtype: str) -> None:
    for x, wanted in CASES:
        for route in (powers, powers.interpret):
            for found, value in zip(route(np.full(count, x, dtype)), wanted, strict=True):
                np.testing.assert_array_equal(found, np.full(count, value, dtype))
                np.testing.assert_array_equal(np.signbit(found[~np.isnan(found)]), False)
