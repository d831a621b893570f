"""Parts of a run by themselves: the time that is left, updates of a call, where training starts, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.nn.training import report, step
from pullback.nn.training.batch import _structure
from pullback.nn.training.checkpoint import Position
from pullback.nn.training.mistakes import not_finite
from pullback.nn.training.report import Progress, Report
from pullback.nn.training.step import Carry, Updates, stack_size
from pullback.progress import Plain
from pullback.tracing import tree
from tests.unit.nn.test_fit import Descent, fit, line, loss, start


class Standing(Descent):
    """A rate of 0, so that parameters stay."""

    def __init__(self) -> None:
        super().__init__(0.0)


def at(share: float, seconds: float) -> Progress:
    return Progress(0, 2, 3, 3, 10, 0.5, 4.0, share, seconds)


def test_the_time_that_is_left_goes_by_the_pace_of_this_part() -> None:
    shown = Report(False)
    assert shown._left(at(0.2, 10)) is None
    assert shown._left(at(0.2, 12)) is None
    assert shown._left(at(0.5, 40)) == pytest.approx(50)


def test_a_bar_is_left_when_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    @contextmanager
    def bar() -> Iterator[Any]:
        events.append("begun")
        yield Plain(terminal=False)
        events.append("ended")

    monkeypatch.setattr(report, "progress_bar", bar)
    with Report(True):
        assert events == ["begun"]
    assert events == ["begun", "ended"]


def test_a_bar_is_moved_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[float, str]] = []

    class Bar:
        def update(self, share: float, text: str) -> None:
            shown.append((share, text))

    monkeypatch.setattr(report, "progress_bar", lambda: nullcontext(Bar()))
    with Report(True) as where:
        assert where.is_due()
        where.show(at(0.25, 1.0))
        assert not where.is_due()
    assert shown[1:] == [(0.25, "epoch 1/2  loss 0.5  4/s")]
    assert Report._pace(0.125, 2.5) == ["learning rate 0.125", "2.5/s"]


def test_nothing_to_do_is_done() -> None:
    run = fit(epochs=0)
    assert (run.stop_reason, run.steps, run.history.losses) == ("finished", 0, [])


def test_the_updates_of_a_call_divide_an_epoch() -> None:
    found = [stack_size(*wanted) for wanted in ((1e-5, 1437), (1e-5, 10007), (0.01, 1437), (1e-5, 3))]
    assert found == [1437, 3335, 1, 3]


def test_an_update_takes_longer_in_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    given = start()
    x, y = line(8)
    updates = Updates(loss, Descent(0.1), Carry(given["parameters"], given["state"], {"count": np.zeros((), np.int64)}))
    monkeypatch.setattr(step, "is_compiled", lambda: True)
    compiled = updates.seconds((x, y))
    monkeypatch.setattr(step, "is_compiled", lambda: False)
    assert updates.seconds((x, y)) == step.INTERPRETED * compiled > compiled > 0


def test_a_network_starts_from_what_is_given_and_makes_the_rest() -> None:
    net = nn.sequential(nn.dense(3))
    data = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32), np.arange(16) % 3
    how: Any = {"optimizer": Descent(0.1), "epochs": 0, "batch_size": 8, "progress": False}

    def weights(**given: Any) -> list[Any]:
        run = nn.fit(net, nn.cross_entropy, data, **how, **given)
        return tree.flatten(run.parameters)[0]

    made = nn.fit(net, nn.cross_entropy, data, **how).parameters
    doubled = tree.map_leaves(lambda x: 2 * np.asarray(x), made)
    for given in ({}, {"state": {}}, {"parameters": None, "state": {}}):
        np.testing.assert_equal(weights(**given), tree.flatten(made)[0])
    for given in ({"parameters": doubled}, {"parameters": doubled, "state": {}}):
        np.testing.assert_equal(weights(**given), tree.flatten(doubled)[0])


def test_each_leaf_that_is_not_finite_is_named() -> None:
    good, bad = np.ones((2, 2)), np.array([[1.0, np.nan], [1.0, np.nan]])
    said = str(not_finite(np.nan, {"left": good, "right": bad}, 2, Position(), None, False))
    assert "the loss is nan in batch 3 of epoch 1" in said
    assert "batch['right'][0, 1] is nan in sample 0 of the batch" in said
    assert "left" not in said


def test_a_batch_is_said_in_a_line() -> None:
    x = np.zeros((2, 3))
    assert _structure(x) == "one array, float64[2, 3]"
    assert _structure((x, {"y": x})) == "(*, {'y': *})"


def test_speed_is_samples_a_second() -> None:
    assert all(row["samples_per_second"] > 0 for row in fit(epochs=2, batch_size=8).history)


def test_an_evaluation_leaves_nothing_out() -> None:
    """A layer that drops elements in training gives them all when it is measured."""
    net = nn.sequential(nn.dropout(0.5), nn.dense(1))
    x = np.random.default_rng(1).normal(size=(64, 6)).astype(np.float32)
    y = np.zeros((64, 1), np.float32)
    squares = lambda result, target: pb.mean((result - target) ** 2)
    run = nn.fit(net, squares, [(x, y)], epochs=1, optimizer=Standing(), validation_data=[(x, y)], progress=False)
    result = pb.function(lambda x: net.apply(run.parameters, run.state, x, training=False)[0])(x)
    whole = float(np.mean(result**2))
    assert run.history["validation_loss"] == pytest.approx([whole], rel=1e-5)
    assert abs(run.history.losses[0] - whole) > 1e-3 * whole


@pytest.mark.parametrize("backend", ["c", "interpreter"])
def test_calls_are_compiled_where_there_is_a_compiler(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step.policy, "backend", lambda: backend)
    for command in (None, ("cc",)):
        monkeypatch.setattr(step, "compiler_command", lambda command=command: command)
        assert step.is_compiled() is (backend == "c" and command is not None)
