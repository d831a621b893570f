"""The training loop by itself: what it loads, reports, saves and measures, with updates that compute nothing."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback import nn
from pullback.clock import stage
from pullback.data.loader import Samples, Stream
from pullback.errors import CompilerError, DataError, NotFiniteError, UsageError
from pullback.nn.training import loop
from pullback.nn.training.checkpoint import FORMAT, Checkpoints, Folder, Position
from pullback.nn.training.history import TIMES
from pullback.nn.training.loop import Run, Training, _interruption
from pullback.nn.training.report import Progress, Report
from pullback.nn.training.step import Carry, Updates
from pullback.nn.training.validation import Measure, Validation


@dataclass
class Source:
    """Batches that say which they are."""

    steps: int | None = 5
    whole: int | None = 5
    items: int = 4
    name: str = "here"
    check: Any = None

    def stacked(self, epoch: int, first: int, count: int) -> Any:
        return np.array([[epoch, first + k] for k in range(count)])

    def is_quick(self, epoch: int, first: int, count: int) -> bool:
        return False


@dataclass
class Noted(Updates):
    """Updates that note what they are given; the loss is 1, 2, 3, …, or those of `losses`."""

    losses: list[float] = field(default_factory=list)
    calls: list[tuple[list[list[int]], int]] = field(default_factory=list)
    arrays: tuple[Any, ...] = ()
    arena_bytes: dict[int, int] = field(default_factory=dict)
    rate: float | None = None

    def __post_init__(self) -> None:
        self.arrays = np.zeros(2), np.zeros(())

    @property
    def carry(self) -> Carry:
        return Carry({"w": self.arrays[0]}, {"s": self.arrays[1]}, {})

    def seconds(self, batch: Any) -> float:
        return 1.0

    def learning_rate_at(self, step: int) -> float | None:
        return None if self.rate is None else self.rate / (1 + step)

    def __call__(self, batches: Any, step: int) -> Any:
        self.calls.append((batches.tolist(), step))
        count = len(batches)
        return np.array([self.losses[step + k] if self.losses else step + k + 1.0 for k in range(count)])


def training(source: Any = None, epochs: int | None = None, steps: int | None = None, **settings: Any) -> Training:
    updates = settings.pop("updates", None) or Noted()
    made = Training(source or Source(), updates, epochs, steps, settings.pop("debug", False))
    for name, value in settings.items():
        setattr(made, name, value)
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds, which stands still."""
    now = [100.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: now[0])
    return now


# What is loaded ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "wanted", "stack", "at", "requests"), [
    # the batches of an epoch and those of one size; epochs and steps; updates of a call; where the run stands
    ((3, 3), (2, None), 1, (0, 0, 0), [(0, 0, 1), (0, 1, 1), (0, 2, 1), (1, 0, 1), (1, 1, 1), (1, 2, 1)]),
    ((5, 5), (1, None), 2, (0, 0, 0), [(0, 0, 2), (0, 2, 2), (0, 4, 1)]),
    ((5, 4), (1, None), 4, (0, 0, 0), [(0, 0, 4), (0, 4, 1)]),  # the last one is smaller
    ((5, 4), (1, None), 5, (0, 0, 0), [(0, k, 1) for k in range(5)]),
    ((4, 4), (None, 6), 2, (0, 0, 0), [(0, 0, 2), (0, 2, 2), (1, 0, 2)]),
    ((4, 4), (None, 5), 2, (0, 0, 0), [(0, 0, 2), (0, 2, 2), (1, 0, 1)]),
    ((4, 4), (2, 5), 4, (0, 0, 0), [(0, 0, 4), (1, 0, 1)]),
    ((4, 4), (2, None), 2, (3, 0, 3), [(0, 3, 1), (1, 0, 2), (1, 2, 2)]),  # goes on at the fourth batch
    ((4, 4), (2, None), 2, (6, 1, 2), [(1, 2, 2)]),
    ((4, 4), (None, 6), 2, (5, 1, 1), [(1, 1, 1)]),
    ((4, 4), (2, None), 2, (8, 2, 0), []),
    ((4, 4), (None, 8), 2, (8, 2, 0), []),
    ((2, None), (1, None), 2, (0, 0, 0), [(0, 0, 1), (0, 1, 1)]),  # whose sizes nobody knows
])  # fmt: skip
def test_requests(source: Any, wanted: Any, stack: int, at: Any, requests: Any) -> None:
    step, epoch, batch = at
    t = training(Source(*source), *wanted, stack=stack, at=Position(step, epoch, batch))
    assert list(t._requests()) == requests


def test_an_iterable_is_asked_until_its_end_is_seen() -> None:
    t = training(Source(None, None), 2)
    asked = t._requests()
    assert [next(asked) for _ in range(3)] == [(0, 0, 1), (0, 1, 1), (0, 2, 1)]
    t.at.epoch = 1
    assert [next(asked) for _ in range(2)] == [(1, 0, 1), (1, 1, 1)]
    t.at.epoch = 2
    assert list(asked) == []


@pytest.mark.parametrize(("source", "debug", "stack"), [
    (Source(6, 6), False, 3), (Source(6, 6), True, 1), (Source(None, None), False, 1), (Source(1, 0), False, 1),
])  # fmt: skip
def test_calls_make_several_updates_where_batches_are_of_one_size(
    monkeypatch: pytest.MonkeyPatch, source: Source, debug: bool, stack: int
) -> None:
    monkeypatch.setattr(loop, "stack_size", lambda seconds, steps: steps // 2)
    t = training(source, 0, debug=debug)
    t.run(None, False)
    assert t.stack == stack


def test_updates_are_told_the_step_and_losses_are_means() -> None:
    t = training(Source(3, 3), 2, stack=2)
    with Report(False) as report:
        assert t._train(report, [False]) == "finished"
    assert t.updates.calls == [([[0, 0], [0, 1]], 0), ([[0, 2]], 2), ([[1, 0], [1, 1]], 3), ([[1, 2]], 5)]  # type: ignore[attr-defined]
    assert [row["loss"] for row in t.at.history] == [2.0, 5.0]
    assert [(row["epoch"], row["step"]) for row in t.at.history] == [(1, 3), (2, 6)]
    assert (t.at.step, t.at.epoch, t.at.batch, t.at.loss) == (6, 2, 0, 0.0)


# The end ----------------------------------------------------------------------------------------------------------


class Never:
    """An early stop that notes how often it is asked."""

    def __init__(self, stops: bool) -> None:
        self.stops, self.asked = stops, 0

    def __call__(self, history: Any) -> bool:
        self.asked += 1
        return self.stops


@pytest.mark.parametrize(("epochs", "steps", "at", "stops", "end"), [
    (2, None, (5, 1, 0), None, None), (2, None, (10, 2, 0), None, "finished"), (None, 7, (6, 1, 1), None, None),
    (None, 7, (7, 1, 2), None, "finished"), (2, 7, (7, 1, 2), None, "finished"), (2, 70, (7, 2, 0), None, "finished"),
    (2, None, (5, 1, 0), True, "stopped early"), (2, None, (5, 1, 0), False, None), (2, None, (6, 1, 1), True, None),
    (2, None, (10, 2, 0), True, "finished"),
])  # fmt: skip
def test_why_a_run_ends(epochs: Any, steps: Any, at: Any, stops: Any, end: Any) -> None:
    early = None if stops is None else Never(stops)
    t = training(None, epochs, steps, at=Position(*at), early_stopping=early)
    assert t._end() == end
    if early is not None:  # it is asked after whole epochs alone
        assert early.asked == (at[2] == 0 and end != "finished")


def test_an_epoch_that_is_not_completed_has_a_row_but_no_entry() -> None:
    t = training(Source(4, 4), None, 6)
    run = t.run(None, False)
    assert [(row["epoch"], row["step"], row["loss"]) for row in run.history] == [(1, 4, 2.5), (2, 6, 5.5)]
    assert len(t.at.history) == 1
    assert (run.steps, run.stop_reason) == (6, "finished")
    assert training(Source(3, 3), None, 6).run(None, False).history["epoch"] == [1, 2]


def test_an_epoch_that_was_done_before_is_closed_first() -> None:
    """A run that ended between the last update and what follows an epoch."""
    t = training(Source(3, 3), 2, at=Position(3, 0, 3, 6.0))
    assert t.run(None, False).history.losses == [2.0, 5.0]
    assert t.updates.calls[0] == ([[1, 0]], 3)  # type: ignore[attr-defined]
    done = training(Source(3, 3), 1, at=Position(3, 0, 3, 6.0))
    assert done.run(None, False).history.losses == [2.0]
    assert done.updates.calls == []  # type: ignore[attr-defined]


def test_the_second_interruption_raises() -> None:
    before = signal.getsignal(signal.SIGINT)
    with _interruption() as interrupted:
        assert interrupted == [False]
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted == [True]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


class Broken(Noted):
    """Updates whose compiler fails, as on Ctrl-C in a terminal."""

    def __init__(self, interrupted: bool) -> None:
        super().__init__()
        self.interrupted = interrupted

    def __call__(self, batches: Any, step: int) -> Any:
        if self.interrupted:
            os.kill(os.getpid(), signal.SIGINT)
        raise CompilerError("E601", "the C compiler failed")


def test_a_compiler_fails_for_a_reason_or_by_the_interruption() -> None:
    run = training(None, 1, updates=Broken(True)).run(None, False)
    assert (run.stop_reason, run.steps) == ("interrupted", 0)
    with pytest.raises(CompilerError, match="the C compiler failed"):
        training(None, 1, updates=Broken(False)).run(None, False)


@pytest.mark.parametrize(("losses", "stack", "message"), [
    ([1, 2, math.nan, 4], 1, "the loss is nan in batch 3 of epoch 1"),
    ([1, 2, math.inf, math.nan], 4, "the loss is inf in batch 3 of epoch 1"),
    ([1, 2, 3, 4, 5, -math.inf], 2, "the loss is -inf in batch 2 of epoch 2"),
])  # fmt: skip
def test_the_first_loss_that_is_not_finite_is_told(losses: Any, stack: int, message: str) -> None:
    t = training(Source(4, 4), 2, stack=stack, updates=Noted(losses=losses))
    with pytest.raises(DataError, match=message), Report(False) as report:
        t._train(report, [False])


def test_a_debug_build_is_told_the_batch() -> None:
    class Raising(Noted):
        def __call__(self, batches: Any, step: int) -> Any:
            raise NotFiniteError("E300", "here", facts=("before",))

    t = training(Source(4, 4), 2, updates=Raising(), at=Position(6, 1, 2), debug=True)
    with pytest.raises(NotFiniteError) as caught:
        t.run(None, False)
    assert tuple(caught.value.facts) == ("before", "in batch 3 of epoch 2")


# Reports ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "wanted", "at", "share", "epochs", "loss"), [
    (Source(), (2, None), (2, 0, 2, 5.0), 0.2, 2, 2.5),
    (Source(), (2, None), (7, 1, 2, 5.0), 0.7, 2, 2.5),
    (Source(), (None, 20), (5, 1, 0, 0.0), 0.25, None, math.nan),
    (Source(), (4, 20), (5, 1, 0, 0.0), 0.25, 4, math.nan),
    (Source(None, None), (2, None), (7, 1, 2, 5.0), 0.0, 2, 2.5),
    (Source(None, None), (None, 14), (7, 1, 2, 5.0), 0.5, None, 2.5),
])  # fmt: skip
def test_where_a_run_stands(
    clock: list[float], source: Source, wanted: Any, at: Any, share: float, epochs: Any, loss: float
) -> None:
    t = training(source, *wanted, updates=Noted(rate=1.0), at=Position(*at, seconds=9.0))
    t._began = clock[0] - 4, 1
    step, epoch, batch, _ = at
    speed = source.items * (batch - 1) / 4
    expected = Progress(epoch, epochs, step, batch, source.steps, loss, speed, share, 9.0, 1 / (1 + step))
    assert t._progress() == pytest.approx(expected, nan_ok=True)


def test_a_row(clock: list[float]) -> None:
    t = training(Source(), 2, at=Position(7, 1, 2, 5.0), updates=Noted(rate=4.0))
    t._began, t._since = (clock[0] - 2, 1), 90.12345
    row = {"epoch": 2, "step": 7, "loss": 2.5, "learning_rate": 0.5, "samples_per_second": 2.0, "seconds": 9.877}
    assert list(t._row().items()) == [*row.items(), *((f"{name}_seconds", 0) for name in TIMES)]
    t.updates.rate = None  # type: ignore[attr-defined]
    t.source.items = 0
    assert t._row()["samples_per_second"] == 0.5  # batches a second, where nobody knows how large they are
    assert "learning_rate" not in t._row()
    t.at = Position(5, 1, 0, 0.0)
    assert t._row()["loss"] == 0.0


def test_an_epoch_is_told_when_it_is_over(clock: list[float]) -> None:
    shown: list[Progress] = []
    t = training(Source(), 2, at=Position(5, 0, 5, 10.0))
    t._began = clock[0] - 5, 0
    with Report(shown.append) as report:
        t._finish_epoch(report)
    (told,) = shown
    assert (told.epoch, told.batch, told.loss, told.fraction, told.samples_per_second) == (1, 0, 2.0, 0.5, 4.0)
    assert (t.at.epoch, t.at.batch, t.at.loss) == (1, 0, 0.0)
    assert t._began == (clock[0], 0)


def test_time_is_split_and_the_speed_is_that_of_training(clock: list[float]) -> None:
    class Slow(Noted):
        def __call__(self, batches: Any, step: int) -> Any:
            with stage("C compiler"):
                clock[0] += 32.0 * (step == 0)
            clock[0] += 1.0
            return super().__call__(batches, step)

    class Loaded(Source):
        def stacked(self, epoch: int, first: int, count: int) -> Any:
            clock[0] += 0.5
            return super().stacked(epoch, first, count)

        def is_quick(self, epoch: int, first: int, count: int) -> bool:
            return True

    class Measured:
        columns = ("validation_loss",)

        def measured(self, carry: Carry, epoch: int) -> dict[str, float]:
            clock[0] += 64.0
            return {"validation_loss": 1.0}

    t = training(Loaded(2, 2), 2, updates=Slow(), validation=Measured())
    rows = t.run(None, False).history.rows
    assert [[row[f"{name}_seconds"] for name in TIMES] for row in rows] == [[2, 64, 1, 32], [2, 64, 1, 0]]
    assert [row["samples_per_second"] for row in rows] == [round(8 / 3, 1)] * 2
    assert [row["seconds"] for row in rows] == [99, 166]


def test_seconds_go_on_from_those_before(clock: list[float]) -> None:
    t = training(Source(2, 2), 2, at=Position(2, 1, 0, 0.0, seconds=50.0))
    run = t.run(None, False)
    assert run.seconds == 50.0
    assert t.at.history[-1]["seconds"] == 50.0


def test_a_run_in_a_line() -> None:
    history = nn.History(({"epoch": 1, "loss": 3.0}, {"epoch": 2, "step": 4, "loss": 0.123456, "accuracy": 0.5}))
    run = Run(None, None, None, history, 4, 1.2345, "stopped early")
    assert repr(run) == "<Run: 4 steps in 1.23 s, stopped early, loss 0.12346, accuracy 0.5>"
    assert repr(Run(None, None, None, nn.History(), 0, 0.0, "finished")) == "<Run: 0 steps in 0 s, finished>"


# Validation -------------------------------------------------------------------------------------------------------


def validation(source: Any, monkeypatch: pytest.MonkeyPatch, stack: int = 1) -> Validation:
    """A validation that measures the parameters times the mean of a batch, and the batch's size."""
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    measure = Measure(lambda p, s, b: (p * b.sum() / b.shape[0], 0.0 * p + b.shape[0]))
    return Validation(measure, source, ("mean", "size"), stack)


@pytest.mark.parametrize("stack", [1, 2])
def test_means_are_over_samples_whatever_batches_they_are_in(monkeypatch: pytest.MonkeyPatch, stack: int) -> None:
    x = np.arange(7.0)
    given = Samples(x, 3, shuffle=False, drop_last=False)
    found = validation(given, monkeypatch, stack).measured(Carry(np.array(2.0), {}, {}), 9)
    assert found == {"mean": pytest.approx(6.0), "size": pytest.approx((3 * 3 + 3 * 3 + 1) / 7)}
    measure = validation(Stream([x[:2], x[2:]]), monkeypatch)
    for epoch in (0, 0, 3):  # an iterable starts anew for each measurement
        assert measure.measured(Carry(np.array(1.0), {}, {}), epoch)["mean"] == pytest.approx(3.0)


@pytest.mark.parametrize(("source", "stack", "asked"), [
    ((2, 2), 1, [(0, 0, 1), (0, 1, 1)]), ((8, 7), 3, [(0, 0, 3), (0, 3, 3), (0, 6, 1), (0, 7, 1)]),
    ((7, 7), 7, [(0, 0, 7)]), ((1, 0), 1, [(0, 0, 1)]),
])  # fmt: skip
def test_the_same_batches_are_asked_for_after_every_epoch(source: Any, stack: int, asked: Any) -> None:
    assert list(Validation(None, Source(*source), (), stack)._requests(4)) == asked  # type: ignore[arg-type]


def test_an_iterable_is_measured_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []

    class Asked(Source):
        def stacked(self, epoch: int, first: int, count: int) -> Any:
            asked.append((epoch, first, count))
            return None if first == 2 else np.ones((1, 3))

    validation(Asked(None, None), monkeypatch).measured(Carry(np.array(1.0), {}, {}), 4)
    assert asked[:3] == [(4, 0, 1), (4, 1, 1), (4, 2, 1)]
    assert len(asked) <= 4


# Checkpoints ------------------------------------------------------------------------------------------------------


OPEN: dict[Path, Folder] = {}


def folder(path: Path, shared: dict[str, Any] | None = None, **settings: Any) -> Folder:
    """A folder of checkpoints for one run; the run before it in this folder has ended."""
    if path in OPEN:
        OPEN.pop(path).release()
    OPEN[path] = Folder(Checkpoints(str(path), **settings), shared or {"model": "m"})
    return OPEN[path]


def saved(path: Path) -> list[int]:
    return [int(f.stem.removeprefix("step-")) for f in sorted(path.glob("step-*"))]


def test_when_it_is_time_to_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    carry, every = Noted().carry, folder(tmp_path, every_steps=3, every_seconds=10.0, max_to_keep=2)
    assert [every.is_due(k) for k in (0, 2, 3, 4)] == [False, False, True, True]
    now[0] = 60.0
    assert every.is_due(0)
    every.save(carry, Position(4))
    assert [every.is_due(k) for k in (4, 6, 7)] == [False, False, True]
    now[0] = 69.9
    assert not every.is_due(6)
    now[0] = 70.0
    assert every.is_due(6)
    for k in (7, 9):
        every.save(carry, Position(k))
    assert saved(tmp_path) == [7, 9]
    again = folder(tmp_path, every_steps=3, every_seconds=None)
    again.load(carry)
    assert [again.is_due(k) for k in (9, 11, 12)] == [False, False, True]
    never = folder(tmp_path, every_seconds=None)
    now[0] = 1e9
    assert not never.is_due(10**9)
    assert Checkpoints("").every_seconds == 60.0


def test_a_position_is_saved_once(tmp_path: Path) -> None:
    carry, here = Noted().carry, folder(tmp_path)
    here.save(carry, Position(4))
    (file,) = here.files()
    before = file.stat().st_mtime_ns
    os.utime(file, ns=(before - 10**9, before - 10**9))
    here.save(carry, Position(4))
    assert file.stat().st_mtime_ns == before - 10**9
    again = folder(tmp_path)
    assert again.load(carry) is not None
    again.save(carry, Position(4))  # a run that is resumed at its end
    assert file.stat().st_mtime_ns == before - 10**9


def test_an_old_file_that_is_gone_already_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may have removed it."""
    here, files = folder(tmp_path, max_to_keep=1), [tmp_path / "step-1", tmp_path / "step-2"]
    monkeypatch.setattr(Folder, "files", lambda self: files)
    here.save(Noted().carry, Position(4))
    assert saved(tmp_path) == [4]


def test_a_run_saves_when_it_is_due_and_at_its_end(tmp_path: Path) -> None:
    t = training(Source(4, 4), None, 7, folder=folder(tmp_path, every_steps=3, every_seconds=None, max_to_keep=9))
    t.run(None, False)
    assert saved(tmp_path) == [3, 6, 7]
    assert (tmp_path / "history.csv").read_text().splitlines()[0] == (
        "epoch,step,loss,samples_per_second,seconds,"
        "training_seconds,validation_seconds,loading_seconds,compiling_seconds"
    )
    assert len((tmp_path / "history.csv").read_text().splitlines()) == 2
    before = training(Source(4, 4), None, 2, folder=folder(tmp_path / "b"))
    before.run(None, False)
    assert saved(tmp_path / "b") == [2]
    assert not (tmp_path / "b" / "history.csv").exists()


def test_a_run_goes_on_in_its_own_arrays(tmp_path: Path) -> None:
    first = Noted()
    first.arrays[0][:] = 3.0, 4.0
    first.arrays[1][...] = 5.0
    at = Position(6, 1, 2, 3.5, 7.25, [{"epoch": 1, "loss": 0.5}])
    folder(tmp_path).save(first.carry, at)
    t = training(None, 2, folder=folder(tmp_path))
    own = t.updates.arrays
    t.resume(None)
    assert (own[0].tolist(), float(own[1])) == ([3.0, 4.0], 5.0)
    assert t.at == at
    t.resume(True)
    with pytest.raises(UsageError) as caught:
        t.resume(False)
    assert f"{tmp_path} holds checkpoints" in str(caught.value)
    assert "`resume=True` (--resume) goes on from the last one" in str(caught.value)
    empty = training(None, 2, folder=folder(tmp_path / "none"))
    empty.resume(None)
    empty.resume(False)
    assert empty.at == Position()
    with pytest.raises(UsageError) as caught:
        empty.resume(True)
    assert "holds no checkpoint" in str(caught.value) and "begin without `resume`" in str(caught.value)


def failing(call: Callable[[], Any]) -> str:
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


def test_what_a_file_lacks(tmp_path: Path) -> None:
    here = folder(tmp_path)
    assert "format 0, this version reads" in failing(lambda: here._about(tmp_path, {"training": '{"format": 0}'}))
    for words in ({}, {"training": "{}"}):
        assert "parameters alone, without a position" in failing(lambda words=words: here._about(tmp_path, words))
    for words in ({"training": "{"}, {"training": "3"}, {"training": f'{{"format": {FORMAT}}}'}):
        assert "what it says of training cannot be read" in failing(lambda words=words: here._about(tmp_path, words))
    held = {"format": FORMAT, "shared": {"x": 2}, "position": {"step": 3}}
    assert here._about(tmp_path, {"training": json.dumps(held)}) == ({"x": 2}, Position(3))
    assert here.load(Noted().carry) is None
    here.save(Noted().carry, Position(1))
    other = folder(tmp_path, {"model": "n", "seed": 1})
    said = failing(lambda: other.load(Noted().carry))
    assert "[E515]" in said and "model: m in the checkpoint, n now" in said
