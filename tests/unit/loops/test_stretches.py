"""Conditions along axes: a vector loop for each stretch, the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def shifted(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return pb.build(x.shape[0], lambda i: x[i] * y.at(i - 1, fill=1))


@pb.function
def neighbors(x: Float64[Array, "N"]):
    return pb.build(x.shape[0], lambda i: x[i] + 0.5 * (x.at(i - 2) + x.at(i + 1)) * (1 + x.at(i - 1)))


@pb.function
def one_place(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return pb.build(x.shape[0], lambda i: x[i] * pb.where(i == 3, y[i], y[i] + 1))


@pb.function
def rows(x: Float64[Array, "N M"]):
    return pb.build(x.shape, lambda i, j: x[i, j] * (1 + x.at(i - 1, j)))


@pb.function
def columns(x: Float64[Array, "N M"]):
    return pb.build(x.shape, lambda i, j: x[i, j] * (1 + x.at(i, j + 1)))


@pb.function
def beside(x: Float64[Array, "N M"]):
    return pb.concat([x, -x, 2 * x], axis=1)


@pb.function
def between(x: Float64[Array, "N M"]):
    return pb.concat([pb.stack([x, -x], axis=2), pb.stack([x, x + 1], axis=2)], axis=1)


@pb.function
def transposed_beside(x: Float64[Array, "N M"]):
    return pb.concat([x.T, 2 * x.T], axis=1)


@pb.function
def places(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    def place(i, j, k):
        return pb.where(i == 1, pb.where(j == 2, x[k], y[k]), pb.where(j >= 1, x[k] * y[k], 0.0))

    return pb.build((2, 3, x.shape[0]), place)


@pytest.mark.parametrize("n", [4, 5, 17, 64])
@pytest.mark.parametrize("f", [shifted, neighbors, one_place, places], ids=lambda f: f.name)
def test_vectors(f: Any, n: int) -> None:
    arguments = [np.random.default_rng(k).random(n) for k in range(len(f.parameters))]
    assert np.allclose(f(*arguments), f.interpret(*arguments), rtol=1e-15, atol=0)


@pytest.mark.parametrize("f", [rows, columns, beside, between, transposed_beside], ids=lambda f: f.name)
@pytest.mark.parametrize("shape", [(5, 16), (16, 5), (1, 33), (9, 9)])
def test_axes(f: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).random(shape)
    assert np.allclose(f(x), f.interpret(x), rtol=1e-15, atol=0)


def test_short_rows_are_written_from_front_to_back() -> None:
    text = beside.c_source(N=1000, M=20)
    assert text[: text.index("#else")].count("< 1000;") == 1  # one loop over rows
    assert beside.c_source(N=100, M=2000).count("< 100;") > 1


def test_the_stretch_without_conditions_has_vectors() -> None:
    text = shifted.c_source(N=1000)
    assert "pb_f64x4u" in text
    kernel = text[text.index("shifted(const") :]
    vector, _, portable = kernel.partition("#else")
    assert "?" not in vector
    assert "?" in portable


def test_several_axes_are_split_around_whole_vectors() -> None:
    text = places.c_source(N=64)
    vector, _, _ = text[text.index("places(const") :].partition("#else")
    assert "const pb_f64x" in vector
    assert "choose" not in vector
    assert "?" not in vector


def test_conditions_about_two_axes_at_once_are_left_alone() -> None:
    @pb.function
    def band(x: Float64[Array, "N N"]):
        return pb.build(x.shape, lambda i, j: x[i, j] * pb.where(i >= j, 2.0, 3.0))

    x = np.random.default_rng(0).random((9, 9))
    assert np.allclose(band(x), band.interpret(x))
