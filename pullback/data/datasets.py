"""Data sets by name: the bundled digits, and folders recognized by their file names."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.data.dataset import Dataset, Splits
from pullback.data.folders import load_arrays, load_cifar, load_image_splits, splits
from pullback.data.idx import read_idx
from pullback.data.text import load_text
from pullback.errors import DataError

__all__ = ["load", "load_digits", "load_folder"]

DIGITS_TRAIN = 1437
SIDE = 28


def load(name: str | os.PathLike[str]) -> Splits:
    """Load a data set by name or path.

    Args:
        name: `digits`, a folder, a text file, or the name of one of these below `PULLBACK_DATA`. A folder holds idx
            files, NumPy files, the binary files of CIFAR-10 or CIFAR-100, or images in folders by class.
    Returns:
        The data set in two parts.
    Raises:
        DataError: [E505] the data set is unknown; also the errors of `load_digits`, `load_folder`, `load_arrays`,
            `load_cifar`, `load_images` and `load_text`.
    """
    if os.fspath(name) == "digits":
        return load_digits()
    places = [Path(name)]
    root = os.environ.get("PULLBACK_DATA")
    if root and not places[0].is_absolute():
        places.append(Path(root) / name)
    for place in places:
        if place.is_dir():
            return _loader(place)(place)
        if place.is_file():
            text = load_text(place)
            return Splits(text.name, *text.split(0.9))
    raise DataError(
        "E505",
        f"{name}: no such data set",
        facts=("neither a folder nor a file: " + ", ".join(map(str, places)),),
        remedy="`digits`, or a folder: train and test images and labels as idx or NumPy files, CIFAR's binary files, "
        "or images in train/CLASS/ and test/CLASS/",
    )


def _loader(folder: Path) -> Callable[[Path], Splits]:
    """The loader for a folder, chosen by its file names."""
    names = {path.name for path in folder.iterdir()}
    if any(n.endswith((".npy", ".npz")) for n in names):
        return load_arrays
    if any(n.endswith(".bin") for n in names):
        return load_cifar
    if any((folder / n).is_dir() for n in ("train", "test")):
        return load_image_splits
    return load_folder


def load_digits(seed: int | None = 0) -> Splits:
    """Load scikit-learn's digits, resized from 8 × 8 to 28 × 28: 1,437 for training, 360 for testing.

    The samples are ordered by writer. The split is random and stratified: both parts have all writers, and each digit
    in proportion.

    Args:
        seed: seed of the split. With None the last 360 samples are the test set. Other writers wrote most of them, so
            accuracy is lower: `zhang` reaches 90.3 % instead of 97.2 %.
    Returns:
        The data set: inputs f32[N, 28, 28] from 0 to 1, labels u8[N].
    Raises:
        DataError: [E506] scikit-learn is not installed.
    """
    levels = bundled_digits(seed)
    return Splits("digits", *(replace(part, inputs=_enlarged(part.inputs)) for part in (levels.train, levels.test)))


def _enlarged(levels: NDArray[np.uint8]) -> NDArray[np.float32]:
    return resize(levels / 16.0, SIDE).astype(np.float32)


def bundled_digits(seed: int | None = 0) -> Splits:
    """Load scikit-learn's original digits: images u8[N, 8, 8] with levels 0 to 16, and labels u8[N].

    Args:
        seed: seed of the split (`load_digits`).
    Raises:
        DataError: [E506] scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits as bundled
    except ImportError as error:
        raise DataError(
            "E506",
            "digits: scikit-learn, which brings this data set, is not installed",
            facts=(str(error),),
            remedy="pip install 'pullback[demo]', or a folder of idx files",
        ) from error
    source = bundled()
    whole = Dataset(source.images.astype(np.uint8), source.target.astype(np.uint8), "digits")
    return Splits("digits", *whole.split(DIGITS_TRAIN / len(whole), seed, stratified=seed is not None))


def resize(images: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Resize square images to `side` × `side` by linear interpolation between pixel centers.

    Args:
        images: (N, n, n).
        side: the new size of both axes.
    Returns:
        (N, side, side).
    """
    extent = images.shape[-1]
    # Center of the new pixel i in the old grid; beyond the outermost centers the border value continues.
    center = np.clip((np.arange(side) + 0.5) * extent / side - 0.5, 0, extent - 1)
    weights = np.maximum(0.0, 1.0 - np.abs(center[:, None] - np.arange(extent)))
    resized = np.einsum("im,nmk,jk->nij", weights, images, weights, optimize=True)
    return np.ascontiguousarray(resized)


def load_folder(folder: str | os.PathLike[str]) -> Splits:
    """Read four idx files, plain or gzip: images and labels, for `train` and for `test` or `t10k`.

    Unsigned bytes are scaled by 1/255; other element types are unchanged.

    Args:
        folder: a folder with file names such as `train-images-idx3-ubyte.gz` and `t10k-labels.idx1-ubyte`.
    Returns:
        The data set, named after the folder.
    Raises:
        DataError: [E507] a file is missing or ambiguous, or images and labels do not match; also the errors of
            `read_idx`.
    """
    folder = Path(folder)
    train = _read_split(folder, ("train",))
    test = _read_split(folder, ("t10k", "test"))
    return splits(folder, train, test)


def _read_split(folder: Path, words: tuple[str, ...]) -> Dataset:
    image_file = _find(folder, words, "images")
    label_file = _find(folder, words, "labels")
    images, labels = read_idx(image_file), read_idx(label_file)
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise DataError(
            "E507",
            f"{image_file.name} and {label_file.name} do not belong together",
            facts=(f"images: shape {images.shape}", f"labels: shape {labels.shape}"),
            remedy="images of shape (N, rows, columns) and labels of shape (N,)",
        )
    return Dataset(_scaled(images), _as_labels(label_file, labels), folder.resolve().name)


def _scaled(images: NDArray[Any]) -> NDArray[np.float32]:
    if images.dtype == np.uint8:
        return images.astype(np.float32) / np.float32(255)
    return images.astype(np.float32)


def _as_labels(file: Path, labels: NDArray[Any]) -> NDArray[np.uint8]:
    whole = labels.astype(np.uint8)
    if not np.array_equal(whole, labels):
        raise DataError(
            "E507",
            f"{file}: a label is not a whole number from 0 to 255",
            facts=(f"smallest {labels.min()}", f"largest {labels.max()}"),
            remedy="labels as unsigned bytes (idx type 08)",
        )
    return whole


def _find(folder: Path, words: tuple[str, ...], kind: str) -> Path:
    """The single file of `folder` whose name contains one of `words` and `kind`."""
    names = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    found = [path for path in names if kind in path.name and any(word in path.name for word in words)]
    if len(found) == 1:
        return found[0]
    wanted = f"{' or '.join(words)} {kind}"
    present = ", ".join(path.name for path in (found or names)[:6]) or "nothing"
    raise DataError(
        "E507",
        f"{folder}: {'no file' if not found else f'{len(found)} files'} for {wanted}",
        facts=(f"{'the folder holds' if not found else 'found'}: {present}",),
        remedy=f"one file named like {words[0]}-{kind}-idx{3 if kind == 'images' else 1}-ubyte.gz",
    )
