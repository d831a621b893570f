"""The bundled digits, folders of idx files, and how they are found."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from pullback.data import Dataset, load, load_digits, load_folder, write_idx
from pullback.data.datasets import resize
from pullback.errors import DataError


def folder_of(path: Path, *, train: str = "train-{}.gz", test: str = "t10k-{}", side: int = 5) -> Path:
    path.mkdir(exist_ok=True)
    for name, count in ((train, 6), (test, 4)):
        images = (np.arange(count * side * side) % 256).astype(np.uint8).reshape(count, side, side)
        write_idx(path / name.format("images"), images)
        write_idx(path / name.format("labels"), (np.arange(count) % 10).astype(np.uint8))
    return path


def test_digits_shapes_range_and_split() -> None:
    pytest.importorskip("sklearn")
    digits = load("digits")
    assert digits.train.inputs.shape == (1437, 28, 28)
    assert digits.test.inputs.shape == (360, 28, 28)
    assert digits.train.inputs.dtype == np.float32
    assert digits.train.targets.dtype == np.uint8
    assert 0 <= digits.train.inputs.min() < digits.train.inputs.max() <= 1
    assert set(digits.train.targets.tolist()) == set(range(10))


def test_the_split_of_the_digits_is_random_and_stratified() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    source = datasets.load_digits()
    digits, again, other = load_digits(), load_digits(), load_digits(seed=1)
    assert np.array_equal(digits.test.inputs, again.test.inputs)
    assert not np.array_equal(digits.test.targets, other.test.targets)
    whole = np.bincount(source.target)
    for part in (digits, other):
        assert np.abs(np.bincount(part.test.targets) - whole * 360 / 1797).max() <= 1
        assert np.array_equal(np.bincount(part.train.targets) + np.bincount(part.test.targets), whole)


def test_digits_in_the_order_of_their_source() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    source = datasets.load_digits()
    digits = load_digits(seed=None)
    assert np.array_equal(np.concatenate([digits.train.targets, digits.test.targets]), source.target)
    # Averaging the resized image over the place of an old pixel's neighborhood keeps its overall brightness.
    assert np.abs(digits.test.inputs.mean((1, 2)) - source.images[1437:].mean((1, 2)) / 16).max() < 0.02


@pytest.mark.parametrize("seed", [None, 0, 5])
def test_a_stratified_split_shares_each_label(seed: int | None) -> None:
    labels = np.random.default_rng(0).integers(0, 7, 200) ** 2
    data = Dataset(np.arange(200), labels)
    parts = data.split(0.3, seed, stratified=True)
    assert [len(part) for part in parts] == [60, 140]
    assert sorted(np.concatenate([part.inputs for part in parts]).tolist()) == list(range(200))
    for part, share in zip(parts, (0.3, 0.7), strict=True):
        assert np.all(np.diff(part.inputs) > 0)
        assert np.array_equal(part.targets, labels[part.inputs])
        for label in np.unique(labels):
            assert abs(np.sum(part.targets == label) - share * np.sum(labels == label)) <= 1


def test_a_stratified_split_needs_labels() -> None:
    boxes = Dataset(np.zeros((6, 2)), np.zeros((6, 4)), "boxes")
    with pytest.raises(DataError, match=r"E507] boxes: a stratified split needs one label(.*\n)*.*shape \(6, 4\)"):
        boxes.split(0.5, seed=0, stratified=True)


def test_digits_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataError, match=r"E506.*(\n.*)*pullback\[demo\]"):
        load_digits()


def test_resize_is_linear_interpolation() -> None:
    ramp = np.arange(4.0)[None, :, None] + 10 * np.arange(4.0)[None, None, :]
    twice = resize(ramp, 8)[0]
    center = np.clip((np.arange(8) + 0.5) / 2 - 0.5, 0, 3)
    assert np.allclose(twice, center[:, None] + 10 * center[None, :])
    assert np.allclose(resize(np.ones((2, 8, 8)), 28), 1)
    assert np.array_equal(resize(ramp, 4), ramp)


@pytest.mark.parametrize(
    ("train", "test"),
    [("train-{}.gz", "t10k-{}"), ("emnist-letters-train-{}-idx-ubyte", "emnist-letters-test-{}-idx-ubyte.gz")],
)
def test_folder(tmp_path: Path, train: str, test: str) -> None:
    dataset = load(folder_of(tmp_path / "mine", train=train, test=test))
    assert dataset.name == "mine"
    assert dataset.train.inputs.shape == (6, 5, 5)
    assert dataset.train.inputs[0, 0].tolist() == [np.float32(i) / np.float32(255) for i in range(5)]
    assert dataset.test.targets.tolist() == [0, 1, 2, 3]


def test_folder_below_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of(tmp_path / "few")
    monkeypatch.setenv("PULLBACK_DATA", str(tmp_path))
    assert load("few").name == "few"
    with pytest.raises(DataError, match="E505") as caught:
        load("absent")
    assert str(tmp_path / "absent") in str(caught.value)


def test_mnist(mnist_folder: Path) -> None:
    mnist = load_folder(mnist_folder)
    assert mnist.train.inputs.shape == (10000, 28, 28)
    assert mnist.test.inputs.shape == (10000, 28, 28)
    assert mnist.test.inputs.max() == 1
    assert mnist.test.targets[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "a")
    (folder / "t10k-labels").unlink()
    with pytest.raises(DataError, match=r"E507.*no file for t10k or test labels") as caught:
        load_folder(folder)
    assert "train-images.gz" in str(caught.value)


def test_two_candidates_are_ambiguous(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "a")
    (folder / "train-images-2").write_bytes(b"")
    with pytest.raises(DataError, match=r"E507.*2 files for train images"):
        load_folder(folder)


def test_images_and_labels_must_belong_together(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "a")
    write_idx(folder / "t10k-labels", np.zeros(3, np.uint8))
    with pytest.raises(DataError, match=r"E507.*do not belong together"):
        load_folder(folder)


def test_labels_must_be_bytes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "a")
    write_idx(folder / "t10k-labels", np.array([0, 1, -1, 300], np.int32))
    with pytest.raises(DataError, match=r"E507.*not a whole number"):
        load_folder(folder)


def test_train_and_test_must_agree_in_size(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "a")
    write_idx(folder / "t10k-images", np.zeros((4, 6, 6), np.uint8))
    with pytest.raises(DataError, match=r"E507.*differ in size"):
        load_folder(folder)


def test_first() -> None:
    split = Dataset(np.zeros((3, 2, 2), np.float32), np.zeros(3, np.uint8))
    assert split.take(None) is split
    assert len(split.take(2).inputs) == len(split.take(2).targets) == 2
    with pytest.raises(DataError, match="E508"):
        split.take(4)
