"""What `where` does not take brings neither NaN nor a read outside of its array into a derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback.ad import guards
from pullback.ad.guards import EVERYWHERE, both, ways_of
from pullback.ir import expr, types
from pullback.ir.expr import Get, Ref
from pullback.ir.index import Cond, DimSymbol, Var, as_index, cond
from pullback.ir.traverse import Substitution

X = np.array([0.0, 0.5, 2.0])
PLACES = np.array([1, 7, 2])


def each(f: Callable[[Any], Any]) -> Any:
    return pb.build(3, f)


def narrow(x: Any) -> Any:
    return pb.where(x > 0, (1 / x).astype(pb.float32), pb.asarray(0.0, dtype=pb.float32))


# what is written, its derivatives on the diagonal, and how far right of it they are
GUARDED: dict[str, tuple[Callable[[Any], Any], list[float], int]] = {
    "a part under two guards": (
        lambda x: pb.where(x > 0, 1 / x, 0.0) + pb.where(x > 1, 3 * (1 / x), 0.0), [0.0, -4.0, -1.0], 0),
    "a root under two guards": (
        lambda x: pb.where(x > 0, pb.sqrt(x), 0.0) + pb.where(x > 1, pb.sqrt(x), 0.0), [0.0, 0.5**0.5, 0.5**0.5], 0),
    "a conversion": (narrow, [0.0, -4.0, -0.25], 0),
    "a neighbor under two conditions": (
        lambda x: each(lambda i: pb.where(i > 0, x.at(i - 1) ** 2, 0.0) + pb.where(i > 1, x.at(i - 1), 0.0)),
        [0.0, 0.0, 2.0], -1),
}


@pytest.mark.parametrize("mode", ["forward", "reverse", "mixed"])
@pytest.mark.parametrize("name", GUARDED)
def test_guards_travel_together(name: str, mode: Any) -> None:
    f, slopes, offset = GUARDED[name]
    expected = np.diag(slopes) if not offset else np.diag(slopes[1:], offset)
    np.testing.assert_allclose(pb.jacobian(pb.function(f), mode=mode)(X), expected, rtol=1e-6)


@pytest.mark.parametrize("mode", ["forward", "reverse", "mixed"])
def test_a_place_under_two_guards(mode: Any) -> None:
    f = lambda x, n: each(lambda i: pb.where(n[i] < 3, x[n[i]] ** 2, 0.0) + pb.where(n[i] < 2, x[n[i]], 0.0))
    expected = [[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 4.0]]
    np.testing.assert_allclose(pb.jacobian(pb.function(f), mode=mode)(X, PLACES), expected)


@pytest.mark.parametrize(
    ("f", "a", "x", "expected"),
    [
        (lambda a, x: a / x, 1.0, [0.0, 0.5, 2.0], 4.0),
        (lambda a, x: a * x, [1.0] * 3, [np.inf, -1.0, 2.0], [0.0, -1.0, 8.0]),
        (lambda a, x: pb.build(3, lambda i: pb.sum(a * (x[i] * x))), [1.0] * 3, [-1.0, 1.0, 2.0], [-8.0, 8.0, 16.0]),
        (lambda a, x: pb.build(3, lambda i: a[0, i] * x[i]), [[1.0] * 3], [np.inf, -1.0, 2.0], [[0.0, -1.0, 8.0]]),
    ],
    ids=["a sum of quotients", "products", "a sum of products", "products with a row"],
)
def test_what_two_guards_leave_out_meets_no_weight(f: Any, a: Any, x: Any, expected: Any) -> None:
    def guarded(a: Any, x: Any) -> Any:
        b = f(a, x)
        return pb.sum(pb.where(pb.isfinite(x) & (x != 0), b, 0.0) + pb.where((x > 1) & pb.isfinite(x), 3 * b, 0.0))

    np.testing.assert_allclose(pb.grad(pb.function(guarded), wrt=0).interpret(np.array(a), np.array(x)), expected)


def test_shared_parts_are_looked_at_once() -> None:
    """Not once for each of the two to the thirtieth paths to the first of them."""
    looked: list[Get] = []

    def known(e: Get) -> Any:
        looked.append(e)
        return EVERYWHERE

    total: Any = expr.get(Ref("x", types.f64, ()))
    for k in range(30):
        left, right = (expr.get(Ref(f"{side}{k}", types.bool_, ())) for side in "ab")
        total = expr.add(*(expr.select(test, total, expr.zero(types.f64)) for test in (left, right)))
    assert len(ways_of(total, known)) == 1
    assert len(looked) == 1


def test_too_many_ways_are_what_they_share() -> None:
    a, b = (tuple((f"{name}{k}", "shared") for k in range(40)) for name in "ab")
    assert both(a, a) == a
    assert both(a, b) == (("shared",),)
    assert both(a[:2], b[:2]) == tuple((x, "shared", y) for x, _ in a[:2] for y, _ in b[:2])


def test_ways_one_by_one() -> None:
    """What each function of guards says, of conditions on indices and tests of data."""
    n = as_index(DimSymbol("N"))
    i, j = Var("i", n), Var("j", n)
    x = Ref("x", types.f64, (n,))
    test = expr.apply("greater", expr.get(x, as_index(i)), expr.const(0.0, types.f64))
    slow = expr.reduce("any", (j,), expr.apply("less", expr.get(x, as_index(j)), expr.const(0.0, types.f64)))
    late, early = cond(">=", as_index(i) - 3), cond(">=", 2 - as_index(i))
    assert isinstance(late, Cond)
    assert isinstance(early, Cond)
    assert guards.certain(((late, test, slow), (slow, test, late)), set()) == ((late, test),)
    assert guards.certain(((late, test),), {x}) == ((late,),)
    assert guards.either([((late,),), ((late, test),)]) == ((late,),)
    assert guards.test_of(()) is expr.const(False, types.bool_)
    assert guards.is_everywhere(((late,), (early,)), ())
    assert not guards.is_everywhere(((late,), (test,)), ())
    at = lambda k: Substitution(variables={i: as_index(k)})
    assert guards.renamed(((late, test), (early,)), at(2)) == ((),)
    assert guards.renamed(((late,), (test,)), at(0)) == ((expr.apply("greater", expr.get(x, as_index(0)),
                                                                     expr.const(0.0, types.f64)),),)  # fmt: skip
    behind, same = cond(">=", as_index(i) - 3 - j), cond("==", as_index(i) - 3 - j)
    assert isinstance(behind, Cond)
    assert isinstance(same, Cond)
    assert guards.exist((j,), ((behind,),)) == ((late,),)
    assert guards.exist((j,), ((same,),)) == ((late,),)
    more = cond("==", as_index(i) + 3 - j)
    assert isinstance(more, Cond)
    assert guards.exist((j,), ((more,),)) == ((cond(">=", n - as_index(i) - 4),),)


def test_what_is_finite() -> None:
    """Numbers and indices, divided by what is proven not to be 0."""
    n, s = as_index(DimSymbol("N")), as_index(DimSymbol("S"))
    number = lambda i: expr.cast(expr.from_index(i, types.i64), types.f64)
    two, zero = expr.const(2.0, types.f64), expr.const(0.0, types.f64)
    step, odd = expr.apply("divide", two, number(s)), expr.apply("divide", two, number(n - 1))
    assert guards.is_finite(expr.mul(step, number(n)), ())
    assert not guards.is_finite(odd, guards.positive([n]))
    assert guards.is_finite(odd, guards.positive([s, n - 1, as_index(3)]))
    assert not guards.is_finite(expr.apply("divide", two, zero), ())
    assert not guards.is_finite(expr.const(float("inf"), types.f64), ())
    assert not guards.is_finite(expr.cast(step, types.f16), ())
    assert not guards.is_finite(expr.mul(step, expr.get(Ref("x", types.f64, ()))), ())
    assert guards.is_finite(expr.apply("divide", two, expr.mul(two, number(-s))), ())
    wrapped = expr.cast(expr.cast(expr.from_index(256 * s, types.i64), types.i8), types.f64)
    assert not guards.is_finite(expr.apply("divide", two, wrapped), ())
    square = expr.mul(expr.from_index(s, types.i64), expr.from_index(n, types.i64))
    assert not guards.is_finite(expr.apply("divide", two, expr.cast(square, types.f64)), ())


@pytest.mark.parametrize("steps", (0, 1, 3))
def test_steps_of_an_integrator_stand_under_no_guard(steps: int) -> None:
    """Data do: what the last component does not read may be infinite."""

    @pb.function
    def last(x: Float64[pb.Array, "N"], s: pb.Size["S"]):
        h = 1.0 / s
        rate = lambda y: pb.build(x.shape[0], lambda i: x[i] * y.at(i - 1, fill=1))
        y = pb.fold(s, x, lambda y, _: y + h * rate(y + h / 2 * rate(y)))
        return y[x.shape[0] - 1]

    gradient = pb.grad(last, wrt="x")
    x = np.array([np.inf, np.inf, 2.0, 3.0, 0.5, 0.25, 1.5])
    unread = max(x.shape[0] - 1 - 2 * steps, 0)
    wanted = gradient.interpret(np.where(np.isfinite(x), x, 1.0), steps)
    for got in (gradient.interpret(x, steps), gradient(x, steps)):
        np.testing.assert_array_equal(got[:unread], np.zeros(unread))
        if unread >= 2:  # so that nothing infinite is read
            np.testing.assert_allclose(got, wanted)
    assert str(gradient.program()).count(" ? ") == 4  # where x is multiplied, for y and for x, at each stage
