"""Patterns at a call: through every statement, with all places that a dense Jacobian has entries in, and few more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array
from pullback.ad.jacobian import jacobian
from pullback.ad.pattern import depends_on_values, patterns
from pullback.ir.interpret import interpret

RNG = np.random.default_rng(0)
VECTOR = RNG.standard_normal(7)
PLACES = np.array([4, 0, 4, 1])


def heated(u: Float64[Array, "N"]) -> Any:
    def step(v: Any, t: Any) -> Any:
        return pb.build(v.shape[0], lambda i: v[i] + 0.1 * (v.at(i - 1) - 2 * v[i] + v.at(i + 1)))

    return pb.fold(2, u, step)


def remembered(u: Float64[Array, "N"]) -> Any:
    return pb.scan(u.shape[0], 0.0, lambda c, t: (u[t], c * u[t]))[1]


def summed(u: Float64[Array, "N"]) -> Any:
    return pb.cumulative_sum(u)


def doubled(u: Float64[Array, "N"]) -> Any:
    step = lambda v: pb.build(v.shape[0], lambda i: 2 * v[i] + v.at(i - 1))
    grown, _ = pb.while_loop(lambda v: pb.max(v) < 20.0, step, u, max_trips=3, at_limit="report")
    return grown * u


def turned(u: Float64[Array, "N"]) -> Any:
    return pb.cond(pb.sum(u) > 0, lambda: u * u, lambda: pb.sin(u[::-1]))


def looked_up(u: Float64[Array, "N"], place: Int64[Array, "O"]) -> Any:
    p = pb.in_range(place, u.shape[0])
    return pb.fold(2, u, lambda v, t: pb.build(p.shape[0], lambda o: v[p[o]]) * pb.sum(v[:1]))


def largest(u: Float64[Array, "N"]) -> Any:
    return pb.max(u) * u[1:]


def checkpointed(u: Float64[Array, "N"]) -> Any:
    return pb.checkpoint(heated)(u)


CASES: list[tuple[Callable[..., Any], tuple[Any, ...], int, bool]] = [
    (heated, (VECTOR,), 29, False),
    (remembered, (VECTOR,), 13, False),
    (summed, (VECTOR,), 28, False),
    (doubled, (VECTOR,), 22, True),
    (turned, (VECTOR,), 7, True),
    (turned, (-VECTOR,), 7, True),
    (checkpointed, (VECTOR,), 29, False),
]


@pytest.mark.parametrize(("f", "args", "places", "by_value"), CASES)
def test_pattern_covers_the_dense_jacobian(
    f: Callable[..., Any], args: tuple[Any, ...], places: int, by_value: bool
) -> None:
    program = pb.function(f).program(*args)
    (dense,) = interpret(jacobian(program, 0, "forward"), list(args))
    (found,) = patterns(program, 0, list(args))
    inside = np.zeros((dense.size // args[0].size, args[0].size), bool)
    inside[found.rows, found.columns] = True
    assert not dense.reshape(inside.shape)[~inside].any()
    assert len(found.rows) == places
    assert depends_on_values(program, 0) == by_value


def test_the_extremum_is_a_place_that_depends_on_values() -> None:
    program = pb.function(largest).program(VECTOR)
    assert depends_on_values(program, 0)
    (found,) = patterns(program, 0, [VECTOR])
    assert len(found.rows) in (11, 12)  # the diagonal and the column of the largest


def test_rows_of_loops_without_trips() -> None:
    (found,) = patterns(pb.function(remembered).program(VECTOR), 0, [VECTOR[:0]])
    assert found.shape == (0, 0)


def test_loops_beside_the_derivative_decide_nothing() -> None:
    """How often a value is halved that no tangent goes through leaves the pattern as it is."""

    def beside(x: Float64[Array, "N"], y: Float64[Array, ""]) -> Any:
        halved = pb.while_loop(lambda s: s > 1.0, lambda s: s / 2, y, max_trips=60)
        return x * halved

    def inside(x: Float64[Array, "N"], y: Float64[Array, ""]) -> Any:
        return pb.while_loop(lambda s: y > s[0], lambda s: (s[0] * 2, pb.roll(s[1], 1)), (1.0, x), max_trips=60)[1]

    assert not depends_on_values(pb.function(beside).program(), 0)
    assert depends_on_values(pb.function(inside).program(), 0)
