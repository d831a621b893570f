"""Averages of parameters, the learning rate finder, TensorBoard, cooldown, schedules, and pictures."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import PullbackError
from pullback.nn.metrics import plot_confusion_matrix

TORCH = json.loads((Path(__file__).parent / "torch_schedules.json").read_text())
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(48, 3)).astype(np.float32)
Y = (X @ np.array([[1.0], [-2.0], [0.5]], np.float32)).astype(np.float32)
NET = nn.dense(1).on("N 3")
HOW: dict[str, Any] = {"batch_size": 8, "progress": False}


def message(f: Any) -> str:
    with pytest.raises(PullbackError) as caught:
        f()
    error = caught.value
    return f"{error.code} {error.what} | {'; '.join(error.facts)} | {error.remedy}"


# Averages ---------------------------------------------------------------------------------------------------------


class Watch:
    """The parameters after each update."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_batch_end(self, state: Any) -> None:
        self.seen.append({n: np.array(a, np.float64) for n, a in state.parameters.items()})


def test_averages_are_evaluated_kept_and_saved(tmp_path: Path) -> None:
    watch, start = Watch(), NET.init(seed=0)[0]
    run = nn.fit(NET, nn.mse_loss, (X, Y), optimizer=nn.adam(0.1), epochs=3, average=0.9, validation_data=(X, Y),
                 callbacks=[watch], save=str(tmp_path), **HOW)  # fmt: skip
    mean = {n: a.astype(np.float64) for n, a in start.items()}
    losses = []
    for k, p in enumerate(watch.seen, 1):
        mean = {n: 0.9 * mean[n] + 0.1 * p[n] for n in mean}
        if k % 6 == 0:
            losses.append(np.mean((X @ mean["w"].T + mean["b"] - Y) ** 2))
    for name, array in mean.items():
        np.testing.assert_allclose(run.averaged_parameters[name], array, rtol=1e-5)
        assert not np.allclose(run.parameters[name], array, rtol=1e-3)
    np.testing.assert_allclose(run.history["validation_loss"], losses, rtol=1e-4)
    best = nn.load_parameters(tmp_path / "best.safetensors", like=start)
    assert int(np.argmin(losses)) == 2
    np.testing.assert_array_equal(best["w"], run.averaged_parameters["w"])


PLATEAU = {"callbacks": [nn.ReduceLROnPlateau(0.5, 1, cooldown=1)]}


@pytest.mark.parametrize("extra", [{}, PLATEAU, {"early_stopping": 9}])
def test_a_resumed_run_with_averages_has_the_bits_of_one_run(tmp_path: Path, extra: Any) -> None:
    how = {**HOW, "optimizer": nn.adam(nn.one_cycle_schedule(0.1, total_steps=30)), "average": 0.9,
           "validation_data": (X, Y), **extra}  # fmt: skip
    whole = nn.fit(NET, nn.mse_loss, (X, Y), epochs=5, **how)
    nn.fit(NET, nn.mse_loss, (X, Y), epochs=2, save=str(tmp_path), **how)
    rest = nn.fit(NET, nn.mse_loss, (X, Y), epochs=5, save=str(tmp_path), resume=True, **how)
    for name in ("w", "b"):
        np.testing.assert_array_equal(whole.parameters[name], rest.parameters[name])
        np.testing.assert_array_equal(whole.averaged_parameters[name], rest.averaged_parameters[name])
    assert whole.history["validation_loss"] == rest.history["validation_loss"]
    assert whole.history["learning_rate"] == rest.history["learning_rate"]
    if not extra:
        other = {**how, "average": 0.8}
        said = message(lambda: nn.fit(NET, nn.mse_loss, (X, Y), epochs=6, save=str(tmp_path), **other))
        assert said.startswith(f"E515 {tmp_path} holds the checkpoints of another run | optimizer: ")
        assert "average: 0.9 in the checkpoint, 0.8 now" in said


def test_the_best_averages_are_restored() -> None:
    run = nn.fit(NET, nn.mse_loss, (X, Y), optimizer=nn.sgd(0.1), epochs=4, average=0.5, early_stopping=2,
                 validation_data=(X, Y), **HOW)  # fmt: skip
    assert run.best_epoch == 4 and run.parameters is run.averaged_parameters
    measured = nn.evaluate(NET, nn.mse_loss, (X, Y), parameters=run.averaged_parameters)
    np.testing.assert_allclose(measured["loss"], run.history["validation_loss"][-1], rtol=1e-6)


def test_callbacks_see_averages() -> None:
    seen: list[Any] = []
    run = nn.fit(NET, nn.mse_loss, (X, Y), optimizer=nn.sgd(0.1), epochs=2, average=0.5,
                 callbacks=[lambda state: seen.append(np.array(state.averaged_parameters["w"]))], **HOW)  # fmt: skip
    np.testing.assert_array_equal(seen[-1], run.averaged_parameters["w"])


def test_averages_need_an_optimizer_of_pullback() -> None:
    class Own:
        def init(self, parameters: Any) -> Any:
            return {}

        def update(self, gradients: Any, state: Any, parameters: Any, step: Any) -> Any:
            return gradients, state

    assert message(lambda: nn.fit(NET, nn.mse_loss, (X, Y), optimizer=Own(), epochs=1, average=0.9, **HOW)) == (
        "E518 fit: average=0.9 with an optimizer of type Own |  | one of `pullback.nn`, or a subclass of `nn.Optimizer`"
    )
    assert message(lambda: nn.fit(NET, nn.mse_loss, (X, Y), optimizer=nn.sgd(0.1), epochs=1, average=1.5, **HOW)) == (
        "E170 ema: decay is 1.5 |  | a number from 0 to below 1"
    )


# The learning rate finder -----------------------------------------------------------------------------------------


def test_the_losses_of_the_finder_are_those_of_descent_by_hand() -> None:
    start = {"w": np.zeros((1, 3), np.float32), "b": np.zeros(1, np.float32)}
    found = nn.find_learning_rate(NET, nn.mse_loss, (X, Y), optimizer=nn.sgd, start=1e-4, end=10.0, steps=60,
                                  batch_size=48, parameters=start)  # fmt: skip
    w, b, losses = np.zeros((1, 3)), np.zeros(1), []
    for rate in found.rates:
        off = X @ w.T + b - Y
        losses.append(np.mean(off**2))
        w, b = w - rate * 2 * (off.T @ X) / 48, b - rate * 2 * off.mean(0)
    np.testing.assert_allclose(found.rates[:2], [1e-4, 1e-4 * (10 / 1e-4) ** (1 / 59)], rtol=1e-12)
    np.testing.assert_allclose(found.losses[:45], losses[:45], rtol=1e-3)  # then f32 rounds
    assert len(found.rates) < 60  # it diverged
    assert 1e-3 < found.suggestion < found.rates[int(np.argmin(found.smoothed))]
    assert not start["w"].any()
    assert "<svg" in found.picture().svg and repr(found).startswith("<LearningRates: ")


def test_the_finder_goes_through_epochs_and_iterables() -> None:
    batches = [(X[k : k + 8], Y[k : k + 8]) for k in range(0, 48, 8)]
    one = nn.find_learning_rate(NET, nn.mse_loss, batches, optimizer=nn.sgd, steps=20, end=1e-3)
    assert len(one.losses) == 20
    again = nn.find_learning_rate(NET, nn.mse_loss, batches, optimizer=nn.sgd, steps=20, end=1e-3)
    assert one.losses == again.losses


def test_what_the_finder_refuses() -> None:
    for how in ({"start": 1.0, "end": 0.5}, {"steps": 1}, {"start": 0.0}):
        given = {"start": 1e-7, "end": 1.0, "steps": 100, **how}
        what = ", ".join(f"{n}={v!r}" for n, v in given.items())
        assert message(lambda how=how: nn.find_learning_rate(NET, nn.mse_loss, (X, Y), **how)) == (
            f"E518 find_learning_rate: {what} |  | start=1e-7, end=1.0, steps=100: 0 < start < end, and at least 2 "
            "steps"
        )
    assert message(lambda: nn.find_learning_rate(NET, nn.mse_loss, (X * np.nan, Y))).startswith(
        "E514 the loss is nan in batch 1 of epoch 1 | inputs[0, 0] is nan in sample 0 of the batch"
    )


# Rules and schedules beside PyTorch's ------------------------------------------------------------------------------

SCHEDULES = {
    "one_cycle": nn.one_cycle_schedule(0.1, 41),
    "one_cycle_40": nn.one_cycle_schedule(0.1, 40, 0.5, 10, 100),
    "restarts": nn.cosine_restarts_schedule(0.1, 10, 1, 0.01),
    "restarts_3": nn.cosine_restarts_schedule(0.1, 3, 3),
}
LOSSES = [3, 2, 2, 2, 2, 2, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.4, 1.4, 1.4, 1.4, 1.4, 1.4, 1.4, 1.4]


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_those_of_pytorch(name: str) -> None:
    wanted, schedule = TORCH[name], SCHEDULES[name]
    np.testing.assert_allclose([schedule(t) for t in range(len(wanted))], wanted, rtol=1e-13, atol=1e-16)
    traced = pb.function(lambda t: schedule(t))
    np.testing.assert_allclose([traced.interpret(t) for t in range(len(wanted))], wanted, rtol=1e-13, atol=1e-16)


def test_long_cycles_begin_where_they_should() -> None:
    for mult in (2, 3, 10):
        schedule, start = nn.cosine_restarts_schedule(1.0, 7, mult), 0
        for k in range(12):
            assert schedule(start) == 1.0
            if start:
                assert schedule(start - 1) < 0.1
            start += 7 * mult**k


@pytest.mark.parametrize("cooldown", [0, 1, 3])
def test_a_plateau_with_cooldown_is_that_of_pytorch(cooldown: int) -> None:
    rule = nn.ReduceLROnPlateau(0.5, 2, cooldown=cooldown, min_factor=0.1)
    rows = [{"loss": v} for v in LOSSES]
    assert [rule.scale(nn.History(tuple(rows[: k + 1]))) for k in range(len(rows))] == TORCH[f"plateau_{cooldown}"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nn.ReduceLROnPlateau(cooldown=-1), "E518 ReduceLROnPlateau: cooldown=-1 |  | "
         "a number of epochs, at least 0"),
        (lambda: nn.ReduceLROnPlateau(min_factor=2.0), "E518 ReduceLROnPlateau: min_factor=2.0 |  | from 0 to 1"),
        (lambda: nn.one_cycle_schedule(0.1, 1), "E170 one_cycle_schedule: total_steps is 1 |  | "
         "a whole number of at least 2"),
        (lambda: nn.one_cycle_schedule(0.1, 9, pct_start=1.0), "E170 one_cycle_schedule: pct_start is 1.0 |  | "
         "a number from 0 to below 1"),
        (lambda: nn.cosine_restarts_schedule(0.1, 0), "E170 cosine_restarts_schedule: cycle_steps is 0 |  | "
         "a whole number of at least 1"),
    ],
)  # fmt: skip
def test_settings_out_of_range(make: Any, said: str) -> None:
    assert message(make) == said


# TensorBoard and pictures -----------------------------------------------------------------------------------------


def test_events_hold_the_history(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "events"
    how = {**HOW, "optimizer": nn.sgd(0.1), "validation_data": (X, Y), "save": str(tmp_path / "run")}
    whole = nn.fit(NET, nn.mse_loss, (X, Y), epochs=2, callbacks=[nn.TensorBoardLogger(folder)], **how)
    whole = nn.fit(NET, nn.mse_loss, (X, Y), epochs=4, callbacks=[nn.TensorBoardLogger(folder)], **how)
    found = EventAccumulator(str(folder))
    found.Reload()
    assert set(found.Tags()["scalars"]) == set(whole.history.names) - {"epoch", "step"}
    for name in ("loss", "validation_loss", "learning_rate"):
        events = found.Scalars(name)
        assert [e.step for e in events] == whole.history["step"]
        np.testing.assert_allclose([e.value for e in events], whole.history[name], rtol=1e-6)


def test_without_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    said = message(lambda: nn.TensorBoardLogger(tmp_path))
    assert re.sub(r"\| .* \|", "| … |", said) == (
        "E506 TensorBoardLogger: the package tensorboard is not installed | … | "
        "pip install 'pullback[tensorboard]', or `nn.CSVLogger`"
    )


def test_pictures() -> None:
    history = nn.History(({"epoch": 1, "loss": 0.5, "accuracy": 0.1}, {"epoch": 2, "loss": 0.25, "accuracy": 0.2}))
    assert history.picture().width == 680 and history.picture(["loss"]).width == 340
    assert message(lambda: history.picture(["los"])).startswith("E525 the history has no 'los'")
    picture = plot_confusion_matrix(np.array([[3, 1], [0, 2]]), ["cat", "dog"])
    assert picture.title == "confusion matrix: 5 of 6 right"
    opacities = [float(o) for o in re.findall(r'fill-opacity="([\d.]+)"', picture.svg)]
    assert opacities == [0.75, 0.25, 0.0, 1.0]
    assert [picture.svg.count(f">{n}<") for n in ("cat", "dog", "label", "found", "3", "0")] == [2, 2, 1, 1, 1, 0]
    assert message(lambda: plot_confusion_matrix(np.zeros((2, 3)))) == (
        "E518 plot_confusion_matrix: counts is float64[2, 3] |  | "
        "(K, K) counts, as `nn.metrics.confusion_matrix` gives them"
    )
    assert message(lambda: plot_confusion_matrix(np.eye(2), ["one"])) == (
        "E518 plot_confusion_matrix: 1 names for 2 classes |  | a name for each class"
    )
