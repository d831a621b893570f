"""Deltas that are written into sums: solved in the function as in its derivatives, with a range condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array
from pullback.ir import expr
from pullback.ir.expr import Ref
from pullback.ir.index import Var, as_index, cond, symbol
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.settings import Settings
from pullback.ir.types import f64
from pullback.passes.pipeline import optimize
from pullback.rewrite.kronecker import _Eliminator, solve_deltas


@pytest.mark.parametrize(("before", "after"), [
    ("[i == j] exp(x[i])", "exp(x[j])"),
    ("[i == j + 2] x[i]", "[N >= j + 3] x[j + 2]"),
    ("[2 * i == j] x[i]", "[j % 2 == 0] x[j // 2]"),
    ("[i == j, i >= 3] x[i]", "[j >= 3] x[j]"),
    ("[i == data(p[j])] x[i]", "[N >= data(p[j]) + 1, data(p[j]) >= 0] x[data(p[j])]"),
    ("[i == (j + 5) % N] x[i]", "x[(j + 5) % N]"),
])  # fmt: skip
def test_a_sum_over_a_delta_is_its_term(before: str, after: str) -> None:
    head, tail = "f(x: f64[N], p: i64[N]) {\n  y = build j < N { ", " }\n  return y }\n"
    program = parse_program(f"{head}sum i < N {{ {before} }}{tail}")
    assert print_program(solve_deltas(program)) == head + after + tail


def test_a_product_with_deltas_is_multiplied_out_for_a_sum_over_one() -> None:
    n = symbol("N")
    i, j = Var("i", n), Var("j", n)
    w, x, y = (Ref(name, f64, [n]) for name in "wxy")
    here, next_one = (cond("==", as_index(i) - as_index(j) - k) for k in (0, 1))
    deltas = expr.add(expr.bracket((here,), expr.get(x, j)), expr.bracket((next_one,), expr.get(y, j)))
    before = as_index(i) - 1
    assert _Eliminator(False)._sum((j,), expr.mul(expr.get(w, j), deltas)) is expr.add(
        expr.mul(expr.get(x, i), expr.get(w, i)),
        expr.bracket((cond(">=", before),), expr.mul(expr.get(y, before), expr.get(w, before))),
    )


def test_what_is_true_for_one_of_many_is_tested_there() -> None:
    text = "f(x: f64[9]) {\n  y = build j < 9 { any i < 9 { %s } }\n  return y }\n"
    for term, after in (("[i + j == 8] true", "true"), ("[i == j + 2] (x[i] >= 0.0)", "[6 >= j] (x[j + 2] >= 0.0)")):
        found = print_program(solve_deltas(parse_program(text % term))).splitlines()[1]
        assert found == f"  y = build j < 9 {{ {after} }}"


def test_other_sums_stay_as_they_are() -> None:
    text = "f(x: f64[N], p: i64[N]) {\n  y = build j < N { sum i < N { %s } }\n  return y }\n"
    for term in ("[j >= i] x[i]", "[j == data(p[i])] x[i]", "[(j + i) % 2 == 0] x[i]"):
        assert print_program(solve_deltas(parse_program(text % term))) == text % term


def test_terms_keep_their_order_under_exact() -> None:
    text = "f(x: f64[N]) {\n  y = build j < N { sum i < N { [j == i] y0 + x[i] } }\n  return y }\n"
    program = parse_program(text.replace("y0", "f64(2.0)"))
    assert print_program(solve_deltas(program)).splitlines()[1] == "  y = build j < N { 2.0 + sum i < N { x[i] } }"
    exactly = replace(program, settings=Settings(exact=True))
    assert print_program(solve_deltas(exactly)) == text.replace("y0", "f64(2.0)")


Element = Callable[[Any, Any, Any, Any], Any]
WRITTEN: dict[str, Element] = {
    "where": lambda i, k, p, value: pb.where(i == p[k], value, 0.0),
    "shifted": lambda i, k, p, value: pb.where(i - p[k] == 2, value, 0.0),
    "multiple": lambda i, k, p, value: pb.where(2 * i == p[k], value, 0.0),
    "factor": lambda i, k, p, value: pb.astype(i == p[k], pb.float64) * value,
    "both": lambda i, k, p, value: pb.where((i == p[k]) & (i < 4), value, 0.0),
    "no_data": lambda i, k, p, value: pb.where(3 * i == k + 1, value, 0.0),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_delta_of_the_users_costs_what_it_gives(name: str) -> None:
    """Places outside give exactly 0, what stands elsewhere is not looked at, and nothing is as large as the square."""
    written = WRITTEN[name]

    @pb.function
    def chosen(x: Float64[Array, "N"], p: Int64[Array, "K"]) -> Any:
        return pb.build(p.shape[0], lambda k: pb.sum_over(x.shape[0], lambda i: written(i, k, p, pb.exp(x[i]))))

    x, p = np.linspace(-1.0, 1.0, 7), np.array([0, 6, -1, 7, 3, 2, 2, 1 << 40, -(1 << 40), 8])
    x[5] = np.nan
    with np.errstate(all="ignore"):
        holds = {
            "where": lambda i, k: i == p[k],
            "shifted": lambda i, k: i - p[k] == 2,
            "multiple": lambda i, k: 2 * i == p[k],
            "factor": lambda i, k: i == p[k], "both": lambda i, k: (i == p[k]) & (i < 4),
            "no_data": lambda i, k: 3 * i == k + 1,
        }[name](np.arange(7)[None], np.arange(10)[:, None])  # fmt: skip
    picked = np.where(holds, np.exp(x), 0.0)
    np.testing.assert_allclose(chosen(x, p), picked.sum(1), rtol=1e-15)
    np.testing.assert_allclose(chosen.interpret(x, p), picked.sum(1), rtol=1e-15)
    bar = np.linspace(1.0, 2.0, 10)
    bar[holds[:, 5]] = 3.0
    expected = np.where(holds, np.exp(x) * bar[:, None], 0.0).sum(0)
    for run in (pb.vjp(chosen), pb.vjp(chosen).interpret):
        np.testing.assert_allclose(run(x, p, cotangent=bar)[1][0], expected, rtol=1e-14)
    tangent = pb.jvp(chosen)((x, p), (np.ones(7), None))[1]
    np.testing.assert_allclose(tangent, picked.sum(1), rtol=1e-15)
    for f in (chosen, pb.vjp(chosen)):
        assert f.memory(N=20_000, K=20_000).peak_bytes <= 2 * 8 * 20_000
        program = optimize(f.program(), {"N": 20_000, "K": 20_000})
        assert "sum" not in print_program(program).replace("x_sum", ""), print_program(program)
