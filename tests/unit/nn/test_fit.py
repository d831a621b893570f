"""Training: what it computes, in which order, what it reports and how it ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.data import Dataset, Splits
from pullback.data.loader import Samples
from pullback.errors import CompilerError, DataError, NotFiniteError, PullbackError, UsageError
from pullback.nn.training import step
from pullback.nn.training.history import TIMES
from pullback.nn.training.report import Progress
from pullback.nn.training.step import stack_size


class Descent:
    """Gradient descent whose rate falls with the number of updates, which it counts as well."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __str__(self) -> str:
        return f"Descent({self.rate})"

    def init(self, parameters: Any) -> Any:
        return {"count": np.zeros((), np.int64)}

    def update(self, gradients: Any, state: Any, parameters: Any, step: Any) -> tuple[Any, Any]:
        rate = lambda g: self.rate / (1 + pb.astype(step, g.dtype) / 100)
        return pb.tree_map(lambda g: -rate(g) * g, gradients), {"count": state["count"] + 1}


def loss(parameters: Any, state: Any, batch: Any) -> tuple[Any, Any]:
    """Squares of a line's errors, and a state that counts the samples seen."""
    x, y = batch
    return pb.mean((parameters["a"] * x + parameters["b"] - y) ** 2), {"seen": state["seen"] + x.shape[0]}


def largest(parameters: Any, state: Any, batch: Any) -> Any:
    return pb.max(pb.abs(batch[0]))


def line(count: int = 50) -> tuple[Any, Any]:
    x = np.random.default_rng(0).uniform(-1, 1, count)
    return x, 3 * x + 1 + 0.1 * x**2


def start() -> dict[str, Any]:
    return {
        "parameters": {"a": np.zeros(()), "b": np.zeros(())}, "state": {"seen": np.zeros((), np.int64)},
        "optimizer": Descent(0.1), "progress": False,
    }  # fmt: skip


def fit(data: Any = None, **keywords: Any) -> nn.Run:
    return nn.fit(loss, line() if data is None else data, **{**start(), **keywords})


def by_hand(data: Any, order: Callable[[int], Any], epochs: int, batch: int) -> tuple[float, float, list[float]]:
    """The same in plain NumPy."""
    x, y = data
    a = b = 0.0
    step, losses = 0, []
    for epoch in range(epochs):
        own = order(epoch)
        total = 0.0
        for first in range(0, len(x) // batch * batch, batch):
            u, v = x[own][first : first + batch], y[own][first : first + batch]
            error = a * u + b - v
            total += float(np.mean(error**2))
            rate = 0.1 / (1 + step / 100)
            a, b = a - rate * float(np.mean(2 * error * u)), b - rate * float(np.mean(2 * error))
            step += 1
        losses.append(total / (len(x) // batch))
    return a, b, losses


# What it computes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [False, True])
def test_training_is_what_numpy_does(shuffle: bool) -> None:
    """The order is that of `Samples`, the last, smaller batch is left out, the optimizer knows the step."""
    samples = Samples(line(), 8, seed=3, shuffle=shuffle)
    order = lambda epoch: samples.samples(epoch, 0, 50)
    run = fit(epochs=4, batch_size=8, seed=3, shuffle=shuffle)
    a, b, losses = by_hand(line(), order, 4, 8)
    assert (float(run.parameters["a"]), float(run.parameters["b"])) == pytest.approx((a, b), abs=1e-12)
    assert run.history.losses == pytest.approx(losses, abs=1e-12)
    assert (run.steps, run.stop_reason) == (24, "finished")
    assert (int(run.optimizer_state["count"]), int(run.state["seen"])) == (24, 192)


def test_the_number_of_updates_in_a_call_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for size in (1, 2, 4, 6):
        monkeypatch.setattr("pullback.nn.training.loop.stack_size", lambda seconds, steps, size=size: size)
        runs.append(fit(epochs=3, batch_size=8))
    for run in runs[1:]:  # but for the last bits: sums are in the order that suits a program
        assert run.history.losses == pytest.approx(runs[0].history.losses, rel=1e-14)
        assert float(run.parameters["a"]) == pytest.approx(float(runs[0].parameters["a"]), rel=1e-14)


def test_what_is_given_stays_as_it_is() -> None:
    given = start()
    fit(epochs=1, **given)
    assert float(given["parameters"]["a"]) == 0
    assert int(given["state"]["seen"]) == 0


def test_a_loss_without_a_state() -> None:
    plain = lambda p, state, batch: loss(p, {"seen": 0}, batch)[0]
    run = nn.fit(plain, line(), **{**start(), "state": None}, epochs=4, batch_size=8, seed=3)
    assert float(run.parameters["a"]) == float(fit(epochs=4, batch_size=8, seed=3).parameters["a"])
    assert run.state == {}


def test_the_remainder_and_small_sets() -> None:
    assert fit(epochs=1, batch_size=8, drop_last=False).steps == 7
    assert int(fit(epochs=2, batch_size=8, drop_last=False).state["seen"]) == 100
    assert fit(epochs=2, batch_size=500).steps == 2  # a set smaller than a batch is one batch
    assert fit(epochs=0).history.losses == []


def test_steps_end_within_an_epoch() -> None:
    run = fit(steps=9, batch_size=8)
    assert (run.steps, [row["step"] for row in run.history], run.stop_reason) == (9, [6, 9], "finished")
    assert fit(steps=6, batch_size=8).history.rows[-1]["epoch"] == 1


def test_iterables_give_batches() -> None:
    """A list is gone through in every epoch; a generator serves one; the results are those of arrays."""
    x, y = line(48)
    batches = [(x[k : k + 8], y[k : k + 8]) for k in range(0, 48, 8)]
    run = fit(batches, epochs=2, validation_data=batches[:2])
    same = fit((x, y), epochs=2, batch_size=8, shuffle=False, validation_data=(x[:16], y[:16]))
    assert run.history.losses == pytest.approx(same.history.losses, abs=1e-14)
    assert run.history["validation_loss"] == pytest.approx(same.history["validation_loss"], abs=1e-14)
    assert fit((b for b in batches), epochs=1).steps == 6
    assert [fit(batches, steps=n).steps for n in (1, 6, 7)] == [1, 6, 7]
    with pytest.raises(DataError, match=r"E512.*no batches in epoch 2"):
        fit((b for b in batches), epochs=2)


def test_networks_make_their_own_parameters() -> None:
    """A Layer with a loss of its result; the sizes come from the data."""
    x = np.random.default_rng(1).uniform(-1, 1, (64, 3)).astype(np.float32)
    y = (x @ np.array([[1.0], [2.0], [3.0]], np.float32)).astype(np.float32)
    squares = lambda y, target: pb.mean((y - target) ** 2)
    net = nn.dense(1)
    data = Splits("lines", Dataset(x, y), Dataset(x[:10], y[:10]))
    how: Any = {"optimizer": Descent(0.3), "epochs": 20, "batch_size": 16, "progress": False}
    run = nn.fit(net, squares, data, metrics=(squares,), **how)
    assert np.abs(run.parameters["w"] - [[1, 2, 3]]).max() < 0.1
    assert run.history.names[3:5] == ["validation_loss", squares.__name__]
    again = nn.evaluate(net, squares, data.test, parameters=run.parameters)
    assert again["loss"] == pytest.approx(run.history["validation_loss"][-1], rel=1e-5)


@pytest.mark.slow
def test_validation_has_a_batch_size_of_its_own() -> None:
    """As many samples as fit 4 MiB; as many as asked for; those of training if the state is for that many."""
    sizes: list[int] = []

    def noting(parameters: Any, state: Any, batch: Any) -> Any:
        sizes.append(batch[0].shape[0])
        return pb.mean(parameters["a"] * batch[0])

    def kept(count: int = 3000, **options: Any) -> tuple[list[float], set[int]]:
        sizes.clear()
        run = fit(epochs=2, batch_size=5, validation_data=line(count), metrics=(noting,), **options)
        return [*run.history["validation_loss"], *run.history["noting"]], set(sizes)

    whole, found = kept()
    assert found == {5, 3000}  # that of training is traced to know what one sample needs
    for size, also in ((500, set()), (999, {3}), (4000, set())):
        values, found = kept(validation_batch_size=size)
        assert values == pytest.approx(whole, rel=1e-12)
        assert found == {min(size, 3000), *also}
    for limit in (20_000, 40_000):  # smaller, so that the arrays fit: at least two of f64
        (size,) = kept(memory_limit=limit)[1] - {5, 3000}
        assert limit / 80 < size < limit / 16
        assert limit / 80 < max(kept(2999, memory_limit=limit)[1]) < limit / 16  # a prime number
    assert complete(lambda: kept(validation_batch_size=0), UsageError) == (
        "UsageError [E518] fit: validation_batch_size=0\n"
        "  try: the number of samples in a batch, at least 1      See `pullback explain-error E518`"
    )

    def of_five(parameters: Any, state: Any, batch: Any) -> tuple[Any, Any]:
        error = parameters["a"] * batch[0] + state["before"] - batch[1]
        return pb.mean(error**2), {"before": batch[0]}

    how = {**start(), "state": {"before": np.zeros(5)}}
    run = nn.fit(of_five, line(), **how, epochs=1, batch_size=5, validation_data=line(40))
    x, y = line(40)
    assert run.history["validation_loss"][0] == pytest.approx(
        np.mean((run.parameters["a"] * x + np.tile(run.state["before"], 8) - y) ** 2), rel=1e-12
    )


# How many updates a call makes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [*range(1, 60), 1437, 7919])
@pytest.mark.parametrize("seconds", [1e-6, 1e-4, 3e-3])
def test_few_updates_are_left_over(steps: int, seconds: float) -> None:
    size = stack_size(seconds, steps)
    most = 1 if seconds >= step.SLOW else min(steps, int(step.CALL / seconds))
    assert 1 <= size <= most
    assert size == 1 or steps % size <= steps // 4
    if any(steps % s == 0 for s in range(most // 4 + 1, most + 1)):
        assert steps % size == 0


# Reports ----------------------------------------------------------------------------------------------------------


def test_history_evaluation_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Progress] = []
    run = fit(epochs=2, batch_size=8, validation_data=line(21), metrics=(largest,), progress=seen.append)
    columns = ["epoch", "step", "loss", "validation_loss", "largest", "samples_per_second", "seconds"]
    assert run.history.names == [*columns, *(f"{name}_seconds" for name in TIMES)]
    x, y = line(21)
    p = run.parameters
    assert run.history["validation_loss"][-1] == pytest.approx(np.mean((p["a"] * x + p["b"] - y) ** 2), abs=1e-12)
    assert (seen[-1].epoch, seen[-1].epochs, seen[-1].step, seen[-1].fraction) == (2, 2, 12, 1.0)
    assert seen[-1].learning_rate is None  # an optimizer of the user's, which says none
    assert capsys.readouterr() == ("", "")
    fit(epochs=2, batch_size=8, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    memory, *rows, time = err.splitlines()
    assert time.startswith("time  training ") and "  compiling " in time
    assert memory == "0 bytes of working memory for 6 updates in a call"
    assert [row.split()[:3] for row in rows] == [["epoch", "1", "loss"], ["epoch", "2", "loss"]]


def test_the_bar_shows_loss_rate_and_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("pullback.nn.training.report.OFTEN", 0.0)
    monkeypatch.setattr("pullback.nn.training.loop.stack_size", lambda seconds, steps: 1)
    fit(epochs=2, batch_size=8, progress=True)
    shown = capsys.readouterr().err
    assert "epoch 2/2  loss 1." in shown
    assert "  0 s left  " in shown


def test_the_rate_of_the_optimizer_is_shown_and_written_down(capsys: pytest.CaptureFixture[str]) -> None:
    schedule = lambda step: pb.where(step < 12, 0.1, 0.01)  # in the language, as a step computes it
    run = fit(epochs=3, batch_size=8, optimizer=nn.clip_by_global_norm(1.0) >> nn.sgd(schedule), progress=True)
    assert run.history["learning_rate"] == [0.1, 0.01, 0.01]  # of the update that follows
    assert ["rate 0.1  " in row for row in capsys.readouterr().err.splitlines()[1:-1]] == [True, False, False]


def test_early_stop_asks_the_history() -> None:
    worse = lambda parameters, state, batch: (pb.mean(parameters["a"] * batch[0]) * 0 + 1.0, state)
    run = nn.fit(worse, line(), **start(), epochs=50, batch_size=8, early_stopping=3)
    assert (run.stop_reason, len(run.history)) == ("stopped early", 4)
    rising = nn.EarlyStopping(2, monitor="accuracy", mode="max")
    table = lambda *values: nn.History(tuple({"accuracy": v} for v in values))
    assert [rising(table(*v)) for v in ((0.1, 0.2, 0.15), (0.1, 0.2, 0.15, 0.2), ())] == [False, True, False]
    with pytest.raises(UsageError, match=r"E518.*monitor='accuracy' is no column"):
        fit(epochs=2, early_stopping=rising)


def test_history_as_csv_and_plot(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    history = fit(epochs=3, batch_size=8, validation_data=line(20), metrics=(largest,)).history
    history.save(tmp_path / "run.csv")
    rows = np.genfromtxt(tmp_path / "run.csv", delimiter=",", names=True)
    assert rows["loss"].tolist() == history.losses  # numbers in full
    with pytest.raises(DataError, match="E511"):
        history.save(tmp_path / "absent" / "run.csv")
    pytest.importorskip("matplotlib")
    figure = history.plot(tmp_path / "run.png")
    assert [len(axes.lines) for axes in figure.axes] == [2, 1]
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(DataError, match="E506"):
        history.plot()


# The end ----------------------------------------------------------------------------------------------------------


def interrupting(after: int) -> Callable[[Progress], None]:
    def look(at: Progress) -> None:
        if at.step == after:
            os.kill(os.getpid(), signal.SIGINT)

    return look


def test_an_interruption_ends_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parameters are those after that many updates, and the old signal handler is back."""
    monkeypatch.setattr("pullback.nn.training.loop.stack_size", lambda seconds, steps: 1)
    before = signal.getsignal(signal.SIGINT)
    run = fit(epochs=5, batch_size=8, progress=interrupting(8))
    assert (run.stop_reason, len(run.history)) == ("interrupted", 1)
    assert run.steps in (8, 9)
    assert float(run.parameters["a"]) == float(fit(steps=run.steps, batch_size=8).parameters["a"])
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_trains_without_signals() -> None:
    made: list[nn.Run] = []
    thread = threading.Thread(target=lambda: made.append(fit(epochs=1)))
    thread.start()
    thread.join()
    assert made[0].stop_reason == "finished"


def test_no_thread_stays() -> None:
    def broken() -> Iterator[Any]:
        yield line(8)
        raise OSError("the disk is gone")

    before = threading.active_count()
    with pytest.raises(OSError, match="the disk is gone"):
        fit(broken(), epochs=1)
    fit(epochs=1)
    assert threading.active_count() == before


# What is wrong with the input -------------------------------------------------------------------------------------


def complete(call: Callable[[], Any], kind: type[PullbackError] = DataError) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def test_a_loss_that_is_not_finite_in_sound_data() -> None:
    text = complete(lambda: fit(epochs=200, batch_size=8, optimizer=Descent(1e6), shuffle=False))
    assert text.startswith("DataError [E514] the loss is ")
    assert "   | inputs : all finite, from -0.9" in text
    assert "try: a smaller learning rate, or `clip_by_global_norm`; debug=True names the line where it is made" in text


def test_a_nan_in_the_data_is_named() -> None:
    x, y = line()
    x[19] = np.nan
    assert complete(lambda: fit((x, y), epochs=1, batch_size=8, shuffle=False)) == (
        "DataError [E514] the loss is nan in batch 3 of epoch 1\n"
        "   | inputs[3] is nan in sample 3 of the batch, row 19 of the data\n"
        "  try: data without NaN and infinity      See `pullback explain-error E514`"
    )


def test_a_debug_build_names_the_line_and_the_batch() -> None:
    def logarithm(parameters: Any, state: Any, batch: Any) -> tuple[Any, Any]:
        return pb.mean(pb.log(parameters["a"] + batch[0])), state

    text = complete(
        lambda: nn.fit(logarithm, line(), **start(), epochs=1, batch_size=8, shuffle=False, debug=True), NotFiniteError
    )
    assert "pb.log(parameters[" in text
    assert "in batch 1 of epoch 1" in text


@pytest.mark.parametrize(
    ("call", "text"),
    [  # the call, and how its message begins
        (lambda: fit(), "UsageError [E518] fit: exactly one of `epochs` and `steps` is needed"),
        (lambda: fit(epochs=1, steps=1), "UsageError [E518] fit: exactly one of `epochs` and `steps` is needed"),
        (lambda: fit(epochs=1, batch_size=0), "UsageError [E518] batch_size=0"),
        (
            lambda: fit([line()], epochs=1, batch_size=3),
            "UsageError [E518] batch_size=3 for list, which gives batches itself",
        ),
        (lambda: fit((np.zeros(0), np.zeros(0)), epochs=1), "DataError [E512] data: no samples"),
        (lambda: fit((np.zeros(3), np.zeros(4)), epochs=1), "DataError [E512] the arrays of the data differ in how"),
        (lambda: fit([], epochs=1), "DataError [E512] list: no batches in epoch 1"),
        (lambda: fit(epochs=1, parameters=None), "UsageError [E518] fit: loss is no network and no parameters are"),
        (lambda: nn.fit(nn.dense(1), line(), optimizer=0, epochs=1), "UsageError [E518] fit: no loss for dense(1)"),
    ],
)  # fmt: skip
def test_arguments_that_make_no_run(call: Callable[[], Any], text: str) -> None:
    with pytest.raises((DataError, UsageError)) as caught:
        call()
    assert str(caught.value).startswith(text)


def network(inputs: Any, targets: Any, takes: str = "N 4") -> Any:
    take = lambda y, labels: nn.cross_entropy(y, labels)
    net = nn.dense(3).on(takes)
    return nn.fit(net, take, Dataset(inputs, targets, "mine"), optimizer=Descent(1.0), epochs=1, progress=False)


def test_data_that_a_network_does_not_take() -> None:
    good = np.zeros((5, 4), np.float32), np.array([0, 1, 2, 1, 0], np.uint8)
    assert network(*good).stop_reason == "finished"
    assert complete(lambda: network(good[0], np.array([0, 1, 7, 1, -1]))) == (
        "DataError [E513] mine: the label of sample 2 is 7, and there are 3 classes\n"
        "   | labels outside of 0 … 2: 2 of 5\n"
        "  try: labels from 0 to 2, or a network with more classes      See `pullback explain-error E513`"
    )
    assert complete(lambda: network(np.zeros((5, 6), np.float32), good[1])) == (
        "DataError [E508] dense(3) takes N 4\n"
        "   | a batch of the data is float32[5, 6]\n"
        "  try: data of that size, or `net.on(…)` with the size of the data      See `pullback explain-error E508`"
    )
    assert "E507] mine: 5 inputs and 4 targets" in complete(lambda: network(good[0], good[1][:4]))


@pytest.mark.slow
def test_a_memory_limit_holds_for_whole_updates() -> None:
    """The first mode that fits is taken, with the same losses; a limit that none keeps is said."""
    net = nn.sequential(nn.conv(4, 3), nn.relu, nn.max_pool(2), nn.flatten(), nn.dense(3)).on("N 1 12 12")
    data = np.random.default_rng(0).normal(size=(32, 1, 12, 12)).astype(np.float32), np.arange(32) % 3
    train = lambda limit: nn.fit(
        net, nn.cross_entropy, data, optimizer=nn.sgd(0.1), steps=2, batch_size=32, memory_limit=limit, progress=False
    )
    np.testing.assert_allclose(train(82_000).history.losses, train(None).history.losses, rtol=1e-5)
    with pytest.raises(CompilerError, match=r"\[E260\] update needs"):
        train(1_000)
