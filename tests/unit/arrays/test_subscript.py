"""Indexing against NumPy: all mixtures of integers, slices, new axes and index arrays."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int8, Int64, UInt8

import pullback as pb
from pullback import Array
from pullback.errors import IndexRangeError

X = np.arange(2.0 * 3 * 4 * 5).reshape(2, 3, 4, 5)
I, J = np.array([1, 0, -1]), np.array([[0], [-1]])
ITEMS: dict[str, Any] = {
    "1": 1,
    "-1": np.int64(-1),
    "1:": slice(1, None),
    "::-1": slice(None, None, -1),
    "None": None,
    "...": Ellipsis,
    "I": I,
    "J": J,
}


def keys(length: int) -> list[tuple[str, ...]]:
    """The keys that NumPy takes."""
    found = []
    for names in product(ITEMS, repeat=length):
        used = sum(n not in ("None", "...") for n in names)
        if names.count("...") <= 1 and used <= 4 and not {"I", "J"}.isdisjoint(names):
            found.append(names)
    return found


@pytest.mark.parametrize("length", [1, 2, 3])
def test_every_mixture_with_index_arrays(length):
    chosen = keys(length)

    @pb.function
    def f(x: Float64[Array, "2 3 4 5"]):
        return [x[tuple(ITEMS[n] for n in names)] for names in chosen]

    for names, found in zip(chosen, f.interpret(X), strict=True):
        np.testing.assert_array_equal(found, X[tuple(ITEMS[n] for n in names)], err_msg=", ".join(names), strict=True)


def test_index_arrays_apart_from_an_integer_come_first(check):
    @pb.function
    def f(x: Float64[Array, "2 3 4 5"], i: Int64[Array, "K"]):
        return (
            x[1, 1:, i],
            x[:, 1, i],
            x[:, i, 1],
            x[1, ..., i],
            x[i, None, 1],
            x[0, :, i, i],
            x[:, 1, :, i],
            x[:, i, :, i],
            pb.build(3, lambda k: x[1, :, i][:, k]),
        )

    i = np.array([1, -1])
    check(
        f,
        X,
        i,
        expected=(
            X[1, 1:, i],
            X[:, 1, i],
            X[:, i, 1],
            X[1, ..., i],
            X[i, None, 1],
            X[0, :, i, i],
            X[:, 1, :, i],
            X[:, i, :, i],
            np.moveaxis(X[1, :, i], 1, 0),
        ),
    )


def test_negative_positions_count_from_the_end(check):
    @pb.function
    def f(x: Float64[Array, "N M"], i: Int64[Array, "K"], j: Int8[Array, "2 K"], u: UInt8[Array, "K"]):
        return (
            x[i],
            x[:, j],
            x[np.array([-1, 0])],
            pb.take(x, i, axis=-1),
            pb.take_along_axis(x, j[:1, :1], axis=0),
            x[u],
            x[pb.arange(2) - 2],
            x[np.array(-1)],
        )

    x = X[0, 0]
    i, j, u = np.array([-4, 3, -1]), np.array([[0, -5, 4], [-1, 1, 2]], np.int8), np.array([0, 3, 1], np.uint8)
    along = np.take_along_axis(x, j[:1, :1], axis=0)
    expected = (x[i], x[:, j], x[[-1, 0]], x[:, i], along, x[u], x[-2:], x[-1])
    check(f, x, i, j, u, expected=expected)


def test_negative_positions_have_their_derivative(check):
    @pb.function
    def f(x: Float64[Array, "N"], i: Int64[Array, "K"]):
        return pb.sum(pb.arange(1, i.shape[0] + 1).astype(pb.float64) * x[i] ** 2)

    x, i = np.array([1.0, 2.0, 3.0]), np.array([-1, 0, -3, 2])
    check(pb.grad(f), x, i, expected=[2 * (2 + 3) * 1.0, 0.0, 2 * (1 + 4) * 3.0])


@pytest.mark.parametrize("position", [3, -4, -(2**62)])
def test_a_position_outside_of_the_axis_is_an_error(position):
    @pb.function
    def f(x: Float64[Array, "N"], i: Int64[Array, "K"]):
        return x[i]

    for route in (f, f.interpret):
        with pytest.raises(IndexRangeError):
            route(np.zeros(3), np.array([0, position]))


def test_take_along_axis_broadcasts_the_other_axes(check):
    @pb.function
    def f(x: Float64[Array, "N M"], i: Int64[Array, "1 K"]):
        return pb.take_along_axis(x, i), pb.take_along_axis(x[:1], pb.broadcast_to(i, (2, i.shape[1])), axis=1)

    x, i = X[0, 0], np.array([[2, -1]])
    expected = (np.take_along_axis(x, i, 1), np.take_along_axis(x[:1], np.broadcast_to(i, (2, 2)), 1))
    check(f, x, i, expected=expected)


def test_reshape_leaves_axes_that_it_keeps() -> None:
    """Sizes that are quotients: the index of an axis that is only moved past another is no quotient of positions."""

    @pb.function
    def f(x: Float64[Array, "N H W"]) -> Any:
        halves = pb.build((x.shape[0], 2, x.shape[1] // 2, x.shape[2] // 3), lambda n, g, i, j: x[n, 2 * i + g, 3 * j])
        joined = pb.reshape(halves, (-1, halves.shape[2], halves.shape[3]))
        return joined, pb.reshape(joined, (x.shape[0], 1, 2, halves.shape[2], halves.shape[3], 1))

    x = np.arange(2.0 * 5 * 7).reshape(2, 5, 7)
    wanted = x[:, :4, :6:3].reshape(2, 2, 2, 2).transpose(0, 2, 1, 3)
    joined, apart = f.interpret(x)
    np.testing.assert_array_equal(joined, wanted.reshape(4, 2, 2))
    np.testing.assert_array_equal(apart, wanted[:, None, ..., None])
    assert "halves[i // 2, i % 2, j, k]" in f.ir
