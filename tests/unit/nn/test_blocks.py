"""Blocks against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float, UInt8

import pullback as pb
from pullback import Array
from pullback.nn.activations import log_softmax
from pullback.nn.blocks import average_pool, convolution, half_squared_error, max_pool, one_hot

Values = np.ndarray[Any, Any]


def random(*shape: int) -> Values:
    return np.random.default_rng(5).standard_normal(shape)


@pb.function
def plane(x: Float[Array, "H W"], k: Float[Array, "O P Q"], b: Float[Array, "O"]) -> Any:
    return convolution(x, k, b)


@pb.function
def volume(x: Float[Array, "C H W"], k: Float[Array, "O C P Q"], b: Float[Array, "O"]) -> Any:
    return convolution(x, k, b)


@pb.function
def pools(x: Float[Array, "C H W"]) -> Any:
    return average_pool(x), max_pool(x), average_pool(x, 3), max_pool(x, 3)


@pb.function
def softmax(z: Float[Array, "N K"]) -> Any:
    return log_softmax(z)


@pb.function
def error(y: Float[Array, "10 1 1"], label: UInt8[Array, ""]) -> Any:
    return half_squared_error(y, label)


@pb.function
def hot(label: UInt8[Array, ""]) -> Any:
    return one_hot(label, (10, 1, 1, 1, 1))


def numpy_convolution(x: Values, k: Values, b: Values) -> Values:
    windows = np.lib.stride_tricks.sliding_window_view(x, k.shape[1:])
    axes = tuple(range(x.ndim, 2 * x.ndim))
    out = np.tensordot(k, windows, (tuple(range(1, k.ndim)), axes))
    return out + b.reshape(-1, *(1,) * x.ndim)


def test_convolution() -> None:
    for f, x, k in ((plane, random(9, 7), random(3, 4, 2)), (volume, random(4, 9, 7), random(3, 4, 4, 2))):
        b = random(3)
        assert np.allclose(f(x, k, b), numpy_convolution(x, k, b))


@pytest.mark.parametrize("shape", [(2, 6, 6), (1, 7, 9), (3, 3, 4)])
def test_pools(shape: tuple[int, ...]) -> None:
    x = random(*shape)
    for size, mean, largest in ((2, *pools(x)[:2]), (3, *pools(x)[2:])):
        c, h, w = (shape[0], shape[1] // size, shape[2] // size)
        split = x[:, : h * size, : w * size].reshape(c, h, size, w, size)
        assert np.allclose(mean, split.mean((2, 4)))
        assert np.array_equal(largest, split.max((2, 4)))


def test_log_softmax_of_large_scores() -> None:
    z = random(3, 5) * 1000
    out = softmax(z)
    shifted = z - z.max(1, keepdims=True)
    assert np.allclose(out, shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))
    assert np.allclose(np.exp(out).sum(1), 1)


def test_log_softmax_keeps_its_digits_and_its_limits() -> None:
    half = -np.log(2)
    expected = [[half, half], [0, -np.inf], [-np.inf, 0]]
    assert np.array_equal(softmax(np.array([[1e12, 1e12], [np.inf, 0], [-np.inf, 0]])), expected)


@pytest.mark.parametrize("label", [0, 7, 9])
def test_a24_one_hot(label: int) -> None:
    expected = np.eye(10)[label].reshape(10, 1, 1, 1, 1)
    assert np.array_equal(hot(np.uint8(label)), expected)


@pytest.mark.parametrize("label", [0, 4, 9])
def test_half_squared_error(label: int) -> None:
    y = random(10, 1, 1)
    expected = ((y - np.eye(10)[label].reshape(10, 1, 1)) ** 2).sum() / 2
    assert error(y, np.uint8(label)) == pytest.approx(expected)
