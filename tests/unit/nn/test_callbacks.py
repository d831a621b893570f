"""Callbacks, the best epoch, the learning rate on a plateau: what they see, and that resumed runs equal whole ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import DataError, UsageError
from pullback.nn.optimizers.scaled import Scaled
from pullback.nn.training import loop
from pullback.tracing import tree


def error(parameters: Any, state: Any, batch: Any) -> Any:
    x, y = batch
    return pb.mean((parameters["a"] * x + parameters["b"] - y) ** 2), {"seen": state["seen"] + x.shape[0]}


def line(count: int = 40) -> tuple[Any, Any]:
    x = np.random.default_rng(0).uniform(-1, 1, count)
    return x, 3 * x + 1 + 0.1 * x**2


def fit(**options: Any) -> nn.Run:
    given: dict[str, Any] = {"optimizer": nn.adam(0.05), "epochs": 4, "batch_size": 8, "progress": False}
    given |= {"parameters": {"a": np.zeros(()), "b": np.zeros(())}, "state": {"seen": np.zeros((), np.int64)}}
    return nn.fit(error, line(), **{**given, **options})


def same(one: nn.Run, other: nn.Run) -> None:
    """The same bits: parameters, states, and what was measured."""
    for part in ("parameters", "state", "optimizer_state"):
        for a, b in zip(tree.flatten(getattr(one, part))[0], tree.flatten(getattr(other, part))[0], strict=True):
            np.testing.assert_array_equal(a, b)
    for name in {*one.history.names} - {"samples_per_second"}:
        if "seconds" not in name:
            assert one.history[name] == other.history[name]
    assert (one.steps, one.stop_reason, one.best_epoch) == (other.steps, other.stop_reason, other.best_epoch)


class Seen:
    """A callback that notes what it is given, and raises or stops at a step."""

    def __init__(self, raises: int = -1, stops: int = -1) -> None:
        self.raises, self.stops = raises, stops
        self.at: list[tuple[int, int, int]] = []
        self.losses: list[float] = []
        self.parameters: list[float] = []

    def on_epoch_end(self, state: nn.TrainingState) -> bool:
        self.at.append((state.epoch, state.step, state.batch))
        self.losses.append(state.loss)
        self.parameters.append(float(state.parameters["a"]))
        assert state.loss == (state.history.losses[-1] if state.batch == 0 else state.loss)
        if state.step == self.raises:
            raise OSError("the disk is full")
        return state.step == self.stops


class Batches(Seen):
    """The same at the end of batches."""

    def on_batch_end(self, state: nn.TrainingState) -> bool:
        return Seen.on_epoch_end(self, state)

    on_epoch_end = None  # type: ignore[assignment]


# What callbacks see -----------------------------------------------------------------------------------------------


def test_callbacks_see_each_epoch_and_change_nothing() -> None:
    seen, states = Seen(), []
    run = fit(epochs=3, callbacks=[seen, states.append])
    same(run, fit(epochs=3))
    assert seen.at == [(1, 5, 0), (2, 10, 0), (3, 15, 0)]
    assert (seen.losses, seen.parameters[-1]) == (run.history.losses, float(run.parameters["a"]))
    assert len(set(seen.parameters)) == 3
    state = states[0]
    assert [len(s.history) for s in states] == [1, 2, 3]
    assert int(state.state["seen"]) == 120 and sorted(state.optimizer_state) == ["mean", "square"]
    for part in (state.parameters["a"], state.state["seen"], state.optimizer_state["mean"]["a"]):
        with pytest.raises(ValueError, match="read-only"):
            part[...] = 1


def test_callbacks_see_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Batches()
    run = fit(epochs=2, callbacks=[seen])
    assert seen.at == [(k // 5, k + 1, k % 5 + 1) for k in range(10)]
    assert [np.mean(seen.losses[:5]), np.mean(seen.losses[5:])] == pytest.approx(run.history.losses, rel=1e-14)
    monkeypatch.setattr(loop, "stack_size", lambda seconds, steps: 1)
    same(run, fit(epochs=2))


@pytest.mark.parametrize(("callback", "steps"), [(Seen(stops=10), 10), (Batches(stops=7), 7)])
def test_a_callback_ends_training(callback: Any, steps: int) -> None:
    run = fit(callbacks=[callback, lambda state: None])
    assert (run.steps, run.stop_reason) == (steps, "stopped early")


@pytest.mark.parametrize(("result", "steps"), [(True, 5), (np.True_, 5), (False, 20), (1, 20), (np.ones(3), 20)])
def test_only_true_ends_training(result: Any, steps: int) -> None:
    assert fit(callbacks=[lambda state: result]).steps == steps


def test_an_object_with_a_method_for_batches_is_not_called_itself() -> None:
    class Counted:
        count = 0

        def __call__(self, state: nn.TrainingState) -> None:
            raise AssertionError

        def on_batch_end(self, state: nn.TrainingState) -> None:
            self.count += 1

    counted = Counted()
    fit(epochs=2, callbacks=[counted])
    assert counted.count == 10


CALLBACK = "a function of a TrainingState, or an object with `on_epoch_end` or `on_batch_end`"


@pytest.mark.parametrize(("callbacks", "message", "remedy"), [
    (Seen(), "fit: callbacks is of type Seen", "a list of callbacks"),
    ([3], "fit: int in callbacks is no callback", CALLBACK),
    ([nn.CSVLogger], "fit: CSVLogger in callbacks is no callback", CALLBACK),
    ([nn.EarlyStopping(2)], "fit: EarlyStopping in callbacks",
     "`early_stopping=EarlyStopping(patience=2, monitor=None, min_delta=0.0, mode='min', restore_best=True)`"),
    ([nn.ReduceLROnPlateau(), nn.ReduceLROnPlateau()], "fit: 2 callbacks are ReduceLROnPlateau", "one of them"),
    ([nn.ReduceLROnPlateau(monitor="los")], "ReduceLROnPlateau: monitor='los' is no column of the history",
     "did you mean `loss`? There are step, loss, learning_rate, samples_per_second, seconds; `validation_data=` adds "
     "`validation_loss` and the metrics"),
])  # fmt: skip
def test_what_is_no_callback(callbacks: Any, message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        fit(callbacks=callbacks)
    assert str(caught.value) == (
        f"UsageError [E518] {message}\n  try: {remedy}      See `pullback explain-error E518`"
    )


# Callbacks that raise, and runs that are resumed ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Seen, Batches])
@pytest.mark.parametrize("step", [5, 7, 10])
def test_training_is_saved_when_a_callback_raises(tmp_path: Path, kind: Any, step: int) -> None:
    if kind is Seen and step == 7:
        step = 15
    how: dict[str, Any] = {"validation_data": line(17), "early_stopping": 9}
    whole = fit(callbacks=[kind()], **how)
    with pytest.raises(OSError, match="the disk is full") as caught:
        fit(callbacks=[kind(raises=step)], save=str(tmp_path), **how)
    assert caught.value.__notes__ == [
        f"a callback of fit raised this after {step} updates; the training is saved in {tmp_path}: `fit` goes on from "
        "there"
    ]
    seen = kind()
    same(fit(callbacks=[seen], save=str(tmp_path), resume=True, **how), whole)
    assert min(at[1] for at in seen.at) > step  # nothing is told twice
    with pytest.raises(OSError, match="full") as caught:
        fit(callbacks=[kind(raises=step)])
    assert caught.value.__notes__[0].endswith("the training is lost without `save`")


@pytest.mark.parametrize("step", [5, 10, 15, 20])
def test_the_best_epoch_and_the_rate_are_saved_when_a_callback_raises(tmp_path: Path, step: int) -> None:
    """Epoch 2 is the best, and the rate is reduced after the epochs 3 and 4."""
    how: dict[str, Any] = {"optimizer": rising(), "early_stopping": 3, "epochs": 20, "validation_data": line(17)}
    plateau = nn.ReduceLROnPlateau(0.5, patience=1)
    whole = fit(callbacks=[plateau], **how)
    assert whole.best_epoch == 2 and float(whole.optimizer_state["scale"]) < 1
    with pytest.raises(OSError, match="the disk is full"):
        fit(callbacks=[plateau, Seen(raises=step)], save=str(tmp_path), **how)
    same(fit(callbacks=[plateau], save=str(tmp_path), **how), whole)


def test_the_csv_logger_writes_each_epoch(tmp_path: Path) -> None:
    path, lines = tmp_path / "run.csv", []
    run = fit(epochs=3, callbacks=[nn.CSVLogger(path), lambda state: lines.append(len(path.read_text().splitlines()))])
    assert lines == [2, 3, 4]
    assert path.read_text() == run.history.csv()
    absent = tmp_path / "absent" / "run.csv"
    with pytest.raises(DataError) as caught:
        nn.CSVLogger(absent)
    assert str(caught.value) == (
        f"DataError [E511] {absent}: the history cannot be written: No such file or directory\n"
        f"   | folder: {absent.parent}\n"
        "  try: a folder that exists and may be written to      See `pullback explain-error E511`"
    )


# The best epoch ---------------------------------------------------------------------------------------------------


def rising(start: float = 0.5) -> Any:
    """An optimizer that leaves the optimum again: its rate changes sign."""
    return nn.sgd(lambda step: pb.where(step < 10, start, -start))


@pytest.mark.parametrize("columns", [{}, {"validation_data": line(17)}])
def test_the_best_epoch_is_restored(columns: Any) -> None:
    seen: list[dict[str, float]] = []
    note = lambda state: seen.append({n: float(x) for n, x in state.parameters.items()})
    run = fit(epochs=20, optimizer=rising(), early_stopping=3, callbacks=[note], **columns)
    monitored = run.history["validation_loss" if columns else "loss"]
    best = int(np.argmin(monitored)) + 1
    assert (run.stop_reason, run.best_epoch, len(run.history)) == ("stopped early", best, best + 3)
    assert {n: float(x) for n, x in run.parameters.items()} == seen[best - 1] != seen[-1]
    assert int(run.state["seen"]) == 40 * best
    last = fit(epochs=20, optimizer=rising(), early_stopping=nn.EarlyStopping(3, restore_best=False), **columns)
    assert {n: float(x) for n, x in last.parameters.items()} == seen[-1]
    assert last.best_epoch is None
    still = fit(epochs=3, optimizer=nn.sgd(0.0), early_stopping=5, validation_data=line(17))
    assert still.best_epoch == 1  # of equal epochs the first
    # an epoch that is not completed is restored over by a better one, and stays where it is the best
    assert fit(epochs=None, steps=23, optimizer=rising(), early_stopping=9, **columns).best_epoch == best
    assert fit(epochs=None, steps=8, early_stopping=9, optimizer=nn.sgd(0.05), **columns).best_epoch is None


def test_the_best_epoch_is_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    how: dict[str, Any] = {"optimizer": rising(), "validation_data": line(17)}
    run = fit(epochs=5, save=str(folder), **how)
    losses = run.history["validation_loss"]
    best = nn.load_parameters(folder / "best.safetensors", run.parameters)
    assert nn.evaluate(error, line(17), parameters=best, state={"seen": 0})["loss"] == min(losses) < losses[-1]
    assert float(nn.load_parameters(folder)["a"]) == float(run.parameters["a"]) != float(best["a"])


@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_the_best_epoch_of_a_resumed_run(tmp_path: Path, first: int) -> None:
    how: dict[str, Any] = {"optimizer": rising(), "validation_data": line(17), "early_stopping": 3}
    how["callbacks"] = [nn.ReduceLROnPlateau(0.5, patience=1)]
    whole = fit(epochs=20, **how)
    fit(epochs=first, save=str(tmp_path), **how)
    same(fit(epochs=20, save=str(tmp_path), resume=True, **how), whole)
    same(fit(epochs=20, save=str(tmp_path), resume=True, **how), whole)  # all is done


def test_a_damaged_best_epoch(tmp_path: Path) -> None:
    fit(epochs=2, save=str(tmp_path))
    path = tmp_path / "best.safetensors"
    nn.save_parameters(path, {"a": np.zeros(())})
    with pytest.raises(DataError) as caught:
        fit(epochs=3, save=str(tmp_path))
    assert str(caught.value) == (
        f"DataError [E509] {path}: not the best epoch of a run\n"
        "  try: remove it      See `pullback explain-error E509`"
    )
    path.write_bytes(b"cut")
    with pytest.raises(DataError) as caught:
        fit(epochs=3, save=str(tmp_path))
    assert str(caught.value) == (
        f"DataError [E509] {path}: not a safetensors file, or damaged\n"
        "   | 3 bytes      a header of 7632227 bytes is promised\n"
        "  try: a file that `save_parameters` or training wrote for this network      See `pullback explain-error E509`"
    )
    run = fit(epochs=3, save=str(tmp_path), resume="newest intact")
    assert float(nn.load_parameters(path)["a"]) == float(run.parameters["a"])
    how: Any = {"early_stopping": nn.EarlyStopping(9, mode="max")}  # another rule begins anew
    assert fit(epochs=4, save=str(tmp_path), **how).best_epoch == 4


def test_the_best_epoch_by_another_rule_is_not_taken_over(tmp_path: Path) -> None:
    """The first loss is the largest; by size it would beat every smaller one."""
    largest = nn.EarlyStopping(9, mode="max")
    assert fit(epochs=2, save=str(tmp_path), early_stopping=largest).best_epoch == 1
    assert fit(epochs=4, save=str(tmp_path), early_stopping=9).best_epoch == 4


# The learning rate on a plateau -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "values", "scale"), [
    (nn.ReduceLROnPlateau(0.5, 1), [], 1.0), (nn.ReduceLROnPlateau(0.5, 1), [3, 2, 1], 1.0),
    (nn.ReduceLROnPlateau(0.5, 1), [3, 3, 3], 0.25), (nn.ReduceLROnPlateau(0.5, 2), [3, 3, 3, 3, 3], 0.25),
    (nn.ReduceLROnPlateau(0.5, 2), [3, 3, 2, 2, 2], 0.5), (nn.ReduceLROnPlateau(0.1, 2, min_delta=1), [3, 2, 2], 0.1),
    (nn.ReduceLROnPlateau(0.5, 1, mode="max"), [1, 2, 1], 0.5), (nn.ReduceLROnPlateau(0.5, 1), [3, np.nan, 2], 0.5),
])  # fmt: skip
def test_how_often_the_rate_is_reduced(rule: nn.ReduceLROnPlateau, values: Any, scale: float) -> None:
    assert rule.scale(nn.History(tuple({"loss": float(v)} for v in values))) == scale


@pytest.mark.parametrize(("given", "remedy"), [
    *(({"factor": f}, "above 0 and below 1") for f in (1.0, 0, "0.1")),
    ({"patience": 0}, "a number of epochs, at least 1"), ({"patience": 2.5}, "a number of epochs, at least 1"),
    ({"min_delta": -1}, "a number of at least 0"),
    ({"mode": "up"}, '"min" where smaller is better, as for a loss, or "max" where larger is, as for an accuracy'),
])  # fmt: skip
def test_settings_of_a_plateau(given: dict[str, Any], remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        nn.ReduceLROnPlateau(**given)
    ((name, value),) = given.items()
    assert str(caught.value) == (
        f"UsageError [E518] ReduceLROnPlateau: {name}={value!r}\n  try: {remedy}      See `pullback explain-error E518`"
    )


def test_training_with_a_reduced_rate() -> None:
    """The updates are those of a schedule with these rates; the history and the display tell them."""
    rule = nn.ReduceLROnPlateau(0.5, patience=2, monitor="step", mode="min")  # steps only rise
    shown: list[float | None] = []
    run = fit(epochs=6, optimizer=nn.sgd(0.125), callbacks=[rule], progress=lambda at: shown.append(at.learning_rate))
    assert run.history["learning_rate"] == [0.125, 0.125, 0.0625, 0.0625, 0.03125, 0.03125]
    assert set(shown) == {0.125, 0.0625, 0.03125}
    falling = lambda step: pb.where(step < 15, 0.125, pb.where(step < 25, 0.0625, 0.03125))
    plain = fit(epochs=6, optimizer=nn.sgd(falling))
    assert float(run.parameters["a"]) == pytest.approx(float(plain.parameters["a"]), rel=1e-14)
    assert float(run.optimizer_state["scale"]) == 0.25


def test_frozen_parameters_and_float32_stay_what_they_are() -> None:
    net = nn.sequential(nn.dense(3), nn.relu, nn.dense(1))
    x = np.random.default_rng(0).normal(size=(16, 2)).astype(np.float32)
    optimizer = nn.freeze("dense1/*") >> nn.adam(1e-2)
    start = net.on("N 2").init(0)[0]
    run = nn.fit(net, nn.mse_loss, (x, x[:, :1]), optimizer=optimizer, epochs=2, batch_size=8, progress=False,
                 callbacks=[nn.ReduceLROnPlateau(0.5, 1)])  # fmt: skip
    assert np.array_equal(run.parameters["dense1"]["w"], start["dense1"]["w"])
    assert run.parameters["dense2"]["w"].dtype == np.float32
    scaled = Scaled(optimizer)
    assert str(scaled) == str(optimizer)
    change = pb.function(lambda g, s: scaled.update(g, s, g, 0)[0])(start, scaled.init(start))
    assert change["dense2"]["w"].dtype == np.float32  # not computed in f64 and rounded


# Metrics in Python ------------------------------------------------------------------------------------------------


def median_error(outputs: Any, targets: Any) -> float:
    """The median, which no sum over batches gives."""
    assert isinstance(outputs, np.ndarray) and outputs.shape == targets.shape
    return float(np.median(np.abs(outputs - targets)))


@pytest.mark.parametrize("size", [None, 7])
def test_metrics_in_python_see_all_outputs(size: int | None) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    y = x @ np.array([[1.0], [2.0], [3.0]], np.float32)
    net, metrics = nn.dense(1), [nn.mse_loss, nn.metrics.on_outputs(median_error), nn.l1_loss]
    how: Any = {"optimizer": nn.sgd(0.1), "epochs": 2, "batch_size": 8, "progress": False}
    run = nn.fit(net, nn.mse_loss, (x, y), validation_data=(x[:30], y[:30]), metrics=metrics,
                 validation_batch_size=size, **how)  # fmt: skip
    assert run.history.names[3:7] == ["validation_loss", "mse_loss", "median_error", "l1_loss"]
    found = np.asarray(net(run.parameters, x[:30]))
    assert run.history["median_error"][-1] == pytest.approx(median_error(found, y[:30]), rel=1e-4)
    assert run.history["l1_loss"][-1] == pytest.approx(np.abs(found - y[:30]).mean(), rel=1e-4)
    assert run.history["mse_loss"] == run.history["validation_loss"]
    again = nn.evaluate(net, nn.mse_loss, (x[:30], y[:30]), parameters=run.parameters, metrics=metrics)
    assert again["median_error"] == pytest.approx(run.history["median_error"][-1], rel=1e-6)
    stopped = nn.fit(net, nn.mse_loss, (x, y), validation_data=(x, y), metrics=metrics, **{**how, "epochs": 9},
                     early_stopping=nn.EarlyStopping(1, monitor="median_error", mode="max"))  # fmt: skip
    assert (stopped.best_epoch, len(stopped.history)) == (1, 2)


def test_metrics_in_python_of_classes() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    labels = np.argmax(x[:, :3], axis=1)
    f1 = lambda scores, labels: sklearn.f1_score(labels, scores.argmax(axis=1), average="macro")
    run = nn.fit(nn.dense(3), nn.cross_entropy, (x, labels), validation_data=(x, labels), optimizer=nn.adam(0.1),
                 epochs=20, metrics=[nn.metrics.on_outputs(f1, name="f1")], progress=False)  # fmt: skip
    assert run.history["f1"][-1] > 0.9


@pytest.mark.parametrize(("call", "message", "remedy"), [
    (lambda: nn.metrics.on_outputs(3), "on_outputs: 3 is no function", "a function of (outputs, targets)"),
    (lambda: fit(validation_data=line(), metrics=[nn.metrics.on_outputs(median_error)]),
     "fit: median_error needs the outputs of a network, and error is a loss of parameters",
     "`fit(net, loss, data, …)`"),
])  # fmt: skip
def test_what_is_no_metric_in_python(call: Any, message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value) == f"UsageError [E518] {message}\n  try: {remedy}      See `pullback explain-error E518`"


def test_a_metric_in_python_gives_a_number() -> None:
    x = np.ones((8, 2), np.float32)
    with pytest.raises(UsageError) as caught:
        nn.evaluate(nn.dense(2), nn.mse_loss, (x, x), parameters=nn.dense(2).on("N 2").init(0)[0],
                    metrics=[nn.metrics.on_outputs(lambda y, t: y, name="all")])  # fmt: skip
    assert str(caught.value) == (
        "UsageError [E526] all gives ndarray, and a metric is one number\n"
        "  try: reduce it, e.g. with `np.mean`      See `pullback explain-error E526`"
    )
