"""Local derivatives of reductions: products, whose others are scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.passes.operations import operation_count
from pullback.testing import check_grads


def whole(a: Float64[Array, "N"]) -> Any:
    return pb.prod(a)


def over_two_axes(a: Float64[Array, "N M K"]) -> Any:
    return pb.sum(pb.sin(pb.prod(pb.cos(a) + a, axis=(1, 2))))


def guarded(a: Float64[Array, "N M"]) -> Any:
    def factor(i: Any, j: Any) -> Any:
        return pb.where(a[i, j] > 0, a[i, j] ** 2, a.at(i - 1, j) + 2.0)

    return pb.build(a.shape[0], lambda i: pb.prod_over(a.shape[1], lambda j: factor(i, j)))


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("f", "a"),
    [
        (whole, RNG.standard_normal(5)),
        (whole, np.array([0.0, 2.0, 3.0])),
        (whole, np.array([0.0, 0.0, 3.0])),
        (over_two_axes, RNG.standard_normal((2, 3, 2))),
        (guarded, RNG.standard_normal((3, 4))),
    ],
)
def test_products_in_both_modes_and_twice(f: Callable[..., Any], a: Any) -> None:
    check_grads(f, (a,))


def test_a_product_is_exact_at_zeros() -> None:
    assert pb.grad(whole)(np.array([0.0, 2.0, 3.0])).tolist() == [6.0, 0.0, 0.0]
    assert pb.grad(whole)(np.array([0.0, 0.0, 3.0])).tolist() == [0.0, 0.0, 0.0]
    assert pb.grad(whole)(np.zeros(0)).tolist() == []


@pytest.mark.parametrize("size", [10, 1000])
def test_a_product_costs_its_extent(size: int) -> None:
    assert operation_count(pb.value_and_grad(whole).program(), {"N": size}) <= 4 * size
