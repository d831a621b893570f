"""The memory that is told: `describe`, `fit`, the header of exported C, and the arena agree to the byte."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import CompilerError
from pullback.ir.settings import MODES, MemoryMode
from pullback.loops.memory.plan import Lifetimes
from pullback.loops.program.nodes import Comment
from pullback.memory.table import Build, MemoryTable
from pullback.nn import models
from pullback.nn.describe import Description
from pullback.nn.layer import Layer
from pullback.nn.training.step import Carry, Updates
from pullback.runtime.emit import lower_program, with_mode
from pullback.runtime.executor import compile_program
from tests.unit.nn.torch_peers.cases import MODELS, target, wave

pytestmark = pytest.mark.slow

NIGHTLY = bool(os.environ.get("PULLBACK_NIGHTLY"))
ZOO = list(MODELS) if NIGHTLY else ["autoencoder"]
LOSSES: dict[str, Any] = {
    "autoencoder": nn.mse_loss, "googlenet": models.with_auxiliary(nn.cross_entropy),
}  # fmt: skip
OPTIMIZER = nn.sgd(0.1, momentum=0.9)


def network(name: str) -> Layer:
    return MODELS[name].make().on(" ".join(["N", *map(str, MODELS[name].shape[1:])])).named(name)


def described(name: str) -> tuple[Description, dict[str, Any]]:
    """The description of a network, and what training and exporting it take."""
    case = MODELS[name]
    loss, targets = LOSSES.get(name, nn.cross_entropy), np.asarray(target(name, case))
    targets = targets.astype(np.float32) if targets.dtype.kind == "f" else targets
    found = network(name).describe(case.shape[0], loss=loss, optimizer=OPTIMIZER, target=targets)
    return found, {"loss": loss, "optimizer": OPTIMIZER, "target": targets}


def arena(f: pb.Function, mode: MemoryMode | None = None, build: Build = "call") -> int:
    table = f.memory(mode, build)  # planned without a compiler
    assert isinstance(table, MemoryTable)
    return table.arena_bytes


def header(path: Path) -> int:
    found = re.search(r"_ARENA_BYTES (\d+)", path.read_text())
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("name", ZOO)
def test_a_step_takes_what_its_description_tells(name: str) -> None:
    """The memory told by `describe` is what `fit` takes; a call touches all of it and nothing else."""
    found, given = described(name)
    case, net = MODELS[name], network(name)
    batch = case.input(np.float32), given["target"]
    for mode in MODES if NIGHTLY else ("least",):
        told = found.peaks["training"][mode]
        run = nn.fit(net, given["loss"], batch, optimizer=OPTIMIZER, steps=1, batch_size=case.shape[0], memory=mode,
                     progress=False)  # fmt: skip
        assert run.arena_bytes == {1: told}
        program = with_mode(found.training.program(), mode)
        executable = compile_program(program, {})
        carry = Updates(lambda *a: 0, OPTIMIZER, Carry(*net.init(0), OPTIMIZER.init(net.init(0)[0]))).arrays
        _, peak, stray = executable.run_poisoned([*carry, *batch, np.int64(0)])
        assert (executable.arena_bytes, peak, stray) == (told, executable.lowered.memory.peak, 0)


@pytest.mark.parametrize("name", ZOO)
def test_headers_and_limits_are_what_a_description_tells(name: str, tmp_path: Path) -> None:
    found, given = described(name)
    net, peaks = network(name), found.peaks["training"]
    for mode in MODES if NIGHTLY else ("least",):
        made = net.export(tmp_path, *net.init(0), what="both", batch_size=MODELS[name].shape[0], memory=mode, **given)
        assert header(tmp_path / f"{name}_train.h") == made["arena_bytes"][f"{name}_train"] == found.exported[mode]
        assert header(tmp_path / f"{name}_infer.h") == arena(net.describe(1).inference, mode, "export")
    update = found.training.python
    assert arena(pb.function(donate=("carry",), memory_limit=peaks["least"])(update)) == peaks["least"]
    if not NIGHTLY:
        return
    for mode in MODES:
        assert arena(pb.function(donate=("carry",), memory_limit=peaks[mode])(update)) <= peaks[mode]
    try:
        less = arena(pb.function(donate=("carry",), memory_limit=peaks["least"] - 1)(update))
    except CompilerError as error:
        assert error.code == "E260"
    else:
        assert less < peaks["least"]  # loops compute again what they would store


@pytest.mark.parametrize("updates", [1, 4])
def test_the_function_of_many_updates_is_described(updates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks make many updates in a call, which `fit` tells and `describe(updates=)` measures."""
    monkeypatch.setattr("pullback.nn.training.loop.stack_size", lambda seconds, steps: updates)
    net = nn.sequential(nn.dense(30), nn.relu, nn.dense(5)).on("N 40")
    x, labels = wave((4 * 16, 40), 1).astype(np.float32), np.arange(64) % 5
    told = net.describe(16, loss=nn.cross_entropy, optimizer=nn.adam(0.01), updates=updates)
    run = nn.fit(net, nn.cross_entropy, (x, labels), optimizer=nn.adam(0.01), epochs=1, batch_size=16, progress=False)
    assert run.arena_bytes == {updates: told.peaks["training"]["fastest"]}


def test_fit_prints_the_bytes_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    net = nn.sequential(nn.dense(5)).on("N 40")
    x, labels = wave((32, 40), 1).astype(np.float32), np.arange(32) % 5
    run = nn.fit(net, nn.cross_entropy, (x, labels), optimizer=nn.sgd(0.01), epochs=2, batch_size=16)
    (updates, told), = run.arena_bytes.items()
    lines = [line for line in capsys.readouterr().err.splitlines() if "working memory" in line]
    assert lines == [f"{told:,} bytes of working memory for {updates} updates in a call"]


LABELLED: dict[str, Any] = {
    "labels": nn.cross_entropy,
    "smoothing": partial(nn.cross_entropy, label_smoothing=0.1),
    "weights": partial(nn.cross_entropy, weight=np.linspace(0.5, 1.5, 10, dtype=np.float32)),
    "ignore": partial(nn.cross_entropy, ignore_index=3),
    "all": partial(
        nn.cross_entropy, label_smoothing=0.1, ignore_index=3, weight=np.linspace(0.5, 1.5, 10, dtype=np.float32)
    ),
    "sum": partial(nn.cross_entropy, reduction="sum"),
    "hinge": nn.hinge_loss,
}
ELEMENTWISE: dict[str, Any] = {
    "mse_loss": nn.mse_loss, "l1_loss": nn.l1_loss, "huber": nn.huber_loss, "hinge": nn.hinge_loss,
    "bce_with_logits": nn.bce_with_logits, "distributions": nn.cross_entropy,
    "kl_div": lambda y, t: nn.kl_div(nn.log_softmax(y), t),
}  # fmt: skip


@pytest.mark.parametrize("labels", [True, False])
def test_no_loss_stops_the_strips(labels: bool) -> None:
    """A step in strips takes a fraction of what it takes at once, with labels as data too."""
    net = nn.sequential(nn.dense(300), nn.relu, nn.dense(10)).on("N 20")
    target = np.zeros(3000, np.int64) if labels else np.zeros((3000, 10), np.float32)
    losses = LABELLED if labels else ELEMENTWISE
    for name in losses if NIGHTLY else ["all"] if labels else ["hinge"]:
        loss = losses[name]
        peaks = net.describe(3000, loss=loss, optimizer=nn.sgd(0.1), target=target).peaks["training"]
        assert peaks["least"] < 0.25 * peaks["fastest"], (name, peaks)


def test_what_a_description_assumes() -> None:
    net = nn.sequential(nn.dense(3)).on("N 4")
    loss = partial(nn.cross_entropy, label_smoothing=0.1)
    assert [
        net.describe(8).step,
        net.describe(8, loss=loss).step,
        net.describe(8, loss=nn.huber_loss, optimizer=nn.adam(0.1), updates=2).step,
        net.describe(8, loss=nn.cross_entropy, target=np.zeros(8, np.int32)).step,
    ] == [
        "an update with loss the sum of squares (assumed); optimizer sgd(0.01) (assumed)",
        "an update with loss cross_entropy; targets int64[8] (assumed); optimizer sgd(0.01) (assumed)",
        "2 updates in a call with loss huber_loss; targets float32[8, 3] (assumed); optimizer adam(0.1)",
        "an update with loss cross_entropy; targets int32[8]; optimizer sgd(0.01) (assumed)",
    ]


def test_comments_take_no_time_of_a_plan() -> None:
    """The plan of C with comments is that of C without: the one is told, the other runs."""
    program = network("lenet").describe(2, loss=nn.cross_entropy).training.program()
    lives = []
    for comments in (True, False):
        function = lower_program(program, {}, comments).function
        walk = Lifetimes()
        walk.body((Comment("x"), *function.body) if comments else function.body)
        lives.append(list(walk.lives.values()))
    assert lives[0] == lives[1]
