"""Šinkarovs, Bernecky and Scholz, Convolutional Neural Networks in APL (2019): the claims about Zhang's network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback.cli.main import main
from pullback.data import Dataset, load_folder
from pullback.nn import evaluate, fit, sgd
from pullback.nn.models import zhang, zhang_by_hand
from pullback.nn.models.zhang_batches import train_batches
from pullback.runtime.compile import compiler_command

# Mean loss over 1,000 MNIST images in each of ten epochs from the published constants, rate 0.05, computed
# independently in float32 with PyTorch. The images are the first of the training files these tests look for.
LOSSES = [0.46033, 0.45321, 0.45226, 0.45175, 0.45141, 0.45115, 0.45092, 0.45072, 0.45053, 0.45033]


@pytest.fixture(scope="module")
def mnist(mnist_folder: Path) -> tuple[Dataset, Dataset]:
    dataset = load_folder(mnist_folder)
    return dataset.train, dataset.test


def some_image(dtype: str = "float64") -> tuple[Any, Any]:
    return np.random.default_rng(2).random((28, 28)).astype(dtype), np.uint8(3)


def test_a20_shapes_of_the_layers() -> None:
    parameters = zhang.start("constant", dtype=np.float64)
    out = zhang.layers(parameters, some_image()[0])
    assert out.c1.shape == (6, 24, 24)
    assert out.s1.shape == (6, 12, 12)
    assert out.c2.shape == (12, 1, 8, 8)
    assert out.s2.shape == (12, 1, 4, 4)
    assert out.y.shape == (10, 1, 1, 1, 1)


def test_a20_the_shape_checker_prints_them() -> None:
    text = str(zhang.layers.type)
    result = text.split("->")[-1]
    for shape in ("[6, 24, 24]", "[6, 12, 12]", "[12, 1, 8, 8]", "[12, 1, 4, 4]", "[10, 1, 1, 1, 1]"):
        assert shape in result, text


@pytest.mark.slow
@pytest.mark.parametrize("start", ["constant", "uniform"])
def test_a21_the_derived_gradient_is_the_hand_written_one(start: Any) -> None:
    import pullback as pb

    derived = pb.value_and_grad(zhang.loss, wrt="parameters")
    for seed in range(3):
        parameters = zhang.start(start, seed=seed, dtype=np.float64)
        image = np.random.default_rng(seed).random((28, 28))
        label = np.uint8(seed * 4 % 10)
        value, gradient = derived(parameters, image, label)
        by_hand = zhang_by_hand.gradient(parameters, image, label)
        assert value == pytest.approx(float(by_hand.loss), abs=1e-12)
        for name in zhang.Parameters._fields:
            ours, theirs = getattr(gradient, name), getattr(by_hand.gradient, name)
            assert ours.shape == theirs.shape
            scale = max(1.0, float(np.abs(theirs).max()))
            assert np.abs(ours - theirs).max() <= 1e-12 * scale, name
            assert np.abs(theirs).max() > 0, name


def test_the_hand_written_gradient_agrees_with_finite_differences() -> None:
    parameters = zhang.start("uniform", seed=4, dtype=np.float64)
    image, label = some_image()
    gradient = zhang_by_hand.gradient(parameters, image, label).gradient
    random = np.random.default_rng(0)
    step = 1e-5
    for name, array in parameters._asdict().items():
        flat = array.reshape(-1)
        for n in random.choice(flat.size, min(flat.size, 4), replace=False):
            kept = flat[n]
            values = []
            for sign in (1, -1):
                flat[n] = kept + sign * step
                values.append(float(zhang.loss(parameters, image, label)))
            flat[n] = kept
            expected = (values[0] - values[1]) / (2 * step)
            assert getattr(gradient, name).reshape(-1)[n] == pytest.approx(expected, abs=1e-9), name


def trained(data: Dataset, start: Any, *, epochs: int, rate: float) -> Any:
    """The network after some epochs over the images in their order, changed after each of them."""
    begin = {"parameters": zhang.start(start), "optimizer": sgd(rate)}
    return fit(zhang.batch_loss, data, **begin, epochs=epochs, batch_size=1, shuffle=False, progress=False)


def test_a22_a23_losses_of_ten_epochs(mnist: tuple[Dataset, Dataset]) -> None:
    train = mnist[0].take(1000)
    losses = trained(train, "constant", epochs=10, rate=0.05).history.losses
    assert np.abs(np.array(losses) - LOSSES).max() <= 1e-4, losses


def test_a23_the_run_is_deterministic(mnist: tuple[Dataset, Dataset]) -> None:
    train = mnist[0].take(200)
    runs = [trained(train, "constant", epochs=1, rate=0.05).parameters for _ in range(2)]
    for one, two in zip(*runs, strict=True):
        assert np.array_equal(one, two)


def test_interpreter_and_c_agree_on_fifty_updates(mnist: tuple[Dataset, Dataset]) -> None:
    images = mnist[0].inputs[:50].astype(np.float64)
    labels = mnist[0].targets[:50]
    parameters = zhang.start("uniform", seed=1, dtype=np.float64)
    start = zhang.Training(parameters, np.zeros(()))
    rate = np.array(0.5)
    meaning = zhang.train.interpret(start, images, labels, rate)
    compiled = zhang.train(start, images, labels, rate)
    assert float(compiled.loss) == pytest.approx(float(meaning.loss), abs=1e-10)
    for name in zhang.Parameters._fields:
        one, two = getattr(meaning.parameters, name), getattr(compiled.parameters, name)
        assert np.abs(one - two).max() <= 1e-10, name


def test_batches_of_one_are_single_images(mnist: tuple[Dataset, Dataset]) -> None:
    images, labels = mnist[0].inputs[:40].astype(np.float64), mnist[0].targets[:40]
    rate = np.array(0.5)
    start = zhang.Training(zhang.start(seed=1, dtype=np.float64), np.zeros(()))
    single = zhang.train(start, images, labels, rate)
    batches = train_batches(start, images[:, None], labels[:, None], rate)
    for one, two in zip(single.parameters, batches.parameters, strict=True):
        assert np.abs(one - two).max() <= 1e-12
    assert float(single.loss) == pytest.approx(float(batches.loss), abs=1e-12)


def test_batches_step_by_the_mean_gradient(mnist: tuple[Dataset, Dataset]) -> None:
    import pullback as pb

    images, labels = mnist[0].inputs[:4].astype(np.float64), mnist[0].targets[:4]
    parameters = zhang.start(seed=1, dtype=np.float64)
    state = train_batches(zhang.Training(parameters, np.zeros(())), images[None], labels[None], np.array(1.0))
    derived = pb.grad(zhang.loss, wrt="parameters")
    gradients = [derived(parameters, image, label) for image, label in zip(images, labels, strict=True)]
    for name in zhang.Parameters._fields:
        mean = sum(getattr(g, name) for g in gradients) / 4
        expected = getattr(parameters, name) - mean
        assert np.abs(getattr(state.parameters, name) - expected).max() <= 1e-12, name


def test_a_trained_network_recognizes_digits(mnist: tuple[Dataset, Dataset]) -> None:
    train, test = mnist
    run = trained(train, "uniform", epochs=3, rate=0.5)
    losses = run.history.losses
    assert losses[0] > losses[1] > losses[2]
    measured = evaluate(zhang.batch_loss, test, parameters=run.parameters, metrics=(zhang.accuracy,), batch_size=1000)
    assert measured["accuracy"] > 0.95


@pytest.mark.slow
@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_a26_the_benchmark_prints_three_times_for_each_system(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figure 2: starting, training 1,000 images, recognizing 10,000; here of a few images, as times are not tested."""
    from benchmarks import zhang as bench

    assert (bench.TRAINING, bench.RECOGNITION) == (1000, 10000)
    cases = ["start", "train-1000", "recognize-10000"]
    assert list(bench.CASES) == cases
    monkeypatch.setattr(bench, "TRAINING", 3)
    monkeypatch.setattr(bench, "RECOGNITION", 4)
    monkeypatch.setattr(bench, "limit_threads", lambda threads: None)
    arguments = ["bench", "zhang", "--dtypes", "float32", "--systems", "c", "pullback", "--rounds", "1"]
    assert main(arguments) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0][:4] == ["case", "dtype", "system", "form"]
    found = [(row[0], row[2]) for row in rows if row and row[0] in cases]
    assert set(found) >= {(case, system) for case in cases for system in ("c", "pullback")}
    medians = [float(row[-4].replace(",", "")) for row in rows if row and row[0] in cases]
    assert all(m > 0 for m in medians)
