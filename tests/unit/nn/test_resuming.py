"""Resuming: a run alone in its folder, that notices what is not alike, and that finds the newest intact checkpoint."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import data, nn
from pullback.errors import DataError, PullbackError, UsageError
from pullback.files import FolderLock, put_file, remove_unfinished
from pullback.nn.parameters import read
from tests.unit.nn.test_fit import Descent, fit, interrupting, line, loss

ROOT = Path(__file__).resolve().parents[3]


def complete(call: Callable[[], Any], folder: Path) -> str:
    with pytest.raises(PullbackError) as caught:
        call()
    return str(caught.value).replace(str(folder), "run")


def checkpoints(folder: Path, count: int = 3) -> list[Path]:
    """A run of so many updates that saved each, a file damaged or not."""
    fit(steps=count, batch_size=25, save=nn.Checkpoints(str(folder), every_steps=1, max_to_keep=9), early_stopping=None)
    return sorted(folder.glob("step-*"))


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    monkeypatch.setattr("pullback.nn.training.loop.stack_size", lambda seconds, steps: 1)


# Damaged checkpoints --------------------------------------------------------------------------------------------


def flip(path: Path) -> None:
    """Turn a bit of the exponent of the last number."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x40
    path.write_bytes(content)


def test_a_damaged_checkpoint_names_the_newest_intact_one(tmp_path: Path) -> None:
    files = checkpoints(tmp_path)
    flip(files[-1])
    assert complete(lambda: fit(steps=4, batch_size=25, save=tmp_path), tmp_path) == (
        "DataError [E509] run/step-000000000003.safetensors: not a safetensors file, or damaged\n"
        f"   | {len(files[-1].read_bytes())} bytes      "
        "its digest does not match: bytes were changed since it was written      "
        "the newest intact checkpoint: step-000000000002.safetensors\n"
        '  try: `resume="newest intact"` (--resume-newest-intact), or the path of that file      '
        "See `pullback explain-error E509`"
    )
    flip(files[-2])
    assert "checkpoint: step-000000000001.safetensors" in complete(lambda: nn.load_parameters(tmp_path), tmp_path)
    flip(files[0])
    text = complete(lambda: fit(steps=4, batch_size=25, save=tmp_path, resume="newest intact"), tmp_path)
    assert "E509" in text
    assert "newest intact" not in text
    assert sorted(tmp_path.glob("step-*")) == files


def test_the_newest_intact_one_is_taken(tmp_path: Path) -> None:
    files = checkpoints(tmp_path)
    flip(files[-1])
    files[-2].write_bytes(files[-2].read_bytes()[:-1])
    again = fit(steps=6, batch_size=25, save=nn.Checkpoints(str(tmp_path), max_to_keep=2), resume="newest intact")
    whole = fit(steps=6, batch_size=25)
    assert (again.steps, again.parameters) == (6, whole.parameters)
    names = [f"step-00000000000{k}.safetensors{end}" for k, end in ((1, ""), (2, ".damaged"), (3, ".damaged"), (6, ""))]
    assert sorted(p.name for p in tmp_path.glob("step-*")) == names
    assert fit(steps=7, batch_size=25, save=tmp_path).steps == 7


# What is not alike ----------------------------------------------------------------------------------------------


def absolute(parameters: Any, state: Any, batch: Any) -> tuple[Any, Any]:
    x, y = batch
    return pb.mean(pb.abs(parameters["a"] * x + parameters["b"] - y)), {"seen": state["seen"] + x.shape[0]}


def renamed(f: Any, name: str) -> Any:
    f.__name__ = name
    return f


class Silent(Descent):
    """An optimizer whose text says nothing."""

    __str__ = object.__str__


X, Y = line()
RUN: dict[str, Any] = {"batch_size": 8, "steps": 2}
START = {"parameters": {"a": np.zeros(()), "b": np.zeros(())}, "state": {"seen": np.zeros((), np.int64)}}
ONE = X.copy()
ONE[17] += 1e-9
DATA = "data with data[0] float64[50], data[1] float64[50]"

CHANGES: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("a loss of another name", {"loss": absolute},
     ("model: loss in the checkpoint, absolute now", "loss: loss in the checkpoint, absolute now")),
    ("a loss of the same name", {"loss": renamed(lambda p, s, b: absolute(p, s, b), "loss")},
     ("loss: loss in both, with other computations",)),
    ("a constant in it", {"loss": renamed(lambda p, s, b: (2 * loss(p, s, b)[0], loss(p, s, b)[1]), "loss")},
     ("loss: loss in both, with other computations",)),
    ("an optimizer", {"optimizer": Descent(0.2)}, ("optimizer: Descent(0.1) in the checkpoint, Descent(0.2) now",)),
    ("a silent optimizer", {"optimizer": Silent(0.2), "before": Silent(0.1)},
     ("optimizer: <tests.unit.nn.test_resuming.Silent object> in both, with other computations",)),
    ("one value", {"data": (ONE, Y)}, (f"data: {DATA} in both, with other values",)),
    ("a target", {"data": (X, Y + 1)}, (f"data: {DATA} in both, with other values",)),
    ("the element type", {"data": (X, Y.astype("f4"))}, (f"data: {DATA} in the checkpoint, ",)),
    ("the count", {"data": (X[:49], Y[:49])}, ("data: data with data[0] float64[50], data[1] float64[50] in the ch",)),
    ("the order", {"data": (X[::-1], Y[::-1])}, (f"data: {DATA} in both, with other values",)),
    ("the seed", {"seed": 1}, ("seed: 0 in the checkpoint, 1 now",)),
    ("the batch size", {"batch_size": 16},
     ("batches in an epoch: 6 in the checkpoint, 3 now", "samples in a batch: 8 in")),
    ("the order of samples", {"shuffle": False}, ("shuffle: True in the checkpoint, False now",)),
    ("the rest", {"drop_last": False},
     ("batches in an epoch: 6 in the checkpoint, 7 now", "drop_last: True in the checkpoint, False now")),
]  # fmt: skip


@pytest.mark.parametrize(("change", "facts"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_what_is_not_alike_is_listed(tmp_path: Path, change: dict[str, Any], facts: tuple[str, ...]) -> None:
    change = dict(change)
    before = {**RUN, "optimizer": change.pop("before", Descent(0.1)), **START, "progress": False, "save": str(tmp_path)}
    nn.fit(loss, (X, Y), **before)
    after = {**before, **change, "steps": 3}
    trained, on = after.pop("loss", loss), after.pop("data", (X, Y))
    call = lambda **more: nn.fit(trained, on, **{**after, **more})
    for resume in (None, True):
        text = complete(lambda resume=resume: call(resume=resume), tmp_path)
        head, listed, remedy = text.splitlines()
        assert head == "DataError [E515] run holds the checkpoints of another run"
        assert all(fact in listed for fact in facts), listed
        assert listed.count(": ") == len(facts), listed
        assert remedy == ('  try: a folder of its own for each run, the settings of that run, or `resume="anyway"` '
                          "(--resume-anyway)      See `pullback explain-error E515`")  # fmt: skip
    assert call(resume="anyway").steps == 3
    assert call(steps=4).steps == 4  # from then on it is this run's


@pytest.mark.slow
def test_the_same_run_again_is_alike(tmp_path: Path) -> None:
    """Functions and arrays made anew, in another process as well, are the same."""
    script = f"""
import sys
from tests.unit.nn.test_resuming import *
from pullback.data import Dataset, random_flip, scale
optimizer = nn.clip_by_global_norm(1.0) >> nn.adam(lambda step: pb.where(step < 3, 0.1, 0.05))
x = np.arange(48.0).reshape(12, 2, 2)
train = Dataset(x.astype("f4"), np.arange(12) % 3).transformed(scale(4.0), random_flip())
net = nn.sequential(nn.flatten(), nn.dense(4), nn.dropout(0.5), nn.dense(3))
run = nn.fit(net, nn.cross_entropy, train, optimizer=optimizer, batch_size=4, progress=False,
             save={str(tmp_path)!r}, steps=int(sys.argv[1]))
print(run.steps)
"""
    for steps in ("2", "4"):
        done = subprocess.run([sys.executable, "-c", script, steps], cwd=ROOT, capture_output=True, text=True,
                              env={**os.environ, "PYTHONHASHSEED": steps})  # fmt: skip
        assert (done.stdout, done.stderr) == (f"{steps}\n", "")


def test_names_of_the_calling_line_are_no_difference(tmp_path: Path) -> None:
    """Traced values are named after what the calling line assigns to; a run may go on from any line."""
    net = nn.sequential(nn.dense(4), nn.relu, nn.dense(3))
    data = np.arange(24.0, dtype="f4").reshape(6, 4), np.arange(6) % 3
    go = lambda steps: nn.fit(net, nn.cross_entropy, data, optimizer=nn.adam(0.1), batch_size=3, steps=steps,
                              progress=False, save=str(tmp_path))  # fmt: skip
    first = go(2)
    again = nn.fit(net, nn.cross_entropy, data, optimizer=nn.adam(0.1), batch_size=3, steps=3, progress=False,
                   save=str(tmp_path))  # fmt: skip
    assert (first.steps, again.steps, go(4).steps) == (2, 3, 4)


def test_transformations_count_as_data(tmp_path: Path) -> None:
    train = lambda by: data.Dataset(np.arange(24.0).reshape(12, 2), np.arange(12.0)).transformed(data.scale(by))
    go = lambda by: nn.fit(nn.dense(1), lambda y, t: pb.mean((y[:, 0] - t) ** 2), train(by), optimizer=nn.sgd(1e-3),
                           steps=1, batch_size=4, progress=False, save=str(tmp_path))  # fmt: skip
    go(4.0)
    go(4.0)
    assert "with other values" in complete(lambda: go(5.0), tmp_path)


def test_iterables_may_give_other_values(tmp_path: Path) -> None:
    """Batches may come in another order in each epoch, and have other lengths."""
    batches = lambda seed, size=6: [(x, 3 * x) for x in np.random.default_rng(seed).normal(size=(4, size))]
    fit(batches(0), steps=2, save=tmp_path)
    assert fit(batches(1), steps=3, save=tmp_path).steps == 3
    assert fit(batches(1, 7), steps=4, save=tmp_path).steps == 4
    single = [(x.astype("f4"), y) for x, y in batches(0)]
    text = complete(lambda: fit(single, steps=5, save=tmp_path), tmp_path)
    assert "data: list with data[0] float64 of 1 axes, data[1] float64 of 1 axes in the checkpoint, list with" in text


def test_with_other_batches_the_epoch_begins_anew(tmp_path: Path) -> None:
    assert fit(epochs=2, batch_size=8, save=tmp_path, progress=interrupting(9)).stop_reason == "interrupted"
    run = fit(epochs=3, batch_size=25, save=tmp_path, resume="anyway")
    assert (run.stop_reason, [row["epoch"] for row in run.history], run.steps) == ("finished", [1, 2, 3], 13)


def test_how_to_resume_is_checked_before_anything(tmp_path: Path) -> None:
    text = complete(lambda: fit(epochs=1, save=tmp_path, resume="newst intact"), tmp_path)
    assert text == (
        "UsageError [E518] fit: resume='newst intact'\n"
        '  try: True, False, "newest intact" or "anyway"      See `pullback explain-error E518`'
    )
    assert "E518] fit: resume=True\n  try: `save=`" in complete(lambda: fit(epochs=1, resume=True), tmp_path)
    for resume in ("newest intact", "anyway"):
        with pytest.raises(UsageError, match="holds no checkpoint"):
            fit(epochs=1, save=tmp_path, resume=resume)


# One run in a folder --------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pullback.files import FolderLock
from pathlib import Path
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that uses the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_run_is_refused(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    assert complete(lambda: fit(steps=1, save=tmp_path), tmp_path) == (
        "DataError [E516] run is in use by another run\n"
        f"   | process {holder.pid} on {platform.node()}\n"
        "  try: a folder of its own for each run, or wait until that one has ended      "
        "See `pullback explain-error E516`"
    )
    assert [p.name for p in tmp_path.iterdir()] == [".pullback.lock"]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert fit(steps=1, save=tmp_path).steps == 1  # the lock went with the process, its file did not
    files = ["best.safetensors", "history.csv", "step-000000000001.safetensors"]
    assert sorted(p.name for p in tmp_path.iterdir()) == files


def test_a_run_inside_a_run_is_refused(tmp_path: Path) -> None:
    inner: list[str] = []
    again = lambda at: inner.append(complete(lambda: fit(steps=1, save=tmp_path), tmp_path))
    fit(steps=1, batch_size=25, save=tmp_path, progress=again)
    assert "E516" in inner[0]
    assert f"process {os.getpid()} on" in inner[0]


@pytest.mark.parametrize("change", [{"optimizer": Descent(0.3)}, {"progress": lambda at: 1 / 0}, {"resume": False}])
def test_a_run_that_fails_lets_go_of_the_folder(tmp_path: Path, change: dict[str, Any]) -> None:
    fit(steps=1, save=tmp_path)
    with pytest.raises((PullbackError, ZeroDivisionError)):
        fit(steps=2, save=tmp_path, **change)
    assert fit(steps=2, save=tmp_path).steps == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_child_does_not_keep_the_folder(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    lock.release()
    FolderLock(tmp_path).release()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_file_left_by_a_process_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / ".pullback.lock").write_text("process 1 on elsewhere\n")
    FolderLock(tmp_path).release()
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def none(*arguments: Any) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.warns(RuntimeWarning, match="file system without locks: a second run in it would not be noticed"):
        fit(steps=1, save=tmp_path)


# Files of others ------------------------------------------------------------------------------------------------

WRITE = """
import os, sys, time
from pathlib import Path
from pullback.files import put_file
os.replace = lambda *paths: (print("written", flush=True), time.sleep(60))
put_file(Path(sys.argv[1]) / "file", b"content")
"""


def test_only_leftovers_of_processes_that_are_gone_are_removed(tmp_path: Path) -> None:
    own = [".myconfig.new", ".pullback-x.new", ".pullback-1-0123456789abcdef.new.txt", "step.new"]
    for name in own:
        (tmp_path / name).write_text("the user's")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (tmp_path / f".pullback-{gone.pid}-0123456789abcdef.new").write_text("left")
    command = [sys.executable, "-c", WRITE, str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    fit(steps=1, save=tmp_path)
    unfinished = [p.name for p in tmp_path.glob(f".pullback-{process.pid}-*.new")]
    assert len(unfinished) == 1
    process.kill()
    process.communicate()
    remove_unfinished(tmp_path)
    assert sorted(p.name for p in tmp_path.glob("*") if p.suffix not in (".csv", ".safetensors")) == sorted(own)


def test_a_second_run_takes_nothing_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one writes its checkpoint another one opens the folder."""
    texts: list[str] = []
    sync = os.fsync

    def opened(handle: int) -> None:
        if not texts:
            texts.append("")
            texts.append(complete(lambda: fit(steps=1, save=tmp_path), tmp_path))
            remove_unfinished(tmp_path)
        sync(handle)

    monkeypatch.setattr(os, "fsync", opened)
    assert fit(steps=1, save=tmp_path).steps == 1
    assert "E516" in texts[1]
    assert read(tmp_path / "step-000000000001.safetensors")


def test_a_name_says_whose_file_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: names.extend(os.listdir(tmp_path)))
    put_file(tmp_path / "file", b"", sync=True)
    assert names[0].startswith(f".pullback-{os.getpid()}-")
    assert names[0].endswith(".new")


# Settings that would fail too late ------------------------------------------------------------------------------


@pytest.mark.parametrize(("settings", "text"), [
    ({"early_stopping": nn.EarlyStopping(2, monitor="typo")},
     "EarlyStopping: monitor='typo' is no column of the history\n  try: one of step, loss, samples_per_second"),
    ({"early_stopping": nn.EarlyStopping(2, monitor="validation_loss")},
     "EarlyStopping: monitor='validation_loss' is no column of the history"),
    ({"early_stopping": "3"}, "fit: early_stopping='3'\n  try: a number of epochs"),
    ({"early_stopping": 0}, "EarlyStopping: patience=0\n  try: a number of epochs, at least 1"),
    ({"early_stopping": 2.5}, "fit: early_stopping=2.5"),
    ({"drop_last": "no"}, "fit: drop_last='no'\n  try: True or False"),
    ({"epochs": -1}, "fit: epochs=-1\n  try: a number of at least 0"),
    ({"epochs": "3"}, "fit: epochs='3'"),
    ({"epochs": None, "steps": float("nan")}, "fit: steps=nan"),
    ({"metrics": (loss,), "validation_data": line()}, "fit: two columns of the history would be loss"),
    ({"metrics": (renamed(lambda p, s, b: b[0][0], "m"), renamed(lambda p, s, b: b[1][0], "m")),
      "validation_data": line()},
     "fit: two columns of the history would be m"),
])  # fmt: skip
def test_mistakes_are_found_before_training(settings: dict[str, Any], text: str, tmp_path: Path) -> None:
    shown: list[Any] = []
    with pytest.raises((UsageError, DataError)) as caught:
        fit(**{"epochs": 2, "save": tmp_path, "progress": shown.append, **settings})
    assert f"[E518] {text}" in str(caught.value)
    assert not shown
    assert not list(tmp_path.iterdir())


def test_a_place_for_the_history_is_found_before_training(tmp_path: Path) -> None:
    (tmp_path / "history.csv").mkdir()
    shown: list[Any] = []
    assert "E511" in complete(lambda: fit(epochs=1, save=tmp_path, progress=shown.append), tmp_path)
    assert not shown


@pytest.mark.parametrize("of", [tuple, data.Dataset])
def test_labels_of_a_loss_by_hand(of: Any) -> None:
    """Only a network says how many classes there are: the advice names labels where a loss is not finite."""
    x, labels = np.ones((4, 3), np.float32), np.array([0, 1, 2, 7])
    own = lambda p, s, b: nn.cross_entropy(b[0] @ p["w"], b[1])
    given = (x, labels) if of is tuple else data.Dataset(x, labels)
    with pytest.raises(DataError, match=r"E514.*\n.*\n.*labels that are no class give NaN"):
        nn.fit(own, given, parameters={"w": np.zeros((3, 3), np.float32)}, optimizer=nn.sgd(0.1), epochs=1,
               batch_size=4, progress=False)  # fmt: skip


@pytest.mark.parametrize("settings", [
    {"max_to_keep": 0}, {"max_to_keep": -1}, {"max_to_keep": None}, {"every_steps": 0}, {"every_seconds": -1.0},
    {"every_steps": "3"}, {"every_seconds": float("nan")},
])  # fmt: skip
def test_checkpoints_of_no_use(settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(UsageError, match=rf"E518\] Checkpoints: {name}="):
        nn.Checkpoints("run", **settings)


def test_columns_of_the_history_serve_early_stops() -> None:
    largest = renamed(lambda p, s, b: pb.max(pb.abs(b[0])), "largest")
    for on in ("loss", "validation_loss", "largest"):
        stop = nn.EarlyStopping(3, monitor=on, min_delta=1e9)
        assert len(fit(epochs=9, validation_data=line(20), metrics=(largest,), early_stopping=stop).history) == 4
