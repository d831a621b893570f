"""Edges as operators: what keeps their sources in range, and what stays a single element."""

from __future__ import annotations

from typing import Any, Final

import pytest

from pullback.ad.algebra import add, matrix, normalized, settled, transpose
from pullback.ad.edges import Edge
from pullback.ir import expr
from pullback.ir.expr import Get, Mul, Reduce, Ref, Scalar
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index, cond, symbol
from pullback.ir.program import Statement
from pullback.ir.traverse import Substitution
from pullback.ir.types import f64, i64
from pullback.rewrite.normal_form import peel_guards

N: Final = symbol("N")
I, J = Var("i", N), Var("j", N)
X, Y, W = Ref("x", f64, [N]), Ref("y", f64, [N]), Ref("w", f64, [N])
AT: Final = as_index(I)


def test_a_sum_that_moves_inside_leaves_the_source_in_range() -> None:
    """y[i] by x[i + 1] is the sum of w[j] over j <= N - 2 - i, and nothing else says that i + 1 < N."""
    guarded = expr.bracket((cond(">=", N - 2 - AT - as_index(J)),), expr.get(W, J))
    found = normalized(Edge(X, (AT + 1,), Y, (AT,), (I, J), guarded))
    guards, core = peel_guards(found.weight)
    assert (found.variables, guards) == ((I,), [cond(">=", N - 2 - AT)])
    assert isinstance(core, Reduce)


def test_the_transpose_reads_where_the_source_is() -> None:
    """x_bar[m] of y[i] = 3 x[i + 1] is 3 y_bar[m - 1] where that is there."""
    m = Var("m", N)
    edge = Edge(X, (AT + 1,), Y, (AT,), (I,), expr.const(3, f64))
    found = transpose(edge, expr.get(Y, I), (m,))
    assert found is not None
    assert not found.variables
    assert found.term is expr.bracket(
        (cond(">=", as_index(m) - 1),), expr.mul(expr.const(3, f64), expr.get(Y, as_index(m) - 1))
    )


def test_axes_of_one_element_are_their_only_place() -> None:
    single, m = Var("k", ONE_INDEX), Var("m", ONE_INDEX)
    x = Ref("x", f64, [ONE_INDEX])
    edge = Edge(x, (as_index(single),), Y, (AT,), (I, single), expr.get(W, I))
    found = transpose(edge, expr.get(Y, I), (m,))
    assert found is not None
    assert [v.extent for v in found.variables] == [N]
    assert found.term.free == set(found.variables)
    assert normalized(edge).source[0] in (ZERO_INDEX, as_index(single))


def test_the_matrix_of_an_edge_whose_place_is_data() -> None:
    """The derivative of sum k { w[k] x[p[k]] } by x[m] is the sum of w[k] where p[k] is m."""
    k, m = Var("k", N), Var("m", N)
    place = expr.data_index(expr.get(Ref("p", i64, [N], (ZERO_INDEX, N)), k), N)
    found = matrix(Edge(X, (place,), Y, (AT,), (I, k), expr.get(W, k)), (m,))
    assert isinstance(found, Reduce)
    guards, core = peel_guards(found.arg)
    assert guards == [cond("==", as_index(m) - Substitution(variables={k: as_index(found.vars[0])}).index(place))]
    assert core is expr.get(W, *found.vars)


def test_strides_and_dilations_that_are_sizes_take_a_scatter() -> None:
    """If y[i] reads x[S i + D k] with sizes S and D, a sum would have to try all places."""
    k, m = Var("k", N), Var("m", N)

    def found(stride: Index, dilation: Index) -> Any:
        place = AT * stride + as_index(k) * dilation
        return transpose(Edge(X, (place,), Y, (AT,), (I, k), expr.const(1, f64)), expr.get(Y, I), (m,))

    s, d = symbol("S"), symbol("D")
    assert found(as_index(2), as_index(3)) is not None
    assert found(s, as_index(1)) is not None
    assert found(s, d) is None


@pytest.mark.parametrize(
    ("weight", "light"),
    [
        (expr.const(2, f64), True),
        (expr.get(W, I), True),
        (expr.mul(expr.const(2, f64), expr.get(W, I)), True),
        (expr.mul(expr.get(W, I), expr.get(Y, I)), False),
        (expr.mul(expr.const(2, f64), expr.get(W, I), expr.get(Y, I)), False),
        (expr.add(expr.get(W, I), expr.const(2, f64)), False),
    ],
)
def test_what_takes_arithmetic_is_an_array_of_its_own(weight: Scalar, light: bool) -> None:
    """A number of times an element is met again for nothing; a product would be computed again."""
    made: list[Statement] = []
    found = settled(Edge(X, (AT,), Y, (AT,), (I,), weight), made)
    assert (found.weight is weight, len(made)) == (light, not light)
    assert light or isinstance(found.weight, Get)


def test_edges_with_one_source_are_one() -> None:
    one, two = (Edge(X, (AT,), Y, (AT,), (I,), expr.get(r, I)) for r in (W, Y))
    (both,) = add([one, two])
    assert both.weight is expr.add(one.weight, two.weight)
    shifted = Edge(X, (AT - 1,), Y, (AT,), (I,), expr.get(Y, I))
    assert add([one, shifted]) == [one, shifted]
    assert not isinstance(both.weight, Mul)
