"""The compiled functions of training by themselves: what a call of some updates computes, keeps and gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import UsageError
from pullback.nn.optimizers.scaled import Scaled
from pullback.nn.training import step
from pullback.nn.training.step import Carry, Updates, pair, stack_size
from pullback.nn.training.task import _number
from pullback.nn.training.validation import Measure
from pullback.tracing import tree
from tests.unit.nn.test_fit import Descent, line, loss, start


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")


def carry() -> Carry:
    given = start()
    return Carry(given["parameters"], given["state"], Descent(0.1).init(None))


def stacked(count: int, samples: int) -> Any:
    return tuple(x.reshape(count, samples) for x in line(count * samples))


def one(batches: Any, k: int) -> Any:
    return tree.map_leaves(lambda x: x[k : k + 1], batches)


def test_updates_in_one_call_are_those_of_several() -> None:
    """Steps count on from where the run stands."""
    together, alone, batches = Updates(loss, Descent(0.1), carry()), Updates(loss, Descent(0.1), carry()), stacked(3, 8)
    losses = together(batches, 4).copy()
    assert losses.tolist() == pytest.approx([float(alone(one(batches, k), 4 + k)[0]) for k in range(3)])
    for ours, theirs in zip(together.arrays, alone.arrays, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-14)
    assert together.arena_bytes == {}


@pytest.mark.parametrize("count", [1, 3])
def test_one_update_by_hand(count: int) -> None:
    updates, (x, y) = Updates(loss, Descent(0.1), carry()), stacked(count, 8)
    a = b = 0.0
    for k, found in enumerate(updates((x, y), 50)):
        error = a * x[k] + b - y[k]
        assert float(found) == pytest.approx(np.mean(error**2))
        rate = 0.1 / (1 + (50 + k) / 100)
        a, b = a - rate * np.mean(2 * error * x[k]), b - rate * np.mean(2 * error)
    made = updates.carry
    assert (float(made.parameters["a"]), float(made.parameters["b"])) == pytest.approx((a, b))
    assert (int(made.state["seen"]), int(made.optimizer["count"])) == (8 * count, count)


def test_arrays_are_its_own() -> None:
    given = carry()
    updates = Updates(loss, Descent(0.1), given)
    first = updates.arrays
    updates(stacked(1, 8), 0)
    assert all(a is b for a, b in zip(updates.arrays, first, strict=True))
    assert float(given.parameters["a"]) == 0.0
    turned = Updates(loss, Descent(0.1), Carry({"w": np.ones((3, 2)).T}, {}, {}))
    assert turned.arrays[0].flags.c_contiguous and turned.arrays[0].shape == (2, 3)


def test_a_loss_without_a_state_leaves_it() -> None:
    updates = Updates(lambda p, s, b: loss(p, s, b)[0], Descent(0.1), carry())
    updates(stacked(2, 8), 0)
    assert int(updates.carry.state["seen"]) == 0
    assert int(updates.carry.optimizer["count"]) == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_losses_have_the_type_of_the_loss(dtype: Any) -> None:
    """Whatever the carry holds; the array is the same at each call of as many updates."""
    def cost(parameters: Any, state: Any, batch: Any) -> Any:
        return pb.mean(pb.astype(parameters["a"] * batch[0], dtype)), state

    updates, batches = Updates(cost, Descent(0.1), carry()), stacked(2, 8)
    first = updates(batches, 0)
    assert (first.dtype, first.shape) == (dtype, (2,))
    assert updates(batches, 2) is first
    single = updates(one(batches, 0), 4)
    assert (single.dtype, single.shape) == (dtype, (1,)) and single is not first


def test_batches_of_several_arrays_of_other_lengths() -> None:
    """The first array says how many updates there are."""
    def cost(parameters: Any, state: Any, batch: Any) -> Any:
        return parameters["a"] * pb.sum(batch["x"]) + parameters["b"] * pb.sum(batch["y"]), state

    updates = Updates(cost, Descent(0.1), carry())
    assert len(updates({"x": np.ones((2, 8)), "y": np.ones((2, 5, 3))}, 0)) == 2
    assert float(updates.carry.parameters["b"]) / float(updates.carry.parameters["a"]) == pytest.approx(15 / 8)


@pytest.mark.parametrize("count", [1, 2])
def test_a_function_of_updates_has_types_before_it_runs(count: int) -> None:
    updates, (x, y) = Updates(loss, Descent(0.1), carry(), threads=1), stacked(2, 8)
    function = updates.typed((x[0], y[0]), count)
    program = function.program()
    shapes = [tuple(d.constant for d in r.shape) for r in program.inputs]
    assert shapes == [(), (), (), (), *([(8,), (8,)] if count == 1 else [(2, 8), (2, 8)]), ()]
    given = (x[0], y[0]) if count == 1 else (x, y)
    found = function(updates.arrays, given, np.int64(3))
    wanted = Updates(loss, Descent(0.1), carry())
    losses = wanted(tree.map_leaves(lambda a: a[:count], (x, y)), 3)
    np.testing.assert_allclose(np.ravel(found[-1]), losses, rtol=1e-14)
    for a, b in zip(found[0], wanted.arrays, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_what_an_update_takes_follows_from_its_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    updates, (x, y) = Updates(loss, Descent(0.1), carry()), line(800)
    monkeypatch.setattr(step, "is_compiled", lambda: True)
    small, large = updates.seconds((x[:80], y[:80])), updates.seconds((x, y))
    assert 8 < large / small <= 10
    assert 800 * 3 / step.RATE < large < 800 * 20 / step.RATE


@pytest.mark.parametrize(("seconds", "steps", "size"), [
    (2e-3, 100, 1), (1.9e-3, 100, 25), (1e-3, 100, 50), (0.9e-3, 55, 55), (1e-3, 51, 17), (1e-3, 0, 1), (1e-3, 1, 1),
    (1e-3, 53, 26), (1e-2, 100, 1),
])  # fmt: skip
def test_updates_of_a_call(seconds: float, steps: int, size: int) -> None:
    assert stack_size(seconds, steps) == size


def test_rates() -> None:
    class Falling(Descent):
        def learning_rate_at(self, step: int) -> float:
            return 1 / step

    assert Updates(loss, Descent(0.1), carry()).learning_rate_at(4) is None
    assert Updates(loss, Falling(0.1), carry()).learning_rate_at(4) == 0.25


def test_losses_with_and_without_a_state() -> None:
    assert [pair(x) for x in ((1, 2), 1, (1,), (1, 2, 3), [1, 2])] == [
        (1, 2), (1, None), ((1,), None), ((1, 2, 3), None), ([1, 2], None)]  # fmt: skip


def test_what_cannot_be_measured_is_refused_before() -> None:
    measure = Measure(lambda p, s, b: [_number(max, p * b)])
    with pytest.raises(UsageError, match="max gives"):
        measure.program(Carry(np.array(2.0), {}, {}), np.ones(3))
    Measure(lambda p, s, b: [p * pb.sum(b)]).program(Carry(np.array(2.0), {}, {}), np.ones(3))


def test_means_are_weighted_by_samples() -> None:
    measure = Measure(lambda p, s, b: (p * pb.mean(b), s + pb.sum(b)))
    stacks = [np.array([[1.0, 3.0]]), np.array([[8.0], [5.0]]), np.array([[0.0, 0.0, 6.0]])]
    wanted = [46 / 7, (2 * 5 + 9 + 6 + 3 * 7) / 7]
    assert measure(Carry(np.array(2.0), np.array(1.0), {}), iter(stacks)) == pytest.approx(wanted)


def test_a_scale_reaches_a_device() -> None:
    """The arrays come back from the device, and the next call copies them there with the new factor."""
    optimizer, start = Scaled(nn.sgd(0.1)), {"w": np.zeros(2)}
    updates = Updates(lambda p, s, b: pb.sum(p["w"]), optimizer, Carry(start, {}, optimizer.init(start)))
    updates._there = tuple(a + 1 for a in updates.arrays)  # the arrays of a device
    updates.scale_learning_rate(0.5, 0.5)
    assert updates._there is not None
    updates.scale_learning_rate(0.5, 0.25)
    assert updates._there is None
    assert (updates.carry.parameters["w"].tolist(), float(updates.carry.optimizer["scale"])) == ([1.0, 1.0], 0.25)
