"""Ring rules for integers and known tests: what they do not do, and their cost. What they do: tests/papers."""

from __future__ import annotations

import pytest

from pullback.ir import expr, types
from pullback.ir.expr import Ref, Scalar, Select
from pullback.ir.parser import parse_program
from pullback.ir.printer import structurally_equal
from pullback.rewrite.algebra import simplify, simplify_algebra

X = expr.get(Ref("x", types.f64, ()))
K = expr.get(Ref("k", types.i64, ()))


@pytest.mark.parametrize(
    "value", ["x[n] - x[n]", "x[n] * y[n] + x[n] * x[n]", "x[n] * 0.0", "x[n] / x[n]", "c[n] ? x[n] : y[n]"]
)
def test_floating_point_terms_stay(value: str) -> None:
    program = parse_program(f"f(x: f64[N], y: f64[N], c: bool[N]) {{ r = build n < N {{ {value} }} return r }}")
    assert structurally_equal(simplify_algebra(program), program)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (K - K, expr.const(0, types.i64)),
        (K * 3 - K * 2, K),
        (K * 3 + K * 2 + 1, K * 5 + 1),
        (K * K * 2 + K, K * (K * 2 + 1)),
    ],
)
def test_integers(before: Scalar, after: Scalar) -> None:
    assert simplify(before) is after


def chain(length: int) -> Scalar:
    """Choices one in another, both branches sharing all that is below."""
    e = X
    for k in range(length):
        test = expr.apply("less", X, expr.const(float(k % (length // 2)), types.f64))
        e = expr.select(test, e * 2.0 + 1.0, e * 3.0 - 1.0)
    return e


def test_shared_branches_are_visited_once_for_each_set_of_facts() -> None:
    assert isinstance(simplify(chain(80)), Select)  # a visit for each of the 2⁸⁰ paths would never end
