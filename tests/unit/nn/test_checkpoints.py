"""Checkpoints: what goes on from one equals what never stopped, bit for bit, wherever the process was killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback import nn
from pullback.errors import DataError, PullbackError, UsageError
from pullback.nn.parameters import named, put, read
from pullback.nn.training.checkpoint import FORMAT
from tests.unit.nn.test_fit import Descent, fit, interrupting, line, start

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
KILLS = int(os.environ.get("PULLBACK_KILLS", "3"))
EPOCHS = max(40, 4 * KILLS)  # enough that most kills find it under way

# A run of many short calls that saves after each update: it is killed again and again, and at last comes to its end.
SCRIPT = """
import sys
import numpy as np
from pullback import data, nn
import pullback as pb
from tests.unit.nn.test_fit import Descent

x = np.random.default_rng(0).normal(size=(96, 6, 6)).astype(np.float32)
train = data.Dataset(x, np.sum(x, (1, 2))).transformed(data.random_crop(6, padding=1), data.random_flip())
net = nn.sequential(nn.flatten(), nn.dense(8), nn.relu, nn.dense(1))
squares = lambda y, target: pb.mean((y[:, 0] - target) ** 2)
run = nn.fit(net, squares, train, optimizer=Descent(0.01), epochs=int(sys.argv[2]), batch_size=16, seed=5,
             progress=False, validation_data=train.take(32),
             save=nn.Checkpoints(sys.argv[1], every_steps=1, max_to_keep=3))
"""


def readable(folder: Path) -> int:
    """The number of checkpoints, each checked to be whole."""
    files = sorted(folder.glob("step-*.safetensors"))
    for path in files:
        arrays, words = read(path)
        assert arrays
        assert json.loads(words["training"])["format"] == FORMAT
    return len(files)


def run_in(folder: Path) -> list[str]:
    """The command that runs the script with its checkpoints in a folder."""
    return [sys.executable, "-c", SCRIPT, str(folder), str(EPOCHS)]


def killed(folder: Path, delay: float) -> bool:
    """Start the run, kill it some time after it wrote its next checkpoint; whether it came to its end before."""
    before = set(folder.glob("step-*"))
    process = subprocess.Popen(run_in(folder), cwd=ROOT, stderr=subprocess.PIPE)
    while process.poll() is None and set(folder.glob("step-*")) <= before:
        time.sleep(0.001)
    time.sleep(delay)
    ended = process.poll() is not None
    process.kill()
    error = process.communicate()[1]
    assert process.returncode in (0, -9), error
    return ended


def survives(folder: Path, kills: int) -> tuple[int, int]:
    """Kill a run many times, then let it end, and compare it with one that was not: the kills, and the last step."""
    delays = random.Random(0)
    done = 0
    while done < kills and not killed(folder / "killed", delays.uniform(0, 0.04)):
        done += 1
        assert 1 <= readable(folder / "killed") <= 4  # a kill may come between a new file and the end of an old one
    for name in ("killed", "whole"):
        subprocess.run(run_in(folder / name), cwd=ROOT, check=True)
        assert not list((folder / name).glob(".*"))
    last = [max((folder / name).glob("step-*")) for name in ("killed", "whole")]
    (ours, about), (theirs, others) = map(read, last)
    assert ours.keys() == theirs.keys()
    assert all(ours[n].tobytes() == theirs[n].tobytes() for n in ours)
    rows, same = (json.loads(words["training"])["position"]["history"] for words in (about, others))
    for name in ("loss", "validation_loss", "step"):
        assert [row[name] for row in rows] == [row[name] for row in same]
    return done, len(rows)


def test_c25_killed_runs_end_as_if_they_had_not_been(tmp_path: Path) -> None:
    assert survives(tmp_path, KILLS) == (KILLS, EPOCHS)


def bits(run: nn.Run) -> list[bytes]:
    arrays = (*run.parameters.values(), run.state["seen"], run.optimizer_state["count"])
    return [np.asarray(x).tobytes() for x in arrays]


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pullback.nn.training.loop.stack_size", lambda seconds, steps: 2)
    whole = fit(epochs=5, batch_size=8, validation_data=line(9))
    folder = tmp_path / "run"
    first = fit(epochs=5, batch_size=8, validation_data=line(9), save=folder, progress=interrupting(8))
    assert (first.stop_reason, readable(folder)) == ("interrupted", 1)
    rest = fit(epochs=5, batch_size=8, validation_data=line(9), save=folder)
    assert bits(rest) == bits(whole)
    assert rest.history.losses == whole.history.losses
    assert rest.history["validation_loss"] == whole.history["validation_loss"]
    assert (folder / "history.csv").read_text() == rest.history.csv()
    again = fit(epochs=5, batch_size=8, validation_data=line(9), save=folder)  # all is done
    assert (bits(again), again.steps, again.stop_reason) == (bits(whole), 30, "finished")
    further = fit(epochs=6, batch_size=8, validation_data=line(9), save=folder, resume=True)
    assert (len(further.history), further.steps) == (6, 36)


def test_random_numbers_of_layers_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a dropout is state, so a resumed run drops what it would have dropped."""
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    monkeypatch.setattr("pullback.nn.training.loop.stack_size", lambda seconds, steps: 1)
    net = nn.sequential(nn.dense(4), nn.dropout(0.5), nn.batch_norm(), nn.dense(1))
    x = np.random.default_rng(1).normal(size=(24, 3)).astype(np.float32)
    own = {"optimizer": nn.adam(0.01), "epochs": 3, "batch_size": 8}
    train = lambda **more: nn.fit(net, nn.mse_loss, (x, x[:, :1]), **own, **more)
    whole = train(progress=False)
    first = train(save=str(tmp_path), progress=interrupting(4))
    assert first.stop_reason == "interrupted"
    rest = train(save=str(tmp_path), progress=False)
    for ours, theirs in ((rest.parameters, whole.parameters), (rest.state, whole.state)):
        one, two = named(ours), named(theirs)
        assert one and all(one[n].tobytes() == two[n].tobytes() for n in two)
    assert any(n.endswith("key") for n in named(rest.state))


def test_iterables_go_on_where_they_were(tmp_path: Path) -> None:
    x, y = line(48)
    batches = [(x[k : k + 8], y[k : k + 8]) for k in range(0, 48, 8)]
    whole = fit(batches, epochs=3)
    assert fit(batches, epochs=3, save=tmp_path, progress=interrupting(8)).stop_reason == "interrupted"
    assert bits(fit(batches, epochs=3, save=tmp_path)) == bits(whole)


def test_the_last_ones_are_kept_and_hold_everything(tmp_path: Path) -> None:
    run = fit(epochs=4, batch_size=50, save=nn.Checkpoints(str(tmp_path / "a" / "b"), every_steps=1, max_to_keep=3))
    files = sorted((tmp_path / "a" / "b").glob("step-*"))
    assert [path.name for path in files] == [f"step-{k:012}.safetensors" for k in (2, 3, 4)]
    arrays, words = read(files[-1])
    assert sorted(arrays) == ["optimizer/count", "parameters/a", "parameters/b", "state/seen"]
    about = json.loads(words["training"])
    assert (about["position"]["step"], about["position"]["epoch"], about["position"]["batch"]) == (4, 4, 0)
    assert about["shared"]["seed"] == 0
    loaded = nn.load_parameters(tmp_path / "a" / "b")
    assert {n: float(x) for n, x in loaded.items()} == {n: float(x) for n, x in run.parameters.items()}


def test_time_is_a_reason_to_save(tmp_path: Path) -> None:
    fit(epochs=3, batch_size=50, save=nn.Checkpoints(str(tmp_path), every_seconds=0.0, max_to_keep=9))
    assert readable(tmp_path) == 3


def complete(call: Callable[[], Any], kind: type[PullbackError]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def test_a_checkpoint_of_an_earlier_version_still_gives_its_parameters(tmp_path: Path) -> None:
    """Format 1 had columns `rate` and `speed`, and the setting `remainder`."""
    run = fit(epochs=1, batch_size=8, save=tmp_path)
    (path,) = tmp_path.glob("step-*.safetensors")
    arrays, words = read(path)
    put(path, arrays, {"training": json.dumps({**json.loads(words["training"]), "format": 1})})
    assert complete(lambda: fit(epochs=2, batch_size=8, save=tmp_path), DataError).splitlines() == [
        f"DataError [E509] {path}: a checkpoint of another version",
        "   | format 1, this version reads 2",
        "  try: another folder for `save`, and `parameters=nn.load_parameters(…)` to begin with its parameters      "
        "See `pullback explain-error E509`",
    ]
    kept = nn.load_parameters(tmp_path, run.parameters)
    assert {n: x.tobytes() for n, x in kept.items()} == {n: x.tobytes() for n, x in run.parameters.items()}


def test_other_runs_are_refused(tmp_path: Path) -> None:
    fit(epochs=1, batch_size=8, save=tmp_path)
    call = lambda: fit(epochs=1, batch_size=9, seed=3, save=tmp_path, optimizer=Descent(0.2))
    assert complete(call, DataError).replace(str(tmp_path), "run") == (
        "DataError [E515] run holds the checkpoints of another run\n"
        "   | optimizer: Descent(0.1) in the checkpoint, Descent(0.2) now      "
        "batches in an epoch: 6 in the checkpoint, 5 now      "
        "samples in a batch: 8 in the checkpoint, 9 now      seed: 0 in the checkpoint, 3 now\n"
        "  try: a folder of its own for each run, the settings of that run, or "
        '`resume="anyway"` (--resume-anyway)      '
        "See `pullback explain-error E515`"
    )
    wide = {"a": np.zeros((), np.float32), "b": np.zeros(1)}
    own = {"epochs": 1, "batch_size": 8, "save": tmp_path, "parameters": wide}
    assert complete(lambda: fit(**own), DataError).splitlines()[1:3] == [
        "   | parameters/a : float64 in the file, float32 in the network      "
        "parameters/b : () in the file, (1,) in the network",
        "  try: a folder of its own for each      See `pullback explain-error E510`",
    ]


def test_resuming_may_be_demanded_or_forbidden(tmp_path: Path) -> None:
    assert "holds no checkpoint" in complete(lambda: fit(epochs=1, save=tmp_path, resume=True), UsageError)
    fit(epochs=1, save=tmp_path, resume=False)
    assert "holds checkpoints" in complete(lambda: fit(epochs=1, save=tmp_path, resume=False), UsageError)


def test_foreign_and_damaged_files(tmp_path: Path) -> None:
    fit(epochs=1, save=tmp_path)
    (path,) = tmp_path.glob("step-*")
    content = path.read_bytes()
    for damaged in (content[:-1], content[: len(content) // 2], b"", b"\xff" * 64):
        path.write_bytes(damaged)
        assert "not a safetensors file, or damaged" in complete(lambda: fit(epochs=1, save=tmp_path), DataError)
    nn.save_parameters(path, start()["parameters"])
    assert "parameters alone, without a position" in complete(lambda: fit(epochs=1, save=tmp_path), DataError)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "E511" in complete(lambda: fit(epochs=1, save=tmp_path / "file"), DataError)
    assert "E511" in complete(lambda: fit(epochs=1, save=tmp_path / "file" / "below"), DataError)


def test_nothing_is_saved_of_a_run_that_went_wrong(tmp_path: Path) -> None:
    often = nn.Checkpoints(str(tmp_path), every_steps=1)
    call = lambda: fit(epochs=200, batch_size=8, optimizer=Descent(1e6), save=often)
    text = complete(call, DataError)
    (last,) = sorted(tmp_path.glob("step-*"))[-1:]
    assert f"the last checkpoint: {last}" in text
    assert all(np.isfinite(x).all() for x in read(last)[0].values())
