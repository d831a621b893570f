"""Numbers of steps that are data (paper 003, ifold): random folds against dual numbers in plain Python."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array
from pullback.errors import DerivativeError, DTypeError, ShapeError, TraceError, UnfinishedError

Number, Vector = Float64[Array, ""], Float64[Array, "N"]
Count, Counts = Int64[Array, ""], Int64[Array, "N"]
BOUND = 6


@dataclass
class Dual:
    """A number a and its derivative b; the rules of the five operations below, by hand."""

    a: float
    b: float

    def __add__(self, y: Dual) -> Dual:
        return Dual(self.a + y.a, self.b + y.b)

    def __mul__(self, y: Dual) -> Dual:
        return Dual(self.a * y.a, self.a * y.b + self.b * y.a)


def sine(x: Any) -> Any:
    return Dual(math.sin(x.a), math.cos(x.a) * x.b) if isinstance(x, Dual) else pb.sin(x)


def half_of_reciprocal(x: Any) -> Any:
    """1 / (2 + x²)."""
    if isinstance(x, Dual):
        y = 1 / (2 + x.a * x.a)
        return Dual(y, -2 * x.a * x.b * y * y)
    return 1 / (2 + x * x)


def made(seed: int) -> Callable[[Any, Any, Any], Any]:
    """A random expression of the state s, the parameter x and the index i."""
    rng = random.Random(seed)

    def grown(depth: int) -> Callable[[Any, Any, Any], Any]:
        if not depth:
            return rng.choice([lambda s, x, i: s, lambda s, x, i: x, lambda s, x, i: i])
        f, g = grown(depth - 1), grown(depth - 1)
        return rng.choice([
            lambda s, x, i: f(s, x, i) + g(s, x, i), lambda s, x, i: f(s, x, i) * sine(g(s, x, i)),
            lambda s, x, i: sine(f(s, x, i)), lambda s, x, i: half_of_reciprocal(f(s, x, i)) + g(s, x, i),
        ])  # fmt: skip

    f = grown(3)
    return lambda s, x, i: f(s, x, i) + s * sine(x)


def by_hand(f: Callable[[Any, Any, Any], Any], x: float, n: int) -> Dual:
    """The state after n steps from x, and its derivative by x."""
    state = at = Dual(x, 1.0)
    for i in range(n):
        state = f(state, at, Dual(float(i), 0.0))
    return state


@pytest.mark.parametrize("seed", range(6))
def test_f16_folds_of_data_against_dual_numbers(seed: int) -> None:
    f, rng = made(seed), np.random.default_rng(seed)

    @pb.function
    def one(x: Number, n: Count) -> Any:
        return pb.fold(n, x, lambda s, i: f(s, x, i * 1.0), max_trips=BOUND)

    @pb.function
    def unbounded(x: Number, n: Count) -> Any:
        return pb.fold(n, x, lambda s, i: f(s, x, i * 1.0))

    @pb.function
    def each(x: Vector, n: Counts) -> Any:
        return pb.build(x.shape[0], lambda k: pb.fold(n[k], x[k], lambda s, i: f(s, x[k], i * 1.0), max_trips=BOUND))

    xs, counts = rng.uniform(-1, 1, BOUND + 3), np.arange(-2, BOUND + 1)
    expected = [by_hand(f, x, n) for x, n in zip(xs, counts, strict=True)]
    values, slopes = [y.a for y in expected], [y.b for y in expected]
    for x, n, value, slope in zip(xs, counts, values, slopes, strict=True):
        assert one(x, n) == pytest.approx(value, rel=1e-11, abs=1e-13)
        assert unbounded(x, n) == pytest.approx(value, rel=1e-11, abs=1e-13)
        assert pb.grad(one, wrt="x")(x, n) == pytest.approx(slope, rel=1e-11, abs=1e-13)
        assert pb.jacobian(unbounded, wrt="x", mode="forward")(x, n) == pytest.approx(slope, rel=1e-11, abs=1e-13)
    for mapped in (each, pb.vmap(one)):
        np.testing.assert_allclose(mapped(xs, counts), values, rtol=1e-11, atol=1e-13)
        total = pb.grad(pb.function(lambda x, n, mapped=mapped: pb.sum(mapped(x, n))), wrt="x")
        np.testing.assert_allclose(total(xs, counts), slopes, rtol=1e-11, atol=1e-13)


def test_f16_second_derivatives_of_a_fold_of_data() -> None:
    power = pb.function(lambda x, n: pb.fold(n, 1.0, lambda s, i: s * x, max_trips=9))
    for n in (0, 1, 2, 5):
        assert pb.grad(pb.grad(power, wrt=0), wrt=0)(2.0, np.array(n)) == n * (n - 1) * 2.0 ** (n - 2)


def test_f16_a_count_that_is_an_element_of_an_array() -> None:
    @pb.function
    def sums(x: Vector, n: Int64[Array, "2"]) -> Any:
        """A tree as state, and data read at the index."""
        return pb.fold(n[1], {"sum": 0.0, "last": x[0]}, lambda s, i: {"sum": s["sum"] + x[i], "last": x[i]})

    x = np.array([5.0, 7.0, 11.0])
    found = sums(x, np.array([9, 2]))
    assert (found["sum"], found["last"]) == (12.0, 7.0)
    assert sums(x, np.array([9, 0]))["last"] == 5.0
    with pytest.raises(IndexError, match="E401"):
        sums(x, np.array([9, 4]))


def test_f16_the_index_is_as_weak_as_that_of_every_fold() -> None:
    for bound in (None, 9):
        add = functools.partial(pb.fold, f=lambda s, i: s + i, max_trips=bound)
        found = pb.function(lambda x, n, add=add: add(n, x))(np.float32(0.5), np.array(4))
        assert (found, np.asarray(found).dtype) == (6.5, np.float32)


def test_f16_counts_above_the_bound_are_errors() -> None:
    @pb.function
    def power(x: Number, n: Count) -> Any:
        return pb.fold(n, 1.0, lambda s, i: s * x, max_trips=3)

    @pb.function
    def powers(x: Vector, n: Counts) -> Any:
        return pb.build(x.shape[0], lambda k: pb.fold(n[k], 1.0, lambda s, i: s * x[k], max_trips=3))

    two, four = np.full(2, 2.0), np.array([1, 4])
    total = pb.grad(pb.function(lambda x, n: pb.sum(powers(x, n))), wrt=0)
    for call in (lambda: power(2.0, 4), lambda: pb.grad(power, wrt="x")(2.0, 4), lambda: powers(two, four),
                 lambda: total(two, four), lambda: pb.vmap(power)(two, four)):  # fmt: skip
        with pytest.raises(UnfinishedError, match=r"\[E404\] fold: the number of steps is above max_trips"):
            call()


def test_f16_what_a_fold_of_data_needs() -> None:
    @pb.function
    def power(x: Number, n: Count) -> Any:
        return pb.fold(n, 1.0, lambda s, i: s * x)

    with pytest.raises(DerivativeError, match=r"\[E203\] reverse mode needs a bound on the trips of a fold"):
        pb.grad(power, wrt="x")(2.0, 3)

    def refused(f: Callable[..., Any], error: type[Exception], code: str, *annotations: Any) -> None:
        f.__annotations__ = dict(zip(("x", "n"), annotations, strict=False))
        with pytest.raises(error, match=code):
            pb.function(f).program()

    refused(lambda x, n: pb.build(x.shape[0], lambda k: pb.fold(n[k], x[k], lambda s, i: s * 2)), TraceError, "E133",
            Vector, Counts)  # fmt: skip
    refused(lambda x, n: pb.fold(n > 1, x, lambda s, i: s * 2), DTypeError, "E121", Number, Count)
    refused(lambda x, n: pb.fold(n, x, lambda s, i: s * 2, max_trips=3), DTypeError, "E121", Number, Number)
    refused(lambda x, n: pb.fold(n, x, lambda s, i: (s, s)), ShapeError, "E139", Number, Count)
    refused(lambda x, n: pb.fold(n, 1.0, lambda s, i: s * x[:1]), ShapeError, "E139", Float64[Array, "4"], Count)
    refused(lambda x, n: pb.fold(n, x, lambda s, i: s > 0), DTypeError, "E139", Number, Count)
