"""Folders of NumPy files, CIFAR binary files, and images by class, all read lazily."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pullback import reading
from pullback.data.archive import read_archive
from pullback.data.dataset import Dataset, Splits
from pullback.data.settings import check_settings
from pullback.data.transforms import scale
from pullback.errors import DataError, UsageError
from pullback.source import user_position

__all__ = ["ImageFiles", "load_arrays", "load_cifar", "load_image_splits", "load_images", "pillow", "splits"]

SIDE = 32  # height and width of CIFAR's images
Labels = Literal["fine", "coarse", "both"]
_COLUMNS: Final[dict[str, int | slice]] = {"fine": 1, "coarse": 0, "both": slice(0, 2)}  # in CIFAR-100's records
KINDS = {"inputs": ("inputs", "images", "x"), "targets": ("targets", "labels", "y")}
IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".webp", ".tif", ".tiff"}
PIXEL = 4  # bytes per pixel that a decoder needs
LAYOUT = "train/CLASS/*.png and test/CLASS/*.png, with the same classes"


def splits(folder: Path, train: Dataset, test: Dataset) -> Splits:
    """Combine two parts into one data set, named after the folder.

    Raises:
        DataError: [E507] the samples of the parts differ in size.
    """
    if train.inputs.shape[1:] != test.inputs.shape[1:]:
        raise DataError(
            "E507",
            f"{folder}: training and test images differ in size",
            facts=(f"training: {train.inputs.shape[1:]}", f"test: {test.inputs.shape[1:]}"),
            remedy="put one data set in one folder",
        )
    return Splits(folder.resolve().name, train, test)


def listed(names: Sequence[str]) -> str:
    """The first few names, as text."""
    return ", ".join([*names[:6], *(["…"] if len(names) > 6 else [])]) or "nothing"


def _incomplete(folder: Path, missing: str, remedy: str) -> DataError:
    present = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return DataError(
        "E507", f"{folder}: no {missing}", facts=(f"the folder holds: {listed(present)}",), remedy=remedy
    )


# NumPy files ------------------------------------------------------------------------------------------------------


def load_arrays(folder: str | os.PathLike[str]) -> Splits:
    """Read the NumPy files `train-inputs`, `train-targets`, `test-inputs` and `test-targets` of a folder.

    `images` and `labels`, or `x` and `y`, may replace `inputs` and `targets`, and `_` may replace `-`. Files in .npy
    are memory-mapped, and read when samples are used. `train.npz` and `test.npz` may hold the arrays under these
    names instead.

    Raises:
        DataError: [E507] a file is missing, or inputs and targets differ in number; [E503] a file is damaged; [E527]
            an array of an archive is larger than the limit.
    """
    folder = Path(folder)
    return splits(folder, *(_arrays(folder, part) for part in ("train", "test")))


def _arrays(folder: Path, part: str) -> Dataset:
    archive = folder / f"{part}.npz"
    held = _opened(archive) if archive.is_file() else None
    found = []
    for kind, words in KINDS.items():
        if held is not None:
            array = next((held[w] for w in words if w in held), None)
        else:
            names = [folder / f"{part}{mark}{w}.npy" for w in words for mark in "-_"]
            array = next((_opened(name) for name in names if name.is_file()), None)
        if array is None:
            place = f"array `{kind}` in {archive.name}" if held is not None else f"{part}-{kind}.npy"
            raise _incomplete(folder, place, "train-inputs.npy, train-targets.npy, test-inputs.npy, test-targets.npy")
        found.append(array)
    inputs, targets = found
    return Dataset(inputs, targets, folder.resolve().name)


def _opened(path: Path) -> Any:
    """The array of a file, memory-mapped, or an archive's arrays by name."""
    if path.suffix == ".npz":
        return read_archive(path, [w for words in KINDS.values() for w in words])
    with reading.parsing(path, "a NumPy file", "write it again with `np.save`"):
        return np.load(path, mmap_mode="r", allow_pickle=False)


# CIFAR ------------------------------------------------------------------------------------------------------------


def load_cifar(folder: str | os.PathLike[str], *, labels: Labels = "fine") -> Splits:
    """Read the binary version of CIFAR-10 (`data_batch_1.bin` …, `test_batch.bin`) or CIFAR-100.

    CIFAR-100 is `train.bin` and `test.bin`. Images are bytes of shape (N, 3, 32, 32), and are converted to float32 from
    0 to 1 when read.

    Args:
        folder: the folder of the unpacked files.
        labels: the labels of CIFAR-100: "fine" of 100 classes, "coarse" of 20, or "both", of shape (N, 2), with the
            coarse label first. CIFAR-10 has fine labels only.
    Raises:
        DataError: [E507] a file is missing, [E503] has an incomplete record, or [E527] is larger than the limit.
        UsageError: [E602] the labels are none of these, or CIFAR-10 lacks them.
    """
    folder = Path(folder)
    hundred = any((folder / name).exists() for name in ("train.bin", "test.bin"))
    train = ["train.bin"] if hundred else [f"data_batch_{k}.bin" for k in range(1, 6)]
    test = ["test.bin"] if hundred else ["test_batch.bin"]
    missing = [name for name in train + test if not (folder / name).is_file()]
    if missing:
        raise _incomplete(folder, listed(missing), "the binary version of CIFAR-10 or CIFAR-100, unpacked")
    if labels not in _COLUMNS or (labels != "fine" and not hundred):
        has = ", ".join(map(repr, _COLUMNS)) if hundred else "'fine'"
        raise UsageError("E602", f"load_cifar: labels={labels!r}, and there are {has}", position=user_position(),
                         remedy="CIFAR-100 for coarse labels" if labels in _COLUMNS else '"fine"')  # fmt: skip
    taken = _COLUMNS[labels] if hundred else 0
    return splits(folder, *(_cifar(folder, names, 2 if hundred else 1, taken) for names in (train, test)))


def _cifar(folder: Path, names: Sequence[str], labels: int, taken: int | slice) -> Dataset:
    length = labels + 3 * SIDE * SIDE
    parts = []
    for path in (folder / name for name in names):
        size = path.stat().st_size
        reading.check_bytes(path, size, "the file has")
        if size == 0 or size % length:
            raise DataError(
                "E503",
                f"{path}: {size} bytes are no whole number of records",
                facts=(f"a record is {labels} + 3 × {SIDE} × {SIDE} = {length} bytes",),
                remedy="copy or unpack the file again",
            )
        parts.append(np.memmap(path, np.uint8, "r").reshape(-1, length))
    records = parts[0] if len(parts) == 1 else np.concatenate(parts)
    images = records[:, labels:].reshape(-1, 3, SIDE, SIDE)
    return Dataset(images, records[:, taken], folder.resolve().name, (scale(),))


# Images -----------------------------------------------------------------------------------------------------------


class ImageFiles:
    """Images as an array of bytes (N, channels, rows, columns) that is decoded when read.

    Args:
        paths: the files.
        size: rows and columns; images of another size are resized.
        color: whether images have three channels instead of one.
        threads: the number of threads that decode, at most.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, paths: Sequence[Path], size: tuple[int, int], color: bool = True, threads: int = 1) -> None:
        self.paths = tuple(paths)
        self.size = size
        self.color = color
        self.threads = threads
        self.shape = (len(self.paths), 3 if color else 1, *size)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, samples: Any) -> Any:
        """Decode the images of an index array; for a slice, return images without decoding them."""
        if isinstance(samples, slice):
            return ImageFiles(self.paths[samples], self.size, self.color, self.threads)
        chosen = [self.paths[k] for k in np.arange(len(self))[samples]]
        threads = min(self.threads, len(chosen))
        if threads <= 1:
            return np.stack(list(map(self._decoded, chosen)))
        with ThreadPoolExecutor(threads, "pullback-decode") as pool:  # decoders release the interpreter's lock
            return np.stack(list(pool.map(self._decoded, chosen)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        whole: NDArray[Any] = self[np.arange(len(self))]
        return whole if dtype is None else whole.astype(dtype)

    def _decoded(self, path: Path) -> NDArray[np.uint8]:
        with _image(path) as file:
            image = file.convert("RGB" if self.color else "L")
            if image.size != self.size[::-1]:
                image = image.resize(self.size[::-1], pillow().Resampling.BILINEAR)
            pixels = np.asarray(image)
        return pixels.transpose(2, 0, 1) if self.color else pixels[None]


def load_images(
    folder: str | os.PathLike[str], size: int | tuple[int, int] | None = None, *, color: bool = True,
    threads: int | None = None,
) -> Dataset:  # fmt: skip
    """Load images from one folder per class; classes are sorted by name.

    Args:
        folder: a folder with `CLASS/*.png`, or files of other formats that Pillow reads.
        size: rows and columns to resize to; by default, the size of the first image.
        color: whether images have three channels instead of one.
        threads: the number of threads that decode a batch; by default that of the processors, at most 8.
    Returns:
        Inputs (N, channels, rows, columns), decoded to float32 from 0 to 1 when read; labels (N,).
    Raises:
        DataError: [E506] Pillow is not installed. [E507] There are no class folders, or one is empty. While reading:
            [E503] a file is not an image, [E527] it is larger than the limit.
    """
    check_settings("load_images", ("threads", threads, threads is None or threads >= 1, "a number from 1, or None"))
    folder = Path(folder)
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not classes:
        raise _incomplete(folder, "folders of classes", LAYOUT)
    paths: list[Path] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        own = sorted(path for path in (folder / name).iterdir() if path.suffix.lower() in IMAGES)
        if not own:
            raise _incomplete(folder / name, "images", f"files such as {name}/1.png")
        paths += own
        labels += [number] * len(own)
    side = (size, size) if isinstance(size, int) else size or _size(paths[0])
    kind = np.uint8 if len(classes) <= 256 else np.int32
    images = ImageFiles(paths, side, color, threads or min(8, os.cpu_count() or 1))
    return Dataset(images, np.array(labels, kind), folder.resolve().name, (scale(),), tuple(classes))


def load_image_splits(
    folder: str | os.PathLike[str], size: int | tuple[int, int] | None = None, *, color: bool = True,
    threads: int | None = None,
) -> Splits:  # fmt: skip
    """Load images from `train/CLASS/` and `test/CLASS/` (`load_images`), resized to the first one's size.

    Raises:
        DataError: [E507] a folder is missing, or the classes of the folders differ.
    """
    folder = Path(folder)
    for part in ("train", "test"):
        if not (folder / part).is_dir():
            raise _incomplete(folder, f"folder `{part}`", LAYOUT)
    train = load_images(folder / "train", size, color=color, threads=threads)
    test = load_images(folder / "test", train.inputs.size, color=color, threads=threads)
    if train.classes != test.classes:
        different = sorted(set(train.classes or ()) ^ set(test.classes or ()))
        raise DataError(
            "E507",
            f"{folder}: train and test have different classes",
            facts=(f"in one of them only: {listed(different)}",),
            remedy=LAYOUT,
        )
    return splits(folder, train, test)


def _size(path: Path) -> tuple[int, int]:
    with _image(path) as image:
        return image.height, image.width


@contextmanager
def _image(path: Path) -> Iterator[Any]:
    """Open an image, read its header, and check its size against the limit."""
    library = pillow()
    with reading.parsing(path, "an image", "remove it or replace it"):
        try:
            image = library.open(path)
        except library.DecompressionBombError as error:
            raise DataError("E527", f"{path}: {error}", remedy="a smaller image, if you trust the file") from error
        with image:
            reading.check_size(path, (image.height, image.width), PIXEL)
            yield image


def pillow() -> Any:
    """The library that decodes images.

    Raises:
        DataError: [E506] it is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(
            "E506",
            "Pillow, which decodes images, is not installed",
            facts=(str(error),),
            remedy="pip install 'pullback[images]'",
        ) from error
    return Image
