"""Operation counts against counts by hand, and by counting what the interpreter's elements would do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.errors import ShapeError
from pullback.ir.parser import parse_program
from pullback.ir.program import Build
from pullback.passes.cost import operations
from pullback.passes.operations import operation_count

PROGRAMS = {
    "product of matrices": (
        "f(a: f64[N, M], b: f64[M, K]) { c = build n < N, k < K { sum m < M { a[n, m] * b[m, k] } } return c }",
        5 * 2 * (7 * 2),
    ),
    "a copy": ("f(a: f64[N, M]) { c = build m < M, n < N { a[n, m] } return c }", 0),
    "a difference": ("f(a: f64[N]) { c = build n < N { a[n] - a[0] } return c }", 5),
    "a transcendental": ("f(a: f64[N]) { c = build n < N { exp(a[n]) * a[n] + 1.0 } return c }", 5 * 3),
    "an expression met twice": ("f(a: f64[N]) { c = build n < N { sin(a[n]) * sin(a[n]) } return c }", 5 * 2),
    "a triangle": ("f(a: f64[N]) { c = build { sum n < N, k < N { [n >= k] (a[n] * a[k]) } } return c }", 15 * 2),
    "under a delta": ("f(a: f64[N]) { c = build n < N, k < N { [n == k] (2.0 * a[n]) } return c }", 5),
    "under two deltas": (
        "f(a: f64[N, M]) { c = build n < N, m < M, i < N, j < M { [n == i, m == j] exp(a[n, m]) } return c }",
        5 * 7,
    ),
    "a maximum": ("f(a: f64[N]) { c = build { max n < N { a[n] } } return c }", 5),
    "a scatter": ("f(a: f64[N]) { c: f64[N] = scatter n < N { [0] += 2.0 * a[n] } return c }", 5 * 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_by_hand(name: str) -> None:
    text, expected = PROGRAMS[name]
    assert operation_count(parse_program(text), {"N": 5, "M": 7, "K": 2}) == expected


def test_loops_count_their_steps_and_branches_the_costlier() -> None:
    @pb.function
    def power(x: Float64[Array, "N"]) -> Any:
        return pb.fold(6, x, lambda s, t: s * x)

    @pb.function
    def bounded(x: Float64[Array, "N"]) -> Any:
        return pb.while_loop(lambda s: s[0] < 9.0, lambda s: s * x, x, max_trips=4)

    @pb.function
    def either(x: Float64[Array, "N"]) -> Any:
        return pb.cond(x[0] > 0.0, lambda v: v * v * v, lambda v: v, x)

    assert operation_count(power.program(), {"N": 10}) == 6 * 10
    ended = 1 + 1 + 10  # the test once more; each element times the 1 - 0 of a loop that came to its end
    assert operation_count(bounded.program(), {"N": 10}) == 4 * (1 + 10) + ended
    assert operation_count(either.program(), {"N": 10}) == 1 + 2 * 10


def test_a_gradient_of_a_network_costs_a_few_times_the_network() -> None:
    @pb.function
    def loss(w: Float64[Array, "K M"], x: Float64[Array, "N M"]) -> Any:
        return pb.sum(pb.tanh(x @ w.T) ** 2)

    dims = {"K": 30, "M": 20, "N": 10}
    forward = operation_count(loss.program(), dims)
    assert 2 * 30 * 20 * 10 < forward < 2 * 30 * 20 * 10 + 5 * 30 * 10
    both = operation_count(pb.value_and_grad(loss).program(), dims)
    assert 1.9 < both / forward < 2.2  # one more product of matrices: the cotangent of x is not asked for


def test_every_dim_needs_a_number() -> None:
    with pytest.raises(ShapeError, match="E115"):
        operation_count(parse_program("f(a: f64[N]) { c = build n < N { a[n] + 1.0 } return c }"))
    assert np.isfinite(operation_count(parse_program("f(a: f64[3]) { c = build n < 3 { a[n] + 1.0 } return c }")))


@pytest.mark.parametrize(("value", "count"), [("x[i] + y[i] + z[i]", 5), ("x[i] * y[i] * z[i] * x[i]", 6), ("x[i]", 1)])
def test_a_sum_of_n_takes_n_less_one_and_its_reads(value: str, count: int) -> None:
    program = parse_program(f"f(x: f64[9], y: f64[9], z: f64[9]) {{ w = build i < 9 {{ {value} }} return w }}")
    (s,) = program.body.statements
    assert isinstance(s, Build)
    assert operations(s.values[0]) == count
