"""The C project of a network: its program gives the numbers of Python, allocates nothing, and says what is wrong."""

import dataclasses
import functools
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

import pullback as pb
from pullback import nn
from pullback.errors import PullbackError
from pullback.nn.layer import Layer
from tests.strict import QUIET
from tests.unit.nn.layer_cases import CASES
from tests.unit.nn.torch_peers.cases import LAYERS, MODELS

pytestmark = pytest.mark.slow

NET = nn.sequential(nn.dense(8), nn.relu, nn.dense(3)).named("small").on("N 4")
CHECKED = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-g", "-O1", *QUIET, "-fsanitize=address,undefined"]
NIGHTLY = bool(os.environ.get("PULLBACK_NIGHTLY"))
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
@pytest.mark.parametrize("plain", [False, True])
def test_c24_a_program_trains_measures_and_recognizes(plain: bool, tmp_path: Path) -> None:
    parameters, _ = NET.init(seed=0)
    random = np.random.default_rng(0)
    x = random.normal(size=(12, 4)).astype(np.float32)
    labels = np.argmax(x[:, :3], axis=1)
    NET.export(tmp_path, parameters, what="both", batch_size=5, loss=loss, optimizer=Momentum(), plain=plain)
    assert any("PB_VECTORS" in file.read_text() for file in tmp_path.glob("small_*.c")) != plain
    built(tmp_path, *CHECKED, *["-pedantic"] * plain)
    x.tofile(tmp_path / "x")
    labels.astype(np.int64).tofile(tmp_path / "labels")

    optimizer = Momentum()
    step = pb.function(lambda p, x, t: pb.value_and_grad(nn.objective(NET, loss), wrt="parameters", has_aux=True)(
        p, {}, (x, t)
    ))  # fmt: skip
    p, state, wanted = parameters, optimizer.init(parameters), []
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
@pytest.mark.parametrize("dtypes", [("f2", "f2"), ("bfloat16", "bfloat16"), ("f4", "f8"), ("f2", "f4"), (">f4", "f4")])
def test_parameters_of_any_type(tmp_path: Path, dtypes: tuple[str, str]) -> None:
    """The functions take arrays of one type, and so the file holds them."""
    of = {n: np.dtype(ml_dtypes.bfloat16 if n == "bfloat16" else n) for n in dtypes}
    given = NET.init(seed=0)[0]
    for k, name in enumerate(dtypes, 1):
        given[f"dense{k}"]["w"] = given[f"dense{k}"]["w"].astype(of[name])
    NET.export(tmp_path, given)
    built(tmp_path, "-std=c99", "-O1", "-Werror", *QUIET)
    x = np.linspace(-1, 1, 48).reshape(12, 4)
    wide = np.float64 if "f8" in dtypes else np.float32
    x.astype(wide).tofile(tmp_path / "x")
    rows = [list(map(float, line.split())) for line in run(tmp_path, "infer", "x").splitlines()]
    hidden = np.maximum(x @ given["dense1"]["w"].astype(float).T + given["dense1"]["b"], 0)
    wanted = hidden @ given["dense2"]["w"].astype(float).T + given["dense2"]["b"]
    np.testing.assert_allclose(rows, wanted, rtol=1e-5, atol=1e-6)
    assert load_file(tmp_path / "small.safetensors")["parameters/dense1/w"].dtype == wide


X = np.linspace(-1, 1, 48, dtype=np.float32).reshape(12, 4)
LABELS = np.arange(12) % 3
USAGE = (
    "small infer INPUTS                  the result for every sample, one a line\n"
    "small test INPUTS TARGETS           how many are right\n"
    "small train INPUTS TARGETS EPOCHS   updates for 5 samples each, in their order\n"
)


def with_one(a: np.ndarray[Any, Any], at: tuple[int, ...], value: float) -> bytes:
    changed = a.copy()
    changed[at] = value
    return changed.tobytes()


DIRECTORY = None
BAD_INPUTS: list[tuple[bytes | None, str]] = [
    (X.tobytes()[:-1], "x: 11 samples of 16 bytes and 15 bytes more"),
    (X.tobytes() + b"x", "x: 12 samples of 16 bytes and 1 bytes more"),
    (X[:1].tobytes()[:3], "x: 0 samples of 16 bytes and 3 bytes more"),
    (b"", "x: 0 samples of 16 bytes and 0 bytes more"),
    (b"0.25 -1.5 2e3 7\n" * 12, "x: text, where the bytes of numbers are wanted"),
    (b"1,2,3,4", "x: text, where the bytes of numbers are wanted"),
    (with_one(X, (7, 2), np.nan), "x: sample 7: element 2 is not finite"),
    (with_one(X, (0, 3), -np.inf), "x: sample 0: element 3 is not finite"),
    (DIRECTORY, "x: Is a directory"),
]
BAD_TARGETS: list[tuple[bytes | None, str]] = [
    (LABELS[:7].tobytes(), "x: 12 inputs, t: 7 targets"),
    (np.resize(LABELS, 13).tobytes(), "x: 12 inputs, t: 13 targets"),
    (LABELS.tobytes() + b"abc", "t: 12 samples of 8 bytes and 3 bytes more"),
    (LABELS.astype(np.int32).tobytes(), f"t: sample 0: the label is {1 << 32}, and there are 3 classes"),
    (with_one(LABELS, (11,), 3), "t: sample 11: the label is 3, and there are 3 classes"),
    (with_one(LABELS, (4,), -1), "t: sample 4: the label is -1, and there are 3 classes"),
    (b"", "t: 0 samples of 8 bytes and 0 bytes more"),
    (b"0 1 2 0\n", "t: text, where the bytes of numbers are wanted"),
    (DIRECTORY, "t: Is a directory"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with all commands, whose memory is watched."""
    folder = tmp_path_factory.mktemp("program")
    NET.export(folder, NET.init(seed=0)[0], what="both", batch_size=5, loss=nn.cross_entropy, optimizer=nn.sgd(0.1))
    built(folder, *CHECKED)
    return folder


def written(path: Path, content: bytes | None) -> None:
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)


def refused(program: Path, folder: Path, *arguments: str, stdout: Any = subprocess.PIPE) -> str:
    """The message of a program that ends with an error, prints no result and leaves its weights as they are."""
    weights = folder / "small.safetensors"
    if not weights.exists():
        shutil.copy(program / "small.safetensors", weights)
    before = weights.read_bytes() if weights.is_file() else None
    names = {path.name for path in folder.iterdir()}
    command = [program / "program", *arguments]
    done = subprocess.run(command, cwd=folder, stdout=stdout, stderr=subprocess.PIPE, text=True)
    assert done.returncode in (1, 2) and not done.stdout
    assert (weights.read_bytes() if weights.is_file() else None) == before
    assert {path.name for path in folder.iterdir()} == names
    return done.stderr


@needs_compiler
@pytest.mark.parametrize(("content", "message"), BAD_INPUTS)
def test_bad_inputs_are_refused(program: Path, tmp_path: Path, content: bytes | None, message: str) -> None:
    written(tmp_path / "x", content)
    written(tmp_path / "t", LABELS.tobytes())
    for command in (["infer", "x"], ["test", "x", "t"], ["train", "x", "t", "2"]):
        assert refused(program, tmp_path, *command) == f"{message}\n"


@needs_compiler
@pytest.mark.parametrize(("content", "message"), BAD_TARGETS)
def test_bad_targets_are_refused(program: Path, tmp_path: Path, content: bytes | None, message: str) -> None:
    written(tmp_path / "x", X.tobytes())
    written(tmp_path / "t", content)
    for command in (["test", "x", "t"], ["train", "x", "t", "2"]):
        assert refused(program, tmp_path, *command) == f"{message}\n"


@needs_compiler
def test_bad_arguments_are_refused(program: Path, tmp_path: Path) -> None:
    X.tofile(tmp_path / "x")
    LABELS.tofile(tmp_path / "t")
    X[:4].tofile(tmp_path / "x4")
    LABELS[:4].tofile(tmp_path / "t4")
    for count in ("0", "-1", "two", "2x", ""):
        assert refused(program, tmp_path, "train", "x", "t", count) == (
            f"{count}: a number of epochs is wanted, from 1 up\n"
        )
    assert refused(program, tmp_path, "train", "x4", "t4", "1") == "x4: 4 samples, less than a batch of 5\n"
    assert refused(program, tmp_path, "infer", "none") == "none: No such file or directory\n"
    for arguments in ((), ("infer",), ("learn", "x"), ("train", "x", "t")):
        assert refused(program, tmp_path, *arguments) == USAGE


@needs_compiler
def test_bad_weights_are_refused(program: Path, tmp_path: Path) -> None:
    X.tofile(tmp_path / "x")
    LABELS.tofile(tmp_path / "t")
    content = (program / "small.safetensors").read_bytes()
    weights = tmp_path / "small.safetensors"
    damaged = f"small.safetensors: not the {len(content)} bytes of weights of this network, or damaged\n"
    nan = content[:-20] + np.float32(np.nan).tobytes() + content[-16:]
    cases = [(content[:-1], damaged), (content + b"x", damaged), (content.replace(b"dense1", b"dense7"), damaged),
             (b"", damaged), (content[:40], damaged), (nan, "small.safetensors: a weight is not finite\n")]  # fmt: skip
    for found, message in cases:
        weights.write_bytes(found)
        for command in (["infer", "x"], ["train", "x", "t", "1"]):
            assert refused(program, tmp_path, *command) == message
    weights.unlink()
    weights.mkdir()
    assert refused(program, tmp_path, "infer", "x") == damaged


@needs_compiler
def test_output_that_cannot_be_written(program: Path, tmp_path: Path) -> None:
    X.tofile(tmp_path / "x")
    LABELS.tofile(tmp_path / "t")
    (tmp_path / "small.safetensors.new").mkdir()  # in the way of the new weights
    assert refused(program, tmp_path, "train", "x", "t", "1") == "small.safetensors.new: Is a directory\n"
    if Path("/dev/full").exists():
        with open("/dev/full", "w") as full:
            assert refused(program, tmp_path, "infer", "x", stdout=full) == (
                "standard output: No space left on device\n"
            )


@needs_compiler
def test_training_that_diverges_writes_nothing(program: Path, tmp_path: Path) -> None:
    (X * np.float32(3e38)).tofile(tmp_path / "x")
    LABELS.tofile(tmp_path / "t")
    said = refused(program, tmp_path, "train", "x", "t", "3")
    assert "not finite" in said


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
        ({"what": "train"}, "E166 export: a program that trains needs a loss and an optimizer"),
        (
            {"what": "both", "loss": loss, "optimizer": Momentum(), "weights": "const"},
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
        nn.sequential(nn.dense(2)).export(tmp_path, {})
    assert caught.value.what == "export: the sizes of the input of sequential(dense(2)) are open: N M"


# Every layer ---------------------------------------------------------------------------------------------------------

NETWORKS: dict[str, Callable[[], Layer]] = {
    **{name: lambda case=case: case.ours.on(" ".join(map(str, case.shape))) for name, case in CASES.items()},  # type: ignore[misc]
    **{name: case.network for name, case in LAYERS.items()},
    **({name: case.network for name, case in MODELS.items()} if NIGHTLY else {}),
}


def with_two_results(net: Layer) -> Layer:
    def forward(scope: Any, x: Any) -> Any:
        y = scope.call(net, x)
        first = y[0] if isinstance(y, tuple) else y
        return first, -first

    return dataclasses.replace(nn.layer(net.takes or "N")(forward)(), integers=net.integers)


@needs_compiler
def test_every_layer_compiles_in_all_forms(tmp_path: Path) -> None:
    """With weights in a file or in the C, of one result and of two; by turns, and each in all of them at night."""
    forms = [(weights, results) for weights in ("file", "const") for results in (1, 2)]
    turns = itertools.cycle(forms)
    count = itertools.count()
    for make in NETWORKS.values():
        for weights, results in forms if NIGHTLY else [next(turns)]:
            net = make() if results == 1 else with_two_results(make())
            number = next(count)
            made = net.named(f"net{number}")
            made.export(tmp_path, *made.init(0), weights=weights)  # type: ignore[arg-type]
            (tmp_path / "main.c").rename(tmp_path / f"main{number}.c")
    assert COMPILER is not None
    sources = sorted(path.name for path in tmp_path.glob("*.c"))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", *QUIET, "-DPB_NO_VECTORS", "-fsyntax-only"]
    done = subprocess.run([COMPILER, *flags, *sources], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


@needs_compiler
@pytest.mark.parametrize("weights", ["file", "const"])
def test_a_network_with_two_results(weights: Any, tmp_path: Path) -> None:
    """All results stand in a line, one behind the other; the first one is compared with the targets."""
    two = dataclasses.replace(nn.layer("N 4")(lambda scope, x: (scope.call(NET, x), pb.sum(x, axis=1)))(), name="two")
    parameters, _ = two.init(seed=0)
    two.export(tmp_path, parameters, weights=weights)
    built(tmp_path, *CHECKED)
    X.tofile(tmp_path / "x")
    scores, sums = two(parameters, X)
    np.argmax(scores, axis=1).tofile(tmp_path / "t")
    rows = np.array([line.split() for line in run(tmp_path, "infer", "x").splitlines()], float)
    np.testing.assert_allclose(rows, np.column_stack([scores, sums]), rtol=1e-5, atol=1e-6)
    assert run(tmp_path, "test", "x", "t") == "12 of 12 right\n"


@needs_compiler
def test_labels_of_sequences_are_compared_row_by_row(tmp_path: Path) -> None:
    net = nn.sequential(nn.embedding(7, 5), nn.dense(4)).named("letters").on("N 6")
    parameters, _ = net.init(seed=0)
    x = np.random.default_rng(0).integers(0, 7, (9, 6))
    labels = np.argmax(net(parameters, x), axis=-1)
    labels[2, 3] = (labels[2, 3] + 1) % 4
    weighted = functools.partial(nn.cross_entropy, weight=np.array([1.0, 2.0, 0.5, 1.0], np.float32))
    net.export(tmp_path, parameters, what="both", loss=weighted, optimizer=nn.sgd(0.1), batch_size=3, target=labels[:3])
    built(tmp_path, *CHECKED)
    x.tofile(tmp_path / "x")
    labels.tofile(tmp_path / "t")
    assert run(tmp_path, "test", "x", "t") == "53 of 54 right\n"
    wanted, _ = pb.function(nn.objective(net, weighted))(parameters, {}, (x[:3], labels[:3]))
    for path in ("x", "t"):
        (tmp_path / path).write_bytes((tmp_path / path).read_bytes()[: 3 * 6 * 8])
    assert float(run(tmp_path, "train", "x", "t", "1").split()[-1]) == pytest.approx(float(wanted), rel=1e-4)
