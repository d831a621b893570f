"""Networks that begin with the weights of torchvision's and timm's models, and with given arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import pullback as pb
from pullback import nn
from pullback.errors import PullbackError
from pullback.nn import models
from pullback.nn.models import pretrained
from pullback.nn.parameters import named
from tests.unit.nn.torch_peers.pretrained import OURS, SCORED, filled, image, model, scores, stored

STORED = stored()


def message(f: Any) -> str:
    with pytest.raises(PullbackError) as caught:
        f()
    error = caught.value
    return f"{error.code} {error.what} | {'; '.join(error.facts)} | {error.remedy}"


@pytest.mark.parametrize("theirs", OURS)
def test_names_and_shapes_are_those_of_the_architecture(theirs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array of the file has a place of its shape, and every place an array."""
    ignored = ("aux1.", "aux2.")
    arrays = {n: np.broadcast_to(np.float32(0), s) for n, s in STORED[theirs].items() if not n.startswith(ignored)}
    monkeypatch.setattr(pretrained, "_read", lambda path, ignore: arrays)
    net = getattr(models, OURS[theirs])(pretrained="file").on("N 3 224 224")
    wanted = [w for what in ("parameters", "state") for _, w in net.type.wanted(what) if w.dtype is None]
    shapes = [tuple(e.constant for e in w.extents) for w in wanted]
    assert sum(int(np.prod(s)) for s in shapes) == sum(a.size for a in arrays.values())
    assert len(shapes) == len(arrays)
    gone = sorted(arrays)[len(arrays) // 2]
    monkeypatch.setattr(pretrained, "_read", lambda path, ignore: {n: a for n, a in arrays.items() if n != gone})
    assert f"{gone} : " in message(lambda: getattr(models, OURS[theirs])(pretrained="file"))


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file as torchvision's resnet18 makes it."""
    path = tmp_path_factory.mktemp("weights") / "resnet18.safetensors"
    save_file({n: filled(n, tuple(s)).astype(np.float32) for n, s in STORED[SCORED].items()}, path)
    return path


@pytest.mark.slow
def test_scores_of_stored_weights(resnet: Path) -> None:
    """Torchvision's numbers for the same weights."""
    net = models.resnet18(pretrained=resnet).on("N 3 32 32")
    parameters, state = net.init(dtype=np.float64)
    found = pb.function(lambda p, x, s: net(p, x, s)).interpret(parameters, image(32), state)
    np.testing.assert_allclose(found[0, ::100], STORED["scores"], rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_another_number_of_classes_begins_a_new_last_layer(resnet: Path) -> None:
    parameters, state = models.resnet18(7, pretrained=resnet).on("N 3 32 32").init(seed=3)
    fresh, _ = models.resnet18(7).on("N 3 32 32").init(seed=3)
    assert np.array_equal(parameters["dense1"]["w"], fresh["dense1"]["w"])
    assert np.array_equal(parameters["conv1"]["w"], filled("conv1.weight", (64, 3, 7, 7)).astype(np.float32))
    assert np.array_equal(state["batch_norm1"]["mean"], filled("bn1.running_mean", (64,)).astype(np.float32))
    assert [list(named(fresh))] == [list(named(parameters))]


@pytest.mark.slow
def test_what_is_no_file_of_this_network(resnet: Path, tmp_path: Path) -> None:
    assert message(lambda: models.resnet34(pretrained=resnet)) == (
        f"E510 {resnet}: not the weights of this network | layer1.2.conv1.weight : (64, 64, 3, 3) is missing; "
        "layer1.2.bn1.weight : (64) is missing; layer1.2.bn1.bias : (64) is missing; layer1.2.conv2.weight : "
        "(64, 64, 3, 3) is missing; layer1.2.bn2.weight : (64) is missing; layer1.2.bn2.bias : (64) is missing; "
        "layer2.2.conv1.weight : (128, 128, 3, 3) is missing; layer2.2.bn1.weight : (128) is missing; and 72 more | "
        "a file of this architecture, with the names of torchvision or timm"
    )
    narrow = message(lambda: models.resnet18(width_mult=0.5, pretrained=resnet))
    assert "conv1.weight : (64, 3, 7, 7) in the file, (32, …, 7, 7) in the network" in narrow
    gray = models.resnet18(pretrained=resnet).on("N 1 32 32")
    assert message(gray.init).startswith("E161 conv1/w begins as an array of [64, 3, 7, 7], and is [64, 1, 7, 7]")
    told = f"E501 {tmp_path / 'none'}: No such file or directory |  | a safetensors file"
    assert message(lambda: models.resnet18(pretrained=tmp_path / "none")) == told


@pytest.mark.parametrize("content", [b"PK\x03\x04rest of it", b"\x80\x02rest of it"])
def test_pickles_are_refused_with_their_conversion(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "resnet.pth"
    path.write_bytes(content)
    assert message(lambda: models.resnet18(pretrained=path)) == (
        f"E509 {path}: a file of `torch.save`, which is not read: it may hold any program |  | in Python with PyTorch: "
        '`import torch; from safetensors.torch import save_file` and `save_file(torch.load("resnet.pth", '
        'weights_only=True), "resnet.safetensors")`'
    )


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    arrays = {n: np.zeros(s, np.float16) for n, s in STORED[SCORED].items()}
    arrays["fc.bias"][3] = np.nan
    save_file(arrays, tmp_path / "nan.safetensors")
    path = tmp_path / "nan.safetensors"
    told = f"E509 {path}: fc.bias holds values that are not finite |  | another file"
    assert message(lambda: models.resnet18(pretrained=path)) == told


def test_arrays_without_elements_or_axes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {n: np.broadcast_to(np.float32(0), s) for n, s in STORED["vgg11"].items()}
    odd = {"classifier.0.weight": np.zeros((0, 512, 7, 7), np.float32), "features.0.bias": np.float32(1).reshape(())}
    monkeypatch.setattr(pretrained, "_read", lambda path, ignore: arrays | odd)
    found = message(lambda: models.vgg11(pretrained=tmp_path))
    assert "features.0.bias : () in the file, (64) in the network" in found
    assert "classifier.0.weight : (0, 25088) in the file, (4096, …) in the network" in found


# Their programs beside ours ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("theirs", OURS)
def test_scores_equal_torchvision_and_timm(theirs: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("timm" if theirs.startswith("timm") else "torchvision")
    from safetensors.torch import save_file as save

    made = model(theirs)
    save({n: t.contiguous() for n, t in made.state_dict().items()}, tmp_path / "theirs.safetensors")
    size = 224 if any(kind in theirs for kind in ("vgg", "alexnet")) else 64
    net = getattr(models, OURS[theirs])(pretrained=tmp_path / "theirs.safetensors").on(f"N 3 {size} {size}")
    for dtype, near in ((np.float32, 1e-5), (np.float64, 1e-10)):
        x = image(size, dtype)
        parameters, state = net.init(dtype=dtype)
        wanted = scores(made, x)
        assert np.abs(net(parameters, x, state) - wanted).max() <= near * np.abs(wanted).max()


# Given arrays -----------------------------------------------------------------------------------------------------


def test_a_network_with_given_arrays_is_a_part_of_others() -> None:
    part = nn.sequential(nn.dense(3), nn.batch_norm(), nn.relu)
    given = {"dense1": {"w": np.full((3, 2), 7.0)}}, {"batch_norm1": {"mean": np.array([1.0, 2.0, 3.0])}}
    net = nn.sequential(part.starting_from(*given), nn.dense(2)).on("N 2")
    parameters, state = net.init(seed=0)
    assert (parameters["network1"]["dense1"]["w"] == 7).all()
    assert not parameters["network1"]["dense1"]["b"].any()
    assert state["network1"]["batch_norm1"]["mean"].tolist() == [1, 2, 3]
    over = net.starting_from({"network1": {"dense1": {"w": np.full((3, 2), 5.0)}}})
    assert (over.init()[0]["network1"]["dense1"]["w"] == 5).all()
    assert over.init()[1]["network1"]["batch_norm1"]["mean"].tolist() == [1, 2, 3]


def test_given_arrays_are_copied_and_trained() -> None:
    w = np.ones((2, 2), np.float32)
    net = nn.dense(2).on("N 2").starting_from({"w": w})
    net.init()[0]["w"][...] = 9
    assert (w == 1).all()
    data = np.eye(2, dtype=np.float32), np.array([0, 1])
    run = nn.fit(net, nn.cross_entropy, data, optimizer=nn.sgd(0.0), epochs=1, progress=False)
    assert (run.parameters["w"] == 1).all()


def test_arrays_that_the_network_does_not_have() -> None:
    assert message(lambda: nn.dense(2).starting_from({"v": np.ones(2)})) == (
        "E163 starting_from: dense(2) has no v in its parameters | parameters: w, b | a tree as `net.init(seed=0)` "
        "gives it, or a part of one"
    )
    wrong = nn.dense(2).on("N 2").starting_from({"b": np.ones(3)})
    assert message(wrong.init).startswith("E161 b begins as an array of [3], and is [2] for this input")
