"""The smart constructors: what they fold, and what they leave alone."""

import gc
import math
import weakref
from typing import Any

import pytest

from pullback.ad.guards import ways_of
from pullback.ir import expr, types
from pullback.ir.expr import (
    Add,
    Bracket,
    Const,
    Mul,
    Ref,
    Select,
    add,
    bracket,
    cast,
    const,
    from_index,
    get,
    mul,
    negative,
    reduce,
    select,
    zero,
)
from pullback.ir.expr import test as index_test
from pullback.ir.index import Var, as_index, cond, symbol
from pullback.ir.parser import parse_program
from pullback.ir.program import Build
from pullback.ir.traverse import specialize
from pullback.rewrite.normal_form import normalize

N = symbol("N")
X = Ref("x", types.f64, (N,))
I = Var("i", N)
x = get(X, I)
c = cond(">=", as_index(I) - 1)


def test_nodes_are_one():
    assert get(X, I) is x and x + 1 is x + 1 and const(-0.0, types.f64) is not const(0.0, types.f64)
    assert const(math.nan, types.f64) is const(math.nan, types.f64)


def test_structural_zero_vanishes_and_absorbs():
    nothing = zero(types.f64)
    assert add(x, nothing) is x and mul(x, nothing) is nothing and bracket((c,), nothing) is nothing
    assert reduce("sum", (I,), nothing) is nothing and add(nothing, nothing) is nothing


def test_a_users_terms_are_never_cancelled():
    assert isinstance(x - x, Add) and isinstance(x * 0.0, Mul)
    assert not isinstance(x / x, Const)


def test_like_terms_merge_to_a_fixed_point():
    assert add(x, x) is 2 * x
    assert add(x, x, 2 * x) is 4 * x


def test_constants_fold_where_that_is_exact():
    assert mul(const(2, types.f64), const(0.1, types.f64), x) is 0.2 * x
    assert isinstance(mul(const(0.3, types.f64), const(0.1, types.f64), x), Mul)
    assert add(const(250, types.u8), const(10, types.u8)) is const(4, types.u8)
    assert negative(negative(x)) is x


def test_brackets_merge_and_leave_products():
    d = cond(">=", as_index(I) - 2)
    assert bracket((c,), bracket((d,), x)) is bracket((d, c), x)
    assert x * bracket((c,), x) is bracket((c,), x * x)
    assert bracket((True,), x) is x and bracket((False,), x) is zero(types.f64)


def test_a_false_bracket_is_false():
    false = const(False, types.bool_)
    assert bracket((c,), false) is false
    assert select(bracket((c,), false), x, 2 * x) is 2 * x


def test_select_on_indices_is_brackets():
    chosen = select(index_test((c,)), x, 2 * x)
    assert isinstance(chosen, Add) and all(isinstance(a, Bracket) for a in chosen.args)
    assert select(index_test((c,)), x, zero(types.f64)) is bracket((c,), x)
    b = get(Ref("b", types.bool_, (N,)), I)
    assert isinstance(select(b, x, 2 * x), Select) and select(b, x, x) is x
    assert select(const(True, types.bool_), x, 2 * x) is x


def test_casts_fold():
    assert cast(const(300, types.i32), types.u8) is const(44, types.u8)
    assert cast(const(math.nan, types.f64), types.i8) is const(0, types.i8)
    assert cast(from_index(I, types.i64), types.f32) is from_index(I, types.f32)
    assert cast(from_index(I, types.i64), types.bool_).dtype is types.bool_


def test_sums_keep_the_order_in_which_they_are_written() -> None:
    x, y, z = (expr.get(Ref(n, types.f64, ())) for n in "xyz")
    with expr.in_order():
        total = y + (x + z)
        assert expr.add(x + z, y) is expr.add(x, z, y)
    assert isinstance(total, expr.Add)
    assert total.args == (y, x + z)
    assert expr.add(y, x + z).args == (y, x, z)  # type: ignore[attr-defined]


def test_a_choice_by_two_conditions_is_no_sum_of_two_parts() -> None:
    """Where one holds and the other does not, it is the otherwise."""
    low, high = cond(">=", as_index(I) - 1), cond(">=", N - 3 - as_index(I))
    one, both = index_test((low,)), index_test((low, high))
    element, number = get(X, I), const(2.0, types.f64)
    assert select(one, element, number) is add(bracket((low,), element), bracket((low.negate(),), number))
    assert isinstance(select(both, element, number), Select)
    assert select(both, element, zero(types.f64)) is bracket((low, high), element)


@pytest.mark.usefixtures("few_objects")
def test_programs_that_are_dropped_go_without_the_collector() -> None:
    """Neither nodes nor what walks them are cycles: compiling holds the collector back."""

    def made() -> list[weakref.ref[Any]]:
        text = "f(x: f64[N]) { y = build n < N { [n >= 1] sum m < N { exp(x[m]) * x[(n + m) // 2] } } return y }"
        program = normalize(specialize(parse_program(text), {"N": 1 << 20}))
        builds = [s for s in program.body.statements if isinstance(s, Build)]
        ways_of(builds[-1].values[0])
        return [weakref.ref(x) for x in (program, *builds, *(v for s in builds for v in s.vars))]

    enabled = gc.isenabled()
    gc.disable()
    try:
        nodes = made()
        left = [r() is not None for r in nodes]  # in tables of what was asked last
    finally:
        if enabled:
            gc.enable()
    gc.collect()
    assert sum(left) <= 1
    assert left == [r() is not None for r in nodes]
