"""Folders of NumPy, CIFAR and image files, and text: what is read, what is left for later, and what is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback import data
from pullback.data.folders import ImageFiles
from pullback.errors import DataError, UsageError

RANDOM = np.random.default_rng(0)


def complete(call: Callable[[], Any]) -> str:
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


# NumPy files ------------------------------------------------------------------------------------------------------


def arrays(folder: Path, inputs: str = "inputs", targets: str = "targets", mark: str = "-") -> Path:
    folder.mkdir(exist_ok=True)
    for part, count in (("train", 6), ("test", 4)):
        np.save(folder / f"{part}{mark}{inputs}.npy", np.arange(count * 3, dtype=np.float32).reshape(count, 3))
        np.save(folder / f"{part}{mark}{targets}.npy", np.arange(count))
    return folder


@pytest.mark.parametrize(("inputs", "targets", "mark"), [("inputs", "targets", "-"), ("x", "y", "_")])
def test_arrays_are_mapped(tmp_path: Path, inputs: str, targets: str, mark: str) -> None:
    found = data.load(arrays(tmp_path / "mine", inputs, targets, mark))
    assert (found.name, len(found.train), len(found.test)) == ("mine", 6, 4)
    assert isinstance(found.train.inputs, np.memmap)
    x, y = found.train.batch(np.array([4, 1]))
    assert (x.tolist(), y.tolist()) == ([[12, 13, 14], [3, 4, 5]], [4, 1])


def test_archives(tmp_path: Path) -> None:
    for part, count in (("train", 6), ("test", 4)):
        np.savez(tmp_path / f"{part}.npz", images=np.zeros((count, 2)), labels=np.zeros(count))
    assert data.load(tmp_path).test.inputs.shape == (4, 2)


def test_half_a_folder(tmp_path: Path) -> None:
    folder = arrays(tmp_path / "mine")
    (folder / "test-targets.npy").unlink()
    assert complete(lambda: data.load(folder)).replace(str(folder), "mine") == (
        "DataError [E507] mine: no test-targets.npy\n"
        "   | the folder holds: test-inputs.npy, train-inputs.npy, train-targets.npy\n"
        "  try: train-inputs.npy, train-targets.npy, test-inputs.npy, test-targets.npy"
        "      See `pullback explain-error E507`"
    )
    np.savez(folder / "test.npz", inputs=np.zeros((2, 3)))
    assert "no array `targets` in test.npz" in complete(lambda: data.load(folder))
    (folder / "test.npz").unlink()
    for content in (b"", b"no numbers", (folder / "train-inputs.npy").read_bytes()[:-1]):
        (folder / "test-targets.npy").write_bytes(content)
        assert "E503" in complete(lambda: data.load(folder))
    np.save(folder / "test-targets.npy", np.array([{}]))  # would need pickle
    assert "E503" in complete(lambda: data.load(folder))
    np.save(folder / "test-targets.npy", np.zeros(3))
    assert "E507] mine: 4 inputs and 3 targets" in complete(lambda: data.load(folder))


# CIFAR ------------------------------------------------------------------------------------------------------------


def records(path: Path, count: int, labels: int) -> np.ndarray[Any, Any]:
    made = RANDOM.integers(0, 256, (count, labels + 3072), np.uint8)
    made[:, :labels] %= 10
    path.write_bytes(made.tobytes())
    return made


@pytest.mark.parametrize("hundred", [False, True])
def test_cifar(tmp_path: Path, hundred: bool) -> None:
    names = ["train.bin"] if hundred else [f"data_batch_{k}.bin" for k in range(1, 6)]
    labels = 2 if hundred else 1
    train = np.concatenate([records(tmp_path / name, 4, labels) for name in names])
    test = records(tmp_path / ("test.bin" if hundred else "test_batch.bin"), 3, labels)
    found = data.load(tmp_path)
    for part, whole in ((found.train, train), (found.test, test)):
        assert part.inputs.dtype == np.uint8
        x, y = part.batch(slice(None))
        assert (x.shape, x.dtype) == ((len(whole), 3, 32, 32), np.float32)
        assert np.array_equal(x[-1, 2, 31], whole[-1, -32:].astype(np.float32) / np.float32(255))
        assert np.array_equal(y, whole[:, labels - 1])


def test_labels_of_cifar(tmp_path: Path) -> None:
    for name in ("train.bin", "test.bin"):
        whole = records(tmp_path / name, 4, 2)
    kinds: tuple[Any, ...] = ("fine", "coarse", "both")
    fine, coarse, both = (data.load_cifar(tmp_path, labels=kind).test.batch(slice(None))[1] for kind in kinds)
    assert np.array_equal(both, whole[:, :2])
    assert np.array_equal(coarse, whole[:, 0]) and np.array_equal(fine, whole[:, 1])
    with pytest.raises(UsageError) as error:
        data.load_cifar(tmp_path, labels="all")  # type: ignore[arg-type]
    told = "load_cifar: labels='all', and there are 'fine', 'coarse', 'both'", '"fine"'
    assert (error.value.code, error.value.what, error.value.remedy) == ("E602", *told)
    (tmp_path / "train.bin").unlink(), (tmp_path / "test.bin").unlink()
    for name in (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"):
        records(tmp_path / name, 2, 1)
    with pytest.raises(UsageError) as error:
        data.load_cifar(tmp_path, labels="coarse")
    told = "load_cifar: labels='coarse', and there are 'fine'", "CIFAR-100 for coarse labels"
    assert (error.value.code, error.value.what, error.value.remedy) == ("E602", *told)


def test_half_of_cifar(tmp_path: Path) -> None:
    for k in (1, 2, 4, 5):
        records(tmp_path / f"data_batch_{k}.bin", 2, 1)
    text = complete(lambda: data.load(tmp_path))
    assert "no data_batch_3.bin, test_batch.bin\n" in text
    assert "try: the binary version of CIFAR-10 or CIFAR-100, unpacked" in text
    records(tmp_path / "data_batch_3.bin", 2, 1)
    (tmp_path / "test_batch.bin").write_bytes(bytes(3072))
    text = complete(lambda: data.load(tmp_path))
    assert "test_batch.bin: 3072 bytes are no whole number of records" in text
    assert "a record is 1 + 3 × 32 × 32 = 3073 bytes" in text


# Images -----------------------------------------------------------------------------------------------------------


def images(folder: Path, parts: tuple[str, ...] = ("train", "test"), size: tuple[int, int] = (5, 4)) -> Any:
    image = pytest.importorskip("PIL.Image")
    pixels = {}
    for part in parts:
        for name in ("cat", "dog"):
            (folder / part / name).mkdir(parents=True)
            for k in range(3):
                own = RANDOM.integers(0, 256, (*size, 3), np.uint8)
                image.fromarray(own).save(folder / part / name / f"{k}.png")
                pixels[part, name, k] = own
        (folder / part / "cat" / "notes.txt").write_text("not an image")
    return pixels


def test_images_are_decoded_when_they_are_read(tmp_path: Path) -> None:
    pixels = images(tmp_path)
    found = data.load(tmp_path)
    assert isinstance(found.train.inputs, ImageFiles)
    assert found.train.classes == ("cat", "dog")
    assert found.train.targets.tolist() == [0, 0, 0, 1, 1, 1]
    x, y = found.train.batch(np.array([4, 0]))
    assert (x.shape, x.dtype, y.tolist()) == ((2, 3, 5, 4), np.float32, [1, 0])
    for sample, key in zip(x, (("train", "dog", 1), ("train", "cat", 0)), strict=True):
        assert np.array_equal(np.rint(sample * 255), pixels[key].transpose(2, 0, 1))
    assert len(found.train.take(4).inputs) == 4
    assert [len(p) for p in found.train.split(0.5, seed=1)] == [3, 3]
    small = data.load_images(tmp_path / "train", size=2, color=False)
    assert small.batch(slice(2))[0].shape == (2, 1, 2, 2)


def test_images_that_are_missing_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images(tmp_path / "a", parts=("train",))
    assert "no folder `test`" in complete(lambda: data.load(tmp_path / "a"))
    (tmp_path / "a" / "test").mkdir()
    text = complete(lambda: data.load(tmp_path / "a"))
    assert "no folders of classes" in text
    assert "train/CLASS/*.png and test/CLASS/*.png, with the same classes" in text
    (tmp_path / "a" / "test" / "cat").mkdir()
    assert "cat: no images" in complete(lambda: data.load(tmp_path / "a"))
    (tmp_path / "a" / "test" / "cat" / "1.png").write_bytes(b"no image")
    assert "different classes\n   | in one of them only: dog" in complete(lambda: data.load(tmp_path / "a"))
    (tmp_path / "a" / "test" / "dog").mkdir()
    (tmp_path / "a" / "test" / "dog" / "1.png").write_bytes(b"no image")
    found = data.load(tmp_path / "a")
    assert "1.png: not an image, or damaged" in complete(lambda: found.test.batch(np.array([1])))
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "E506] Pillow" in complete(lambda: found.test.batch(np.array([1])))


# Text -------------------------------------------------------------------------------------------------------------


def test_text_windows(tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    text = "So viele Äpfel fallen, ohne Ende fallen sie."
    path.write_text(text, encoding="utf-8")
    found = data.load_text(path, sequence_length=5, stride=2)
    decode = lambda codes: "".join(found.classes[c] for c in codes)
    assert [decode(w) for w in found.inputs] == [text[k : k + 5] for k in range(0, len(text) - 5, 2)]
    assert [decode(w) for w in found.targets] == [text[k + 1 : k + 6] for k in range(0, len(text) - 5, 2)]
    assert np.shares_memory(found.inputs, found.targets)  # windows of one array
    assert (found.inputs.dtype, found.classes) == (np.uint8, tuple(sorted(set(text))))
    assert len(data.load_text(path, sequence_length=5)) == (len(text) - 1) // 5
    both = data.load_text(path, sequence_length=len(text) - 1)
    assert len(both) == 1
    with pytest.raises(DataError, match=r"E512.*44 characters make no window of 44"):
        data.load_text(path, sequence_length=len(text))
    path.write_text(" ".join(map(chr, range(0x4E00, 0x4F00))) * 3, encoding="utf-8")
    assert data.load_text(path).inputs.dtype == np.int32
    splits = data.load(path)
    assert (splits.name, len(splits.train), len(splits.test)) == ("poem.txt", 21, 2)


def test_text_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("Äpfel".encode("latin-1"))
    assert complete(lambda: data.load_text(tmp_path / "a")).replace(str(tmp_path), "") == (
        "DataError [E519] /a: no text in UTF-8\n"
        "   | byte 0 is 0xc4: invalid continuation byte\n"
        "  try: a text file, converted to UTF-8      See `pullback explain-error E519`"
    )
    assert "E501" in complete(lambda: data.load_text(tmp_path / "none"))
