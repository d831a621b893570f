"""`pullback train`: results, files, errors, interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback.cli.main import main
from pullback.cli.train import _rate
from pullback.data import write_idx
from pullback.nn import load_parameters
from pullback.nn.models import recipe, zhang
from pullback.runtime.device import cuda
from pullback.tracing import tree
from tests.support.devices import fake

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small data set of bars: class k has its k-th pair of rows bright."""
    random = np.random.default_rng(0)
    path = tmp_path / "bars"
    path.mkdir()
    for name, count in (("train", 60), ("test", 30)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        images = random.integers(0, 60, (count, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[4 + 2 * label : 6 + 2 * label] = 250
        write_idx(path / f"{name}-images.gz", images)
        write_idx(path / f"{name}-labels", labels)
    return path


def run(*arguments: object) -> int:
    return main(["train", *map(str, arguments)])


def last_object(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", ["zhang", "lenet"])
def test_train_json(name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "run.csv"
    own = ("--epochs", 2, "--images", 50, "--batch-size", 5, "--history", table)
    assert run(name, "--data", folder, *own, "--json") == 0
    out, err = capsys.readouterr()
    result = last_object(out)
    assert list(result) == ["losses", "accuracy", "seconds"]
    assert len(result["losses"]) == 2
    assert all(np.isfinite(loss) for loss in result["losses"])
    assert 0 <= result["accuracy"] <= 1
    assert result["seconds"] > 0
    assert "epoch   2  loss" in err
    assert "accuracy" in out
    head = "epoch,step,loss,validation_loss,accuracy,learning_rate,samples_per_second,seconds"
    times = "training_seconds,validation_seconds,loading_seconds,compiling_seconds"
    assert table.read_text().startswith(f"{head},{times}\n1,10,")


def test_training_learns_and_the_seed_repeats_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for seed in (1, 1, 2):
        assert run("zhang", "--data", folder, "--epochs", 4, "--seed", seed, "--json") == 0
        results.append(last_object(capsys.readouterr().out)["losses"])
    assert results[0] == results[1] != results[2]
    assert results[0][-1] < results[0][0]


def test_optimizers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ("--optimizer", "momentum", "--learning-rate", 0.05, "--steps", 30)
    assert run("zhang", "--data", folder, *own) == 0
    assert "30 updates, sgd(0.05, momentum=0.9), batch size 1" in capsys.readouterr().err


@pytest.mark.parametrize(("batch", "rate"), [(8, 0.0125), (64, 0.1), (256, 0.1)])
def test_small_batches_get_a_smaller_rate(batch: int, rate: float) -> None:
    """Below the default batch size the rate is scaled down: 0.1 with eight images ended in NaN."""
    given = Namespace(batch_size=batch, learning_rate=None)
    assert _rate(given, recipe("lenet")) == rate
    assert _rate(Namespace(batch_size=batch, learning_rate=0.3), recipe("lenet")) == 0.3


def test_one_epoch_has_no_plural(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("zhang", "--data", folder, "--epochs", 1) == 0
    assert ", 1 epoch, sgd(0.5), batch size 1" in capsys.readouterr().err
    assert run("zhang", "--data", folder, "--steps", 1) == 0
    assert ", 1 update, sgd(0.5), batch size 1" in capsys.readouterr().err


def test_save_then_resume_goes_on(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--data", folder, "--learning-rate", 0.1, "--json")
    assert run("zhang", *common, "--epochs", 3) == 0
    straight = last_object(capsys.readouterr().out)
    assert run("zhang", *common, "--epochs", 1, "--save", tmp_path / "run") == 0
    assert run("zhang", *common, "--epochs", 3, "--save", tmp_path / "run", "--resume") == 0
    whole = last_object(capsys.readouterr().out)
    assert (whole["losses"], whole["accuracy"]) == (straight["losses"], straight["accuracy"])
    assert run("zhang", *common, "--epochs", 3, "--save", tmp_path / "run") == 1
    assert "UsageError [E518]" in capsys.readouterr().err


def test_no_epochs_measures_what_was_loaded(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("zhang", "--data", folder, "--epochs", 3, "--save", tmp_path / "run", "--json") == 0
    trained = last_object(capsys.readouterr().out)
    assert run("zhang", "--data", folder, "--epochs", 0, "--load", tmp_path / "run", "--json") == 0
    loaded = last_object(capsys.readouterr().out)
    assert (loaded["losses"], loaded["accuracy"]) == ([], trained["accuracy"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--data", "nowhere"), "DataError [E505]"),
        (("--images", "61"), "DataError [E508]"),
        (("--save", "bars/train-labels/run"), "DataError [E511]"),
        (("--save", "n" * 256), "DataError [E511]"),
        (("--history", "missing/p.csv"), "DataError [E511]"),
        (("--load", "missing"), "DataError [E501]"),
        (("--resume",), "UsageError [E601]"),
        (("--resume", "--save", "new"), "UsageError [E518]"),
        (("--epochs", "1", "--steps", "1"), "UsageError [E601]"),
    ],
)
def test_errors(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: Any, code: str
) -> None:
    monkeypatch.chdir(folder.parent)
    data = () if "--data" in arguments else ("--data", folder)
    assert run("zhang", *data, *arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert code in err


def test_parameters_of_another_network(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("zhang", "--data", folder, "--epochs", 0, "--save", tmp_path / "run") == 0
    assert run("lenet", "--data", folder, "--load", tmp_path / "run") == 1
    assert "DataError [E510]" in capsys.readouterr().err
    assert run("lenet", "--data", folder, "--save", tmp_path / "run", "--resume") == 1
    assert "optimizer: sgd(0.5) in the checkpoint, sgd(0.1) now" in capsys.readouterr().err


def test_images_of_another_size_and_labels_of_other_classes(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_idx(folder / "test-labels", np.full(30, 10, np.uint8))
    assert run("zhang", "--data", folder) == 1
    assert "E513] bars: the label of sample 0 is 10, and there are 10 classes" in capsys.readouterr().err
    for name in ("train", "test"):
        write_idx(tmp_path / f"{name}-images", np.zeros((4, 8, 8), np.uint8))
        write_idx(tmp_path / f"{name}-labels", np.zeros(4, np.uint8))
    assert run("zhang", "--data", tmp_path) == 1
    assert "E508] zhang takes images of 28 × 28" in capsys.readouterr().err


def test_interruption_saves(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "run"
    command = [sys.executable, "-m", "pullback.cli.main", "train", "zhang", "--data", str(folder)]
    command += ["--epochs", "1000000", "--save", str(saved), "--json"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stderr is not None
    for line in process.stderr:  # the first epoch is over: the loop is compiled and runs
        if line.startswith("epoch"):
            break
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"saved in {saved}: --resume goes on" in err
    assert out == ""
    trained = load_parameters(saved, zhang.start())
    assert not np.array_equal(trained.k1, zhang.start().k1)


@pytest.mark.parametrize(("network", "accuracy"), [("zhang", 0.95), ("lenet", 0.98)])
def test_digits_are_the_default(capsys: pytest.CaptureFixture[str], network: str, accuracy: float) -> None:
    """The shuffled, stratified split; LeNet trains some ten seconds."""
    pytest.importorskip("sklearn")
    assert run(network, "--json") == 0
    out, err = capsys.readouterr()
    assert "on 1,437 samples of digits" in err
    assert "on 360 test samples" in out
    assert last_object(out)["losses"][-1] < 0.3
    assert last_object(out)["accuracy"] >= accuracy


def test_networks_of_layers_fit_the_data(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Images get a channel, text its alphabet."""
    own = ("--batch-size", 10, "--epochs", 3, "--learning-rate", 0.05)
    assert run("lenet_tanh", "--data", folder, *own, "--json") == 0
    out, err = capsys.readouterr()
    assert "lenet_tanh (431,080 parameters, random start) on 60 samples of bars" in err
    losses = last_object(out)["losses"]
    assert losses[-1] < losses[0]
    text = tmp_path / "abc.txt"
    text.write_text("abcdefghij" * 140)
    assert run("character_lstm", "--data", text, "--steps", 0) == 0
    assert "on 19 samples of abc.txt, 0 updates, adam(0.002), batch size 19" in capsys.readouterr().err
    assert run("lenet_tanh", "--data", folder, "--init", "constant") == 1
    assert "UsageError [E601] lenet_tanh: --init constant" in capsys.readouterr().err


def test_averages_and_a_picture(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ("--data", folder, "--epochs", 2, "--images", 50, "--batch-size", 5, "--quiet", "--json")
    picture, saved = tmp_path / "run.svg", tmp_path / "saved"
    assert run("zhang", *own, "--average", 0.9, "--history", picture, "--save", saved) == 0
    averaged = last_object(capsys.readouterr().out)
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert run("zhang", *own) == 0
    plain = last_object(capsys.readouterr().out)
    assert averaged["losses"] == plain["losses"]  # training is the same; what is evaluated is not
    best, last = (load_parameters(p) for p in (saved / "best.safetensors", saved))
    assert any(not np.array_equal(best[n], last[n]) for n in best)
    assert run("zhang", *own[:-1], "--epochs", 0, "--average", 0.9) == 0
    assert run("zhang", *own, "--average", 1) == 1
    assert "1: a number from 0 to below 1 is needed" in capsys.readouterr().err


def test_tensorboard_that_is_not_installed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    assert run("zhang", "--data", folder, "--epochs", 1, "--quiet", "--tensorboard", tmp_path / "events") == 1
    assert "[E506] TensorBoardLogger: the package tensorboard is not installed" in capsys.readouterr().err


def test_two_devices(folder: Path, devices: fake.Driver, tmp_path: Path) -> None:
    devices.set(devices=2)
    cuda.gpus.cache_clear()
    options = ("zhang", "--data", folder, "--epochs", 1, "--batch-size", 10, "--quiet", "--save")
    assert run(*options, tmp_path / "one") == run(*options, tmp_path / "two", "--devices", "cuda:0,cuda:1") == 0
    assert devices.count("cuMemcpyPeerAsync") > 0
    expected, found = (tree.flatten(load_parameters(tmp_path / name, zhang.start()))[0] for name in ("one", "two"))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
