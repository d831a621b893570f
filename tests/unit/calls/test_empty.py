"""Sizes of zero: compiled functions do what the interpreter does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def total(x: Float64[Array, "N"]) -> Any:
    return pb.sum(x)


@pb.function
def largest(x: Float64[Array, "N"]) -> Any:
    return pb.max(x)


@pb.function
def last(x: Float64[Array, "N"]) -> Any:
    return pb.build((), lambda: x[x.shape[0] - 1])


def test_an_empty_sum_is_zero() -> None:
    assert total(np.empty(0)) == 0.0
    assert total(np.ones(2)) == 2.0


def test_an_empty_maximum_is_an_error() -> None:
    with pytest.raises(pb.ShapeError, match="E105"):
        largest(np.empty(0))


def test_an_element_of_nothing_is_an_error() -> None:
    with pytest.raises(IndexError, match="E401"):
        last(np.empty(0))


@pb.function
def guarded(x: Float64[Array, "N"], k: pb.Size["K"]) -> Any:
    n = x.shape[0]
    ends = x.at(0, fill=2.0) + x.at(n - 1) + x.at(n // 2)
    return pb.where(n > 0, x[0], 7.0) + ends + pb.sum_over(3, lambda i: pb.where(i < n, x.at(i), 0.5)) + k


def test_a_guard_that_only_the_empty_array_needs() -> None:
    """Proofs take sizes to be at least one: what is traced for all sizes has no such guard any more."""
    for call in (guarded, guarded.interpret):
        assert call(np.empty(0), 1) == 7.0 + 2.0 + 1.5 + 1
        assert call(np.array([3.0]), 1) == 3.0 + 9.0 + 4.0 + 1
    for call in (pb.grad(guarded), pb.grad(guarded).interpret):
        assert call(np.empty(0), 0).shape == (0,)
        assert call(np.array([3.0]), 1).tolist() == [5.0]
