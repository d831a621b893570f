"""Programs that loops in Python make long: they trace, are derived, and compile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pullback as pb


@pytest.mark.slow
def test_five_hundred_steps_of_numbers() -> None:
    def f(x: Any) -> Any:
        s = x[0]
        for k in range(500):
            s = s * 0.5 + x[k % 3] / (k + 1.0)
        return s

    def plain(x: list[float]) -> float:
        s = x[0]
        for k in range(500):
            s = s * 0.5 + x[k % 3] / (k + 1.0)
        return s

    x = np.array([0.5, -1.0, 2.0])
    slopes = [plain(e) for e in np.eye(3).tolist()]  # the steps are linear
    assert float(pb.function(f)(x)) == pytest.approx(plain(x.tolist()), rel=1e-12)
    np.testing.assert_allclose(pb.grad(f)(x), slopes, rtol=1e-9, atol=1e-15)


@pytest.mark.slow
def test_ten_thousand_terms() -> None:
    def f(x: Any) -> Any:
        s = x[0]
        for k in range(1, 10_000):
            s = s + x[k % 2] * float(k % 7)
        return s

    x = np.array([0.25, 2.0])
    terms = [0.25, *(float(x[k % 2]) * (k % 7) for k in range(1, 10_000))]
    assert float(pb.function(f)(x)) == pytest.approx(math.fsum(terms), rel=1e-12)
