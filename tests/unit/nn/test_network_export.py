"""The C project of a network: its program gives the numbers of Python, allocates nothing, and says what is wrong."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import pullback as pb
from pullback import nn
from pullback.errors import PullbackError

NET = nn.chain(nn.dense(8), nn.relu, nn.dense(3)).named("small").on("N 4")
CHECKED = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-Wno-psabi", "-fsanitize=address,undefined"]
COMPILER = shutil.which("gcc") or shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


class Momentum:
    """Descent with a velocity, by hand."""

    def init(self, parameters: Any) -> Any:
        return {"velocity": pb.tree_map(np.zeros_like, parameters)}

    def update(self, gradients: Any, state: Any, parameters: Any, step: Any) -> Any:
        velocity = pb.tree_map(lambda v, g: 0.9 * v + g, state["velocity"], gradients)
        return pb.tree_map(lambda v: -0.1 * v, velocity), {"velocity": velocity}

    def apply(self, parameters: Any, updates: Any) -> Any:
        return pb.tree_map(lambda p, u: p + u, parameters, updates)


def loss(y: Any, target: Any) -> Any:
    likely = nn.log_softmax(y)
    return -pb.sum_over(y.shape, lambda n, k: pb.where(k == target[n], likely[n, k], 0)) / y.shape[0]


def built(folder: Path, *options: str) -> Path:
    assert COMPILER is not None
    sources = sorted(str(p) for p in folder.glob("*.c"))
    subprocess.run([COMPILER, *options, *sources, "-o", "program", "-lm"], cwd=folder, check=True)
    return folder / "program"


def run(folder: Path, *arguments: str) -> str:
    return subprocess.run(["./program", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@needs_compiler
def test_c24_a_program_trains_measures_and_recognises(tmp_path: Path) -> None:
    parameters, _ = NET.init(seed=0)
    random = np.random.default_rng(0)
    x = random.normal(size=(12, 4)).astype(np.float32)
    labels = np.argmax(x[:, :3], axis=1)
    NET.export(tmp_path, parameters, what="both", batch=5, loss=loss, optimiser=Momentum())
    built(tmp_path, *CHECKED)
    x.tofile(tmp_path / "x")
    labels.astype(np.int64).tofile(tmp_path / "labels")

    optimiser = Momentum()
    step = pb.function(lambda p, x, t: pb.value_and_grad(nn.objective(NET, loss), wrt="parameters", has_aux=True)(
        p, {}, (x, t)
    ))  # fmt: skip
    p, state, wanted = parameters, optimiser.init(parameters), []
    for _ in range(3):
        losses = []
        for k in (0, 5):
            (value, _), gradient = step(p, x[k : k + 5], labels[k : k + 5])
            state = pb.tree_map(lambda v, g: np.float32(0.9) * v + g, state["velocity"], gradient)
            p, state = pb.tree_map(lambda p, v: p - np.float32(0.1) * v, p, state), {"velocity": state}
            losses.append(value)
        wanted.append(np.mean(losses))
    lines = run(tmp_path, "train", "x", "labels", "3").splitlines()
    np.testing.assert_allclose([float(line.split()[-1]) for line in lines], wanted, rtol=1e-4)
    found = load_file(tmp_path / "small.safetensors")
    assert found["step"] == 6
    np.testing.assert_allclose(found["parameters/dense1/w"], p["dense1"]["w"], rtol=2e-5, atol=1e-6)

    rows = [list(map(float, line.split())) for line in run(tmp_path, "infer", "x").splitlines()]
    np.testing.assert_allclose(rows, NET(p, x), rtol=1e-4, atol=1e-5)
    right = int(np.sum(np.argmax(rows, axis=1) == labels))
    assert run(tmp_path, "test", "x", "labels") == f"{right} of 12 right\n"


@needs_compiler
def test_what_a_program_says_of_bad_files(tmp_path: Path) -> None:
    NET.export(tmp_path, NET.init(seed=0)[0])
    program = built(tmp_path, "-O0", "-Wno-psabi")

    def said(*arguments: str) -> str:
        done = subprocess.run([program, *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode
        return done.stderr

    (tmp_path / "x").write_bytes(bytes(17))
    assert said("infer", "x") == "x: the last sample is not whole\n"
    assert said("infer", "none") == "none: No such file or directory\n"
    assert said().splitlines() == [
        "small infer INPUTS                  the result for every sample, one a line",
        "small test INPUTS TARGETS           how many are right",
    ]
    content = (tmp_path / "small.safetensors").read_bytes()
    for damaged in (content[:-1], content + b"x", content.replace(b"dense1", b"dense7"), b""):
        (tmp_path / "small.safetensors").write_bytes(damaged)
        assert said("infer", "x") == "small.safetensors: not the weights of this network, or damaged\n"


@needs_compiler
def test_weights_in_the_c(tmp_path: Path) -> None:
    parameters, _ = NET.init(seed=0)
    made = NET.export(tmp_path, parameters, weights="const", target=np.zeros((1, 3), np.float32))
    assert [Path(f).name for f in made["files"]] == ["small_infer.h", "small_infer.c", "main.c", "CMakeLists.txt"]
    assert "static const float" in (tmp_path / "small_infer.c").read_text()
    built(tmp_path, *CHECKED)
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    x.tofile(tmp_path / "x")
    y = NET(parameters, x)
    y.tofile(tmp_path / "y")
    rows = [list(map(float, line.split())) for line in run(tmp_path, "infer", "x").splitlines()]
    np.testing.assert_allclose(rows, y, rtol=1e-5, atol=1e-6)
    assert float(run(tmp_path, "test", "x", "y").split()[-1]) < 1e-10


@pytest.mark.parametrize(
    ("keywords", "what"),
    [
        ({"what": "all"}, "E166 export: what='all': 'infer', 'train' or 'both'"),
        ({"weights": "text"}, "E166 export: weights='text': 'file' or 'const'"),
        ({"what": "train"}, "E166 export: a program that trains needs a loss and an optimiser"),
        (
            {"what": "both", "loss": loss, "optimiser": Momentum(), "weights": "const"},
            "E166 export: weights in the C cannot be trained",
        ),
    ],
)
def test_what_cannot_be_exported(tmp_path: Path, keywords: dict[str, Any], what: str) -> None:
    with pytest.raises(PullbackError) as caught:
        NET.export(tmp_path, {}, **keywords)
    assert f"{caught.value.code} {caught.value.what}" == what


def test_open_sizes_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(PullbackError) as caught:
        nn.chain(nn.dense(2)).export(tmp_path, {})
    assert caught.value.what == "export: the sizes of the input of chain(dense(2)) are open: N M"
