"""Local derivatives of reductions: products, whose others are scans."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ad.edges import argument_position, where_readable
from pullback.ir import expr
from pullback.ir.expr import Reduce, ReduceOp, Ref
from pullback.ir.index import Cond, Var, as_index, cond, symbol
from pullback.ir.program import Build
from pullback.ir.types import f64
from pullback.passes.operations import operation_count
from pullback.rewrite.normal_form import peel_guards
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


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("op", ["max", "min"])
def test_the_position_of_an_extreme_is_below_the_number_of_elements(op: ReduceOp, axes: int) -> None:
    row, *over = (Var(name, symbol(name.upper())) for name in "nijk"[: axes + 1])
    x = Ref("x", f64, [v.extent for v in (row, *over)])
    value = expr.reduce(op, over, expr.get(x, row, *over))
    assert isinstance(value, Reduce)
    y = Ref("y", f64, [row.extent])
    (place,) = argument_position(value, Build((y,), (row,), (value,)), y).outs
    assert (place.shape, place.bounds) == (y.shape, (as_index(0), prod((v.extent for v in over), start=as_index(1))))


def common_guard(x: Float64[Array, "N"]) -> Any:
    return pb.build(x.shape[0], lambda i: pb.where(i > 0, x[i - 1] * x[i], 0.0) + pb.where(i > 0, x[i] / x[i - 1], 0.0))


def two_guards(x: Float64[Array, "N"]) -> Any:
    def element(i: Any) -> Any:
        return pb.where(i > 1, x[i - 1] * x[i], 0.0) + pb.where((i > 0) & (i < 3), x[i] / x[i - 1], 0.0)

    return pb.build(x.shape[0], element)


def guards_on_data(x: Float64[Array, "N"]) -> Any:
    """The guards of the data differ, those that make the place one of the array are inside of both."""

    def element(i: Any) -> Any:
        near = pb.where(i > 0, x[i - 1], 1.0)
        return pb.where(x[i] > 0, near * near, 0.0) + pb.where(x[i] < 0, pb.sin(near), 0.0)

    return pb.build(x.shape[0], element)


def neighbors(x: Float64[Array, "N"]) -> Any:
    return pb.sum_over(x.shape[0] - 1, lambda k: 1 / (x[k + 1] - x[k]))


@pytest.mark.parametrize("f", [common_guard, two_guards, guards_on_data])
def test_a_tangent_is_read_where_its_element_is(f: Callable[..., Any]) -> None:
    x = np.array([1.0, -2.0, 3.0, 5.0])
    check_grads(f, (x,))
    moved = pb.function(lambda a, d: pb.jvp(f)((a,), (d,))[1])  # text without bounds to trust: the interpreter checks
    np.testing.assert_allclose(moved.interpret(x, np.ones(4)), moved(x, np.ones(4)))


def test_how_a_gradient_of_neighbors_moves() -> None:
    x, v = np.array([0.0, 1.0, 3.0]), np.array([1.0, 0.0, -1.0])
    twice = pb.function(lambda a, d: pb.jvp(pb.grad(neighbors))((a,), (d,))[1])
    # second derivatives of 1 / (b - a) are 2 / (b - a)^3 times 1 and -1
    wanted = [2.0, -2.0 + 0.25, -0.25]
    np.testing.assert_allclose(twice.interpret(x, v), wanted)
    np.testing.assert_allclose(twice(x, v), wanted)


def test_a_weight_whose_terms_have_guards_is_kept_in_range_at_both_ends() -> None:
    """x[i + 1] under [i <= N - 2] a + [i <= N - 3] b, and x[i - 1] under [i >= 1] a + [i >= 2] b."""
    n = symbol("N")
    i, x, a, b = Var("i", n), Ref("x", f64, [n]), Ref("a", f64, [n]), Ref("b", f64, [n])
    at = as_index(i)

    def guards(shift: int, *conds: Cond) -> list[Any]:
        weight = expr.add(*(expr.bracket((c,), expr.get(r, i)) for c, r in zip(conds, (a, b), strict=True)))
        return peel_guards(where_readable(weight, x, (at + shift,)))[0]

    assert guards(1, cond(">=", n - 2 - at), cond(">=", n - 3 - at)) == [cond(">=", n - 2 - at)]
    assert guards(-1, cond(">=", at - 1), cond(">=", at - 2)) == [cond(">=", at - 1)]
