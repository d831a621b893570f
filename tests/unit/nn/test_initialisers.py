"""Initial parameters: bounds, constants, seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback.nn import initialise
from pullback.nn.models import NAMES, network


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniform(name: str, dtype: Any) -> None:
    parameters = initialise(network(name), "uniform", seed=3, dtype=dtype)
    for field, shape in network(name).shapes.items():
        array = getattr(parameters, field)
        assert array.shape == shape
        assert array.dtype == dtype
        fans = network(name).fans.get(field)
        if fans is None:
            assert not array.any()
        else:
            bound = np.sqrt(6 / sum(fans))
            assert np.abs(array).max() <= bound
            assert np.abs(array).max() > 0.9 * bound
            assert abs(array.mean()) < 4 * bound / np.sqrt(array.size)


def test_seeds() -> None:
    zhang = network("zhang")
    one, same, other = (initialise(zhang, seed=seed).k1 for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_element_types_draw_the_same_numbers() -> None:
    zhang = network("zhang")
    single, double = (initialise(zhang, dtype=dtype).fc for dtype in (np.float32, np.float64))
    assert np.array_equal(single, double.astype(np.float32))


def test_a23_constants() -> None:
    parameters = initialise(network("zhang"), "constant", dtype=np.float64)
    expected = {"k1": 1 / 25, "b1": 1 / 6, "k2": 1 / 150, "b2": 1 / 12, "fc": 1 / 192, "b": 1 / 10}
    for name, value in expected.items():
        assert np.unique(getattr(parameters, name)).tolist() == [value]


@pytest.mark.parametrize("name", NAMES)
def test_fans_follow_from_shapes(name: str) -> None:
    for field, (fan_in, _) in network(name).fans.items():
        shape = network(name).shapes[field]
        assert fan_in == int(np.prod(shape[1:]))
