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


def counted_down(table: Any, n: Any) -> Any:
    """A loop that only ends where its branch is taken."""
    step = lambda s: (s[0] * table[s[1]], s[1] - 1)
    product = lambda t: pb.while_loop(lambda s: s[1] != 0, step, (t[0], n))[0]
    return pb.cond(n > 0, product, lambda t: t[1], table)


def counted_up(table: Any, n: Any) -> Any:
    """A loop whose states go out of range for those that are ready, while others are not."""
    step = lambda s: (s[0] + 1, s[1] + table[s[0]])
    return pb.while_loop(lambda s: s[0] < 5, step, (n, table[0]), max_trips=9)[1]


@pytest.mark.parametrize("f", [looked_up, chosen_twice, counted_down, counted_up])
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
