"""Loops in mixed mode: their matrices are loops over edges, forward or backward, with the structure that stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ad.eliminate import eliminate
from pullback.ir.interpret import interpret
from pullback.ir.program import Fold, walk_statements
from pullback.ir.verify import verify
from pullback.passes.operations import operation_count

RNG = np.random.default_rng(7)


@pb.function
def arm(angles: Float64[Array, "T"], lengths: Float64[Array, "T"]) -> Any:
    """Where a chain of joints ends: each turns what comes after it."""

    def step(state: Any, t: Any) -> Any:
        r, p = state
        c, s = pb.cos(angles[t]), pb.sin(angles[t])
        m = pb.build((2, 2), lambda i, j: pb.where(i == j, c, pb.where(i == 0, -s, s)))
        turned = r @ m
        return turned, pb.build(2, lambda i: p[i] + turned[i, 0] * lengths[t])

    eye = pb.build((2, 2), lambda i, j: pb.where(i == j, 1.0, 0.0))
    return pb.fold(angles.shape[0], (eye, pb.zeros(2)), step)[1]


@pb.function
def recurrent(
    h: Float64[Array, "K"], p: Float64[Array, "K H"], v: Float64[Array, "H M"], w: Float64[Array, "M H"]
) -> Any:
    """Few inputs, a state, and less than that inside of a step."""
    return pb.fold(20, pb.tanh(h @ p), lambda s, t: pb.tanh(v @ pb.tanh(w @ s) + 0.1 * s))


@pb.function
def mixture(means: Float64[Array, "K D"], x: Float64[Array, "N D"], mix: Float64[Array, "K"]) -> Any:
    """Means that move to the points near them, each by itself."""

    def step(m: Any, t: Any) -> Any:
        far = pb.build(
            (m.shape[0], x.shape[0]), lambda k, n: pb.sum_over(x.shape[1], lambda d: (x[n, d] - m[k, d]) ** 2)
        )
        q = pb.build(far.shape, lambda k, n: mix[k] * pb.exp(-0.5 * far[k, n]))
        total = pb.sum(q, axis=1)
        return pb.build(m.shape, lambda k, d: pb.sum_over(x.shape[0], lambda n: q[k, n] * x[n, d]) / total[k])

    return pb.fold(3, means, step)


@pb.function
def waist(x: Float64[Array, "N"], a: Float64[Array, "2 N"], b: Float64[Array, "H 2"], w: Float64[Array, "H H"]) -> Any:
    """Many inputs that go through two numbers into a recurrence."""
    return pb.fold(10, pb.tanh(b @ pb.tanh(a @ pb.sin(x))), lambda s, t: pb.tanh(w @ s))


@pb.function
def pendula(s: Float64[Array, "B 2"], k: Float64[Array, "B"]) -> Any:
    """Oscillators that know nothing of each other."""

    def step(s: Any, t: Any) -> Any:
        return pb.build(s.shape, lambda b, i: pb.where(
            i == 0, s[b, 0] + 0.1 * s[b, 1], s[b, 1] - 0.1 * k[b] * pb.sin(s[b, 0])))  # fmt: skip

    return pb.fold(12, s, step)


@pb.function
def rows(x: Float64[Array, "T N"], s: Float64[Array, "N"]) -> Any:
    """Rows in and out, a neighbor's state, and what one step reads of the next row."""

    def step(s: Any, t: Any) -> Any:
        new = pb.build(s.shape[0], lambda i: pb.sin(s.at(i - 1) + 2.0 * s[i]) * x[t, i] + x.at(t + 1, i))
        return new, new * s

    return pb.scan(x.shape[0], s, step)


@pb.function
def nested(x: Float64[Array, "N"], w: Float64[Array, "N"]) -> Any:
    """A loop inside of a step, a cond, and a second loop with a bound that reads what the first gave."""

    def step(s: Any, t: Any) -> Any:
        inner = pb.fold(2, s, lambda r, i: pb.sin(r) * w + x)
        return pb.cond(pb.sum(s) > 0.0, lambda v: v * inner, lambda v: v - inner, s)

    first = pb.fold(3, x * w, step)
    return first, pb.while_loop(lambda s: pb.sum(s) < 50.0, lambda s: s + first * first + 1.0, first, max_trips=60)


CASES: list[tuple[Any, tuple[Any, ...]]] = [
    (arm, (RNG.uniform(0, 1, 6), RNG.uniform(0.5, 1, 6))),
    (recurrent, (*(RNG.standard_normal(s) for s in ((2,), (2, 6), (6, 3), (3, 6))),)),
    (mixture, (RNG.standard_normal((3, 2)), RNG.standard_normal((7, 2)), RNG.uniform(0.5, 1, 3))),
    (waist, (*(RNG.standard_normal(s) for s in ((9,), (2, 9), (5, 2), (5, 5))),)),
    (pendula, (RNG.standard_normal((4, 2)), RNG.uniform(1, 2, 4))),
    (rows, (RNG.standard_normal((4, 3)), RNG.standard_normal(3))),
    (nested, (RNG.standard_normal(3), RNG.standard_normal(3))),
]


@pytest.mark.parametrize(("f", "args"), CASES, ids=lambda v: getattr(v, "name", ""))
def test_equals_central_differences(f: Any, args: tuple[Any, ...]) -> None:
    program = f.program(*args)
    made = eliminate(program, range(len(args)))
    verify(made)
    found = iter(interpret(made, list(args)))
    for k, a in enumerate(args):
        slopes: list[list[Any]] = []
        for at in np.ndindex(*a.shape):
            ends = []
            for move in (1e-6, -1e-6):
                there = a.copy()
                there[at] += move
                ends.append(interpret(program, [*args[:k], there, *args[k + 1 :]]))
            slopes.append([(up - down) / 2e-6 for up, down in zip(*ends, strict=True)])
        for column in zip(*slopes, strict=True):
            expected = np.moveaxis(np.reshape(column, (*a.shape, *column[0].shape)), range(a.ndim), range(-a.ndim, 0))
            np.testing.assert_allclose(next(found), expected, rtol=2e-6, atol=2e-6)


SIZES = {
    "arm": {"T": 64},
    "mixture": {"K": 8, "D": 3, "N": 100},
    "waist": {"N": 300, "H": 40},
    "pendula": {"B": 40},
}


@pytest.mark.parametrize(("f", "args"), [c for c in CASES if c[0].name in SIZES], ids=lambda v: getattr(v, "name", ""))
def test_takes_fewer_operations_than_both_sweeps(f: Any, args: tuple[Any, ...]) -> None:
    dims = SIZES[f.name]
    counts = [operation_count(pb.jacobian(f, mode=mode).program(*args), dims) for mode in ("forward", "reverse")]
    assert operation_count(eliminate(f.program(*args), [0], dims=dims), dims) < 0.75 * min(counts)


def test_no_slower_where_columns_are_few() -> None:
    """With few columns the matrix of a step is not made: the order in it is forward mode's."""
    args, dims = CASES[1][1], {"K": 4, "H": 32, "M": 16}
    forward = operation_count(pb.jacobian(recurrent, mode="forward").program(*args), dims)
    assert operation_count(eliminate(recurrent.program(*args), [0], dims=dims), dims) <= forward


def test_what_stays_apart_is_not_carried() -> None:
    """Of B oscillators the loop carries B matrices of 2 by 2, not one of 2 B by 2 B."""
    args = CASES[4][1]
    program = eliminate(pendula.program(*args), [0])
    carried = [r.rank for s in walk_statements(program.body) if isinstance(s, Fold) for r in s.states]
    assert max(carried) == 3


@pytest.mark.parametrize(("case", "loops"), [(0, 2), (3, 1)])
def test_the_narrow_end_decides_the_way(case: int, loops: int) -> None:
    """An arm of many joints and one end goes backward, by a loop of its own; few columns go with the loop itself."""
    f, args = CASES[case]
    made = eliminate(f.program(*args), [0], dims=SIZES[f.name])
    assert sum(isinstance(s, Fold) for s in made.body.statements) == loops
