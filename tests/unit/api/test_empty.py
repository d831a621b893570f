"""Extents of zero: compiled functions do what the interpreter does."""

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
