"""Arrays without elements, of sizes that are numbers and of dims that a call makes 0."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array

MOVES = {
    "reshape": (lambda x: pb.reshape(x, (-1,)), lambda x: x.reshape(-1)),
    "reshape to none": (lambda x: pb.reshape(x, (0, 5)), lambda x: x.reshape(0, 5)),
    "tile": (lambda x: pb.tile(x, (2, 1)), lambda x: np.tile(x, (2, 1))),
    "tile by none": (lambda x: pb.tile(x, (0, 2)), lambda x: np.tile(x, (0, 2))),
    "roll": (lambda x: pb.roll(x, 1), lambda x: np.roll(x, 1)),
    "roll an axis": (lambda x: pb.roll(x, (1, -1), axis=(0, 1)), lambda x: np.roll(x, (1, -1), (0, 1))),
    "concat": (lambda x: pb.concat([x, x], axis=None), lambda x: np.concatenate([x, x], None)),
    "stack": (lambda x: pb.stack([x, x]), lambda x: np.stack([x, x])),
    "repeat": (lambda x: pb.repeat(x, 2, axis=0), lambda x: np.repeat(x, 2, 0)),
    "repeat none": (lambda x: pb.repeat(x, 0, axis=1), lambda x: np.repeat(x, 0, 1)),
    "repeat all": (lambda x: pb.repeat(x, 2), lambda x: np.repeat(x, 2)),
    "flip": (lambda x: pb.flip(x), np.flip),
    "slice": (lambda x: x[::-1, 1:], lambda x: x[::-1, 1:]),
    "exp": (lambda x: pb.exp(x.T), lambda x: np.exp(x.T)),
    "sums": (lambda x: (pb.sum(x), pb.prod(x, axis=0), pb.sum(x, axis=1)), lambda x: (x.sum(), x.prod(0), x.sum(1))),
    "running": (lambda x: pb.cumulative_sum(x, axis=0), lambda x: x.cumsum(0)),
    "where": (lambda x: pb.where(x > 0, x, 1.0), lambda x: np.where(x > 0, x, 1.0)),
    "matmul": (lambda x: x.T @ x, lambda x: x.T @ x),
    "triangle": (lambda x: pb.tril(x), np.tril),
}


@pytest.mark.parametrize("name", MOVES)
def test_no_rows(check, name):
    ours, theirs = MOVES[name]

    @pb.function
    def fixed(x: Float64[Array, "0 3"]):
        return ours(x)

    x = np.zeros((0, 3))
    check(fixed, x, expected=theirs(x))
    if name != "reshape to none":  # whose elements are 3 N for other N

        @pb.function
        def any_size(x: Float64[Array, "N 3"]):
            return ours(x)

        check(any_size, x, expected=theirs(x))


def test_repeating_by_none(check):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.repeat(x, 0, axis=1), pb.repeat(x, 3)

    x = np.arange(6.0).reshape(2, 3)
    check(f, x, expected=(np.zeros((2, 0)), np.repeat(x, 3)))
