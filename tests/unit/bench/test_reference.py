"""The hand-written C program, against a plain NumPy transcription of the network."""

from __future__ import annotations

import shutil
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from benchmarks.inputs import ZhangInputs, zhang_inputs
from benchmarks.systems import with_c

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="no C compiler installed"
)
Array = np.ndarray[Any, Any]


def convolution(x: Array, k: Array, b: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, k.shape[1:])
    axes = tuple(range(x.ndim, 2 * x.ndim))
    return np.moveaxis(np.tensordot(windows, k, (axes, tuple(range(1, k.ndim)))), -1, 0) + b.reshape(-1, *(1,) * x.ndim)


def pool(x: Array) -> Array:
    *lead, h, w = x.shape
    return x.reshape(*lead, h // 2, 2, w // 2, 2).mean((-3, -1))


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def scores(parameters: dict[str, Array], image: Array) -> Array:
    p = parameters
    s1 = pool(logistic(convolution(image, p["k1"], p["b1"])))
    s2 = pool(logistic(convolution(s1, p["k2"], p["b2"])))
    return logistic(convolution(s2, p["fc"], p["b"])).ravel()


def loss(parameters: dict[str, Array], image: Array, label: int) -> float:
    return float(((scores(parameters, image) - np.eye(10)[label]) ** 2).sum() / 2)


def inputs_of(count: int, dtype: str) -> ZhangInputs:
    return zhang_inputs(count, dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
def test_losses(dtype: str, tolerance: float) -> None:
    inputs = inputs_of(1, dtype)
    parameters = with_c.unflatten(with_c.flatten(inputs.parameters).astype(np.float64))
    runner = with_c.train(inputs, "")
    assert runner.call()[0] == pytest.approx(
        loss(parameters, inputs.images[0].astype(np.float64), int(inputs.labels[0])), abs=tolerance
    )


def test_one_update_is_the_gradient_by_finite_differences() -> None:
    inputs = inputs_of(1, "float64")
    before = with_c.flatten(inputs.parameters)
    runner = with_c.train(inputs, "")
    runner.call()
    gradient = (before - runner.parameters) / inputs.rate  # type: ignore[attr-defined]
    random = np.random.default_rng(1)
    ends = [0, 150, 156, 1956, 1968, 3888, 3898]
    step = 1e-5
    for first, last in pairwise(ends):
        for n in random.choice(np.arange(first, last), min(6, last - first), replace=False):
            values = []
            for sign in (1, -1):
                moved = before.copy()
                moved[n] += sign * step
                values.append(loss(with_c.unflatten(moved), inputs.images[0], int(inputs.labels[0])))
            expected = (values[0] - values[1]) / (2 * step)
            assert gradient[n] == pytest.approx(expected, abs=1e-9), f"parameter {n}"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_recognition(dtype: str) -> None:
    inputs = inputs_of(50, dtype)
    parameters = with_c.unflatten(with_c.flatten(inputs.parameters).astype(np.float64))
    expected = [int(scores(parameters, image.astype(np.float64)).argmax()) for image in inputs.images]
    assert with_c.recognize(inputs, "").call().tolist() == expected


def test_extreme_inputs_stay_finite() -> None:
    inputs = inputs_of(4, "float32")
    wild = inputs._replace(images=inputs.images * np.float32(1e4))
    assert np.isfinite(with_c.train(wild, "").call()).all()
