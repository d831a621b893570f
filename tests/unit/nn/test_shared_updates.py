"""Updates by several processes, which are objects here: who is asked what, and what becomes of answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback.nn.training import shared
from pullback.nn.training.shared import Part, SharedUpdates, _mean, _means
from pullback.nn.training.step import SLOW, Carry, Updates
from tests.unit.nn.test_fit import Descent, line, loss, start


class Here:
    """A process in this one, which notes how many samples it was given."""

    made: list[Here] = []

    def __init__(self, what: str, make: Any, *arguments: Any, options: Any) -> None:
        self.what, self.options, self.sizes, self.ended = what, options, [], False
        self.object = make(*arguments)
        Here.made.append(self)

    def ask(self, method: str, held: Any, batch: Any) -> Any:
        self.sizes.append(len(batch[0]))
        return getattr(self.object, method)(held, batch)

    def end(self) -> None:
        self.ended = True


@pytest.fixture(autouse=True)
def _processes_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    monkeypatch.setattr(shared, "Process", Here)
    monkeypatch.setattr(shared, "answer", lambda promised, *_: promised)
    monkeypatch.setattr(shared, "sent", lambda value: value)
    monkeypatch.setattr(Here, "made", [])


def carry() -> Carry:
    given = start()
    return Carry(given["parameters"], given["state"], Descent(0.1).init(None))


def plain(parameters: Any, state: Any, batch: Any) -> Any:
    return loss(parameters, state, batch)[0]


def batches(count: int, samples: int) -> Any:
    return tuple(x.reshape(count, samples) for x in line(count * samples))


@pytest.mark.parametrize(("workers", "samples", "sizes"), [
    (1, 8, [8]), (2, 8, [4, 4]), (3, 8, [2, 3, 3]), (3, 7, [2, 2, 3]), (4, 3, [None, 1, 1, 1]),
])  # fmt: skip
def test_parts_of_a_batch_make_the_update_of_the_whole(workers: int, samples: int, sizes: list[int | None]) -> None:
    """The optimizer knows the step; a process whose part is empty is not asked."""
    together, alone = SharedUpdates(plain, Descent(0.1), carry(), workers), Updates(plain, Descent(0.1), carry())
    given = batches(3, samples)
    np.testing.assert_allclose(together(given, 5), alone(given, 5), rtol=1e-13)
    for ours, theirs in zip(together.arrays, alone.arrays, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    assert int(together.carry.optimizer["count"]) == 3
    assert [p.sizes for p in Here.made] == [[] if n is None else [n] * 3 for n in sizes]
    assert [p.what for p in Here.made] == [f"part {k} of the batch" for k in range(workers)]
    together.end()
    assert all(p.ended for p in Here.made)


def test_a_state_is_the_mean_of_the_parts_and_counts_are_those_of_the_first() -> None:
    def counting(parameters: Any, state: Any, batch: Any) -> Any:
        value, seen = loss(parameters, {"seen": state["seen"]}, batch)
        return value, {**seen, "mean": state["mean"] + batch[0].sum() / len(batch[0])}

    own = carry()
    own = own._replace(state={"mean": np.zeros(()), "seen": np.zeros((), np.int64)})
    updates = SharedUpdates(counting, Descent(0.1), own, 3)
    x, y = batches(2, 8)
    updates((x, y), 0)
    assert int(updates.carry.state["seen"]) == 2 * 2
    assert float(updates.carry.state["mean"]) == pytest.approx(x.mean(1).sum())


def test_a_call_is_one_update_of_unknown_length() -> None:
    updates = SharedUpdates(plain, Descent(0.1), carry(), 2)
    assert updates.seconds(None) == SLOW
    assert updates.arena_bytes == {}


def test_gradients_of_a_part() -> None:
    held = start()["parameters"], start()["state"]
    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    value, gradients, state = Part(loss, {}).gradient(held, (x, y))
    assert (value, [float(g) for g in gradients]) == (17.0, [-13.0, -8.0])  # of mean((a x + b - y)^2) at 0
    assert state is not None and [int(s) for s in state] == [2]
    assert type(value) is float
    assert Part(plain, {}).gradient(held, (x, y))[2] is None


def test_means() -> None:
    one, two = np.array([1.0, 2.0], np.float32), np.array([5.0, 10.0], np.float32)
    mean = _mean([one, two], [0.25, 0.75])
    assert mean.dtype == np.float32
    assert mean.tolist() == [4.0, 8.0]
    assert one.tolist() == [1.0, 2.0]
    assert _mean([np.array(3), np.array(9)], [0.5, 0.5]) == 3
    found = _means([[one, np.array(3)], [two, np.array(9)], [one, np.array(4)]], [0.5, 0.25, 0.25])
    assert [np.asarray(x).tolist() for x in found] == [[2.0, 4.0], 3]
