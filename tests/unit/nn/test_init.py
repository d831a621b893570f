"""Initial values: their moments, bounds and seeds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pullback.errors import PullbackError
from pullback.nn import init

SHAPE = (60, 40, 3, 3)  # fan in 360, fan out 540


@pytest.mark.parametrize(
    ("scheme", "mean", "variance", "bound"),
    [
        (init.uniform(-1.0, 3.0), 1.0, 16 / 12, 3.0),
        (init.normal(0.5, 2.0), 2.0, 0.25, None),
        (init.truncated_normal(0.5, 1.0), 1.0, 0.25 * 0.7737413, 2.0),
        (init.xavier_uniform(), 0.0, 2 / 900, math.sqrt(6 / 900)),
        (init.xavier_uniform(gain=2.0, fans=(50, 50)), 0.0, 4 * 2 / 100, 2 * math.sqrt(6 / 100)),
        (init.xavier_normal(), 0.0, 2 / 900, None),
        (init.kaiming_uniform(), 0.0, 2 / 360, math.sqrt(6 / 360)),
        (init.kaiming_normal(), 0.0, 2 / 360, None),
        (init.kaiming_normal(mode="fan_out", a=0.5), 0.0, 2 / (1.25 * 540), None),
        (init.lecun_normal(), 0.0, 1 / 360, None),
        (init.lecun_uniform(), 0.0, 1 / 360, math.sqrt(3 / 360)),
        (init.lecun_uniform(mode="fan_out"), 0.0, 1 / 540, math.sqrt(3 / 540)),
        (init.orthogonal(0.5), 0.0, 0.25 / 360, None),
    ],
    ids=repr,
)
def test_c26_moments_are_those_of_the_formula(
    scheme: init.Scheme, mean: float, variance: float, bound: float | None
) -> None:
    """Xavier by both fans, Caffe's (`lecun_uniform`), Gaussian and others, on 21,600 numbers: four standard errors."""
    w = scheme(np.random.default_rng(1), SHAPE, np.float64)
    assert w.shape == SHAPE
    kurtosis = 3.0 if bound is None else 1.8
    assert abs(w.mean() - mean) < 4 * math.sqrt(variance / w.size)
    assert abs(w.var() - variance) < 4 * variance * math.sqrt(kurtosis / w.size)
    if bound is not None:
        assert 0.99 * bound < np.abs(w).max() <= bound


def test_c26_constants() -> None:
    random = np.random.default_rng(0)
    for scheme, value in ((init.constant(-0.5), -0.5), (init.zeros(), 0.0), (init.ones(), 1.0)):
        made = scheme(random, (2, 3), np.float32)
        assert made.dtype == np.float32
        assert np.unique(made).tolist() == [value]


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 3, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = init.orthogonal(2.0)(np.random.default_rng(3), shape, np.float64).reshape(shape[0], -1)
    small = w.T @ w if w.shape[0] > w.shape[1] else w @ w.T
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-14)


def test_schemes_are_values() -> None:
    assert repr(init.kaiming_normal(mode="fan_out")) == "kaiming_normal(mode='fan_out')"
    assert init.xavier_uniform() == init.xavier_uniform(gain=1.0) != init.xavier_normal()
    draws = [init.kaiming_normal()(np.random.default_rng(7), (4, 4), dtype) for dtype in (np.float32, np.float64)]
    assert np.array_equal(draws[0], draws[1].astype(np.float32))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: init.kaiming_normal()(np.random.default_rng(0), (4,)),
            "ShapeError [E104] kaiming_normal(): an array of shape [4]",
        ),
        (lambda: init.uniform(1.0, 0.0), "TraceError [E170] uniform: high is 0.0"),
        (lambda: init.normal(-1.0), "TraceError [E170] normal: std is -1.0"),
        (lambda: init.lecun_normal(mode="both"), "TraceError [E170] lecun_normal: mode is 'both'"),
        (lambda: init.xavier_normal(fans=3), "TraceError [E170] xavier_normal: fans is 3"),
        (lambda: init.orthogonal(float("inf")), "TraceError [E170] orthogonal: gain is inf"),
    ],
)
def test_errors(wrong: Callable[[], Any], message: str) -> None:
    with pytest.raises(PullbackError) as found:
        wrong()
    assert str(found.value).startswith(message)
