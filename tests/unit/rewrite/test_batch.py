"""Batched loops and choices: what only some members of a batch come to is done for these alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb

TABLE = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def looked_up(table: Any, n: Any) -> Any:
    """A branch reads at a place that is tested."""
    return pb.cond(n < 5, lambda t: t[n] * t[0], lambda t: t[1], table)


def chosen_twice(table: Any, n: Any) -> Any:
    """A place that is tested, two branches deep."""
    return pb.cond(n > 0, lambda t: pb.cond(n < 5, lambda t: t[n], lambda t: t[0], t), lambda t: t[1], table)


def looked_up_otherwise(table: Any, n: Any) -> Any:
    """The branch of those for which a test fails reads there."""
    return pb.cond(n >= 5, lambda t: t[1], lambda t: t[n] * t[0], table)


def halved(table: Any, n: Any) -> Any:
    """A loop without places that only ends where its branch is taken."""
    loop = lambda t: pb.while_loop(lambda s: s[1] != 0, lambda s: (s[0] / 2, s[1] - 1), (t[0], n))[0]
    return pb.cond(n > 0, loop, lambda t: t[1], table)


def counted_down(table: Any, n: Any) -> Any:
    """A loop that only ends where its branch is taken."""
    step = lambda s: (s[0] * table[s[1]], s[1] - 1)
    product = lambda t: pb.while_loop(lambda s: s[1] != 0, step, (t[0], n))[0]
    return pb.cond(n > 0, product, lambda t: t[1], table)


def counted_up(table: Any, n: Any) -> Any:
    """A loop whose states go out of range for those that are ready, while others are not."""
    step = lambda s: (s[0] + 1, s[1] + table[s[0]])
    return pb.while_loop(lambda s: s[0] < 5, step, (n, table[0]), max_trips=9)[1]


@pytest.mark.parametrize("f", [looked_up, looked_up_otherwise, chosen_twice, counted_down, counted_up])
def test_members_of_a_batch_run_by_themselves(f: Any) -> None:
    """Values and gradients by batch are those one by one."""
    single = pb.function(f)
    places = np.array([3, 0, 4, 1]) if f is counted_down else np.array([7, 3, 0, 9])
    batched = pb.vmap(single, in_axes=(None, 0))
    expected = [single(TABLE, n) for n in places]
    np.testing.assert_array_equal(batched(TABLE, places), expected)
    np.testing.assert_array_equal(batched.interpret(TABLE, places), expected)
    if f is not counted_down:
        slopes = [pb.grad(single)(TABLE, n) for n in places]
        np.testing.assert_allclose(pb.vmap(pb.grad(single), in_axes=(None, 0))(TABLE, places), slopes)
        total = pb.function(lambda t, n: pb.sum(batched(t, n)))
        np.testing.assert_allclose(pb.grad(total)(TABLE, places), np.sum(slopes, 0))


def test_a_branch_not_taken_need_not_end() -> None:
    """The loop of n < 0 would go on for ever."""
    batched = pb.vmap(pb.function(counted_down), in_axes=(None, 0))
    np.testing.assert_array_equal(batched(TABLE, np.array([-7, 3, 0, 4])), [2.0, 24.0, 2.0, 120.0])


def test_a_loop_without_places_need_not_end_where_its_branch_is_not_taken() -> None:
    batched = pb.vmap(pb.function(halved), in_axes=(None, 0))
    np.testing.assert_array_equal(batched.interpret(TABLE, np.array([-7, 3, 0, 1])), [2.0, 0.125, 2.0, 0.5])


@pytest.mark.parametrize(
    "block",
    [
        lambda t, n: pb.cond(t[0] > 0, lambda t: t[n], lambda t: t[0], t),
        lambda t, n: pb.fold(3, 0.0, lambda s, i: pb.sin(s) + t[n]),
        lambda t, n: pb.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + t[n]), (0, 0.0), max_trips=4)[1],
    ],
    ids=["choice", "fold", "loop"],
)
def test_blocks_in_a_branch_run_for_members_that_take_it(block: Any) -> None:
    """A batch enters a block for all members, also if some would read out of range there."""
    single = pb.function(lambda table, n: pb.cond(n < 5, lambda t: block(t, n), lambda t: t[1], table))
    places = np.array([7, 3, 0, 9])
    expected = [single.interpret(TABLE, n) for n in places]
    np.testing.assert_array_equal(pb.vmap(single, in_axes=(None, 0)).interpret(TABLE, places), expected)


def test_what_no_member_decides_is_computed_once() -> None:
    """Terms common to all members are computed once, also in a branch that only some members take."""
    taken = lambda t, n: t[n] * pb.sum(pb.sin(t))
    single = pb.function(lambda t, n: pb.cond(n < 5, lambda t: taken(t, n), lambda t: t[1], t))
    program = pb.vmap(single, in_axes=(None, 0)).program(TABLE, np.array([7, 3]))
    ranks = {o.name: o.rank for s in program.body.statements for o in s.outs}
    assert (ranks["sin"], ranks["sum"], ranks["value"]) == (1, 0, 1)


def test_the_rule_of_a_batched_function_is_batched() -> None:
    """A rule that is no derivative, so that it is seen to be used."""
    tripled = pb.custom_derivative(lambda x: pb.sin(x), vjp=lambda primals, out, bar: (3 * out * bar,))
    rows = TABLE.reshape(1, 5)
    slopes = pb.grad(lambda x: pb.sum(pb.vmap(tripled)(x)))
    np.testing.assert_allclose(pb.function(slopes).interpret(rows), 3 * np.sin(rows))
