"""LMDB databases of images as Caffe writes them: a record is a `Datum` message of Protocol Buffers.

The message (caffe.proto): 1 channels, 2 height, 3 width, 4 data (bytes), 5 label, 6 float_data, 7 encoded. In its
encoding a field is a number and a kind in one varint, and then a varint, four or eight bytes, or a length and as many
bytes (https://protobuf.dev/programming-guides/encoding/).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from pullback import reading
from pullback.data.dataset import Dataset
from pullback.data.folders import pillow
from pullback.errors import DataError
from pullback.state import registered

__all__ = ["load_lmdb"]

CHANNELS, HEIGHT, WIDTH, DATA, LABEL, FLOATS, ENCODED = range(1, 8)
Field = int | memoryview
REMEDY: Final = "a database of `convert_imageset`, or of other tools of Caffe"


def load_lmdb(path: str | os.PathLike[str]) -> Dataset:
    """Read a database of labeled images that Caffe wrote, each image when it is used.

    Images are as in the database: bytes, or float32 where it holds these. Caffe's tools write color images in the
    order blue, green, red; compressed images are decoded into the same order. Use `data.scale`, `data.subtract` and
    `data.random_crop` for the rest.

    Args:
        path: the folder with `data.mdb`.
    Returns:
        Inputs (N, channels, rows, columns) in the order of the keys, and labels (N,), int64.
    Raises:
        DataError: [E506] lmdb or Pillow is not installed. [E501] There is no such database. [E503] It is damaged,
            empty, or of other records. [E507] Images differ in size.
    Cost:
        The labels are read at once: about 10 µs a record.

    The database is mapped into memory, and a file that was damaged on purpose can end the process: trust its source.

    >>> import lmdb
    >>> from pullback import data
    >>> with lmdb.open("two_pixels", map_size=1 << 20) as database, database.begin(write=True) as change:
    ...     change.put(b"first", bytes([8, 1, 16, 1, 24, 2, 34, 2, 7, 9, 40, 3]))  # 1 × 1 × 2, pixels 7 and 9, label 3
    True
    >>> made = data.load_lmdb("two_pixels")
    >>> made.inputs[[0]].tolist(), made.targets.tolist()
    ([[[[7, 9]]]], [3])
    """
    path = Path(path)
    if not path.exists():
        raise DataError("E501", f"{path}: no such database", remedy="check the path")
    images = Records(path)
    return Dataset(images, images.labels(), path.resolve().name)


class Records:
    """The images of a database as an array (N, channels, rows, columns) that is read when indexed.

    Args:
        path: the database.
        keys: the keys of the records; by default all.
    """

    def __init__(self, path: Path, keys: tuple[bytes, ...] | None = None) -> None:
        self.path = path
        self._database: _Database | None = None
        with self._reading() as view:
            self.keys = tuple(bytes(k) for k in view.cursor().iternext(values=False)) if keys is None else keys
            if not self.keys:
                raise ValueError("it has no records")
            first = _pixels(view.get(self.keys[0]))
        self.dtype = first.dtype
        self.shape = (len(self.keys), *first.shape)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, samples: Any) -> Any:
        """Read the images of an index array; for a slice, return images without reading them."""
        if isinstance(samples, slice):
            return Records(self.path, self.keys[samples])
        out = np.empty((len(samples), *self.shape[1:]), self.dtype)
        with self._reading() as view:
            for place, k in zip(out, np.arange(len(self))[samples]):
                image = _pixels(view.get(self.keys[k]))
                if (image.shape, image.dtype) != (place.shape, place.dtype):
                    raise DataError(
                        "E507",
                        f"{self.path}: images differ in size",
                        facts=(f"{self.keys[k]!r} : {image.dtype}{list(image.shape)}",
                               f"{self.keys[0]!r} : {self.dtype}{list(self.shape[1:])}"),
                        remedy="resize them when the database is written, as `convert_imageset -resize_height` does",
                    )  # fmt: skip
                place[...] = image
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        whole: NDArray[Any] = self[np.arange(len(self))]
        return whole if dtype is None else whole.astype(dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_database": None}  # open files belong to their process

    def labels(self) -> NDArray[np.int64]:
        """The labels (N,)."""
        with self._reading() as view:
            return np.array([_label(view.get(key)) for key in self.keys], np.int64)

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """A view of the database."""
        with reading.parsing(self.path, "a database of images", REMEDY):
            self._database = self._database or _opened(self.path)
            with self._database.file.begin(buffers=True) as view:
                yield view


# Files ------------------------------------------------------------------------------------------------------------


class _Database:
    """An open database. A process can open one once; without locks, processes that are forked may read on."""

    def __init__(self, path: Path) -> None:
        try:
            import lmdb
        except ImportError as error:
            raise DataError("E506", "load_lmdb: lmdb, which reads these databases, is not installed",
                            facts=(str(error),), remedy="pip install 'pullback[lmdb]'") from error  # fmt: skip
        self.file = lmdb.open(str(path), subdir=path.is_dir(), readonly=True, lock=False, readahead=False)


_OPEN: WeakValueDictionary[Any, _Database] = registered(WeakValueDictionary(), "databases of living data sets")
_OPENING: Final = Lock()


def _opened(path: Path) -> _Database:
    """The open database of a path, shared by all who read it."""
    file = (path / "data.mdb" if path.is_dir() else path).stat()
    with _OPENING:
        known = _OPEN.get((file.st_dev, file.st_ino))
        if known is None:
            known = _OPEN[file.st_dev, file.st_ino] = _Database(path)
        return known


# Records ----------------------------------------------------------------------------------------------------------


def _pixels(record: memoryview) -> NDArray[Any]:
    """The image of a record, (channels, rows, columns)."""
    found: dict[int, Field] = {}
    floats = bytearray()
    for number, value in _fields(record):
        if number == FLOATS and isinstance(value, memoryview):  # one number a field, or all in one
            floats += value
        else:
            found[number] = value
    data = found.get(DATA, b"")
    if found.get(ENCODED):
        with pillow().open(io.BytesIO(bytes(_bytes(data)))) as image:
            reading.check_size("an image", (image.height, image.width), 4)
            pixels = np.asarray(image)
        return pixels[None] if pixels.ndim == 2 else pixels[..., 2::-1].transpose(2, 0, 1)
    shape = [found.get(name) for name in (CHANNELS, HEIGHT, WIDTH)]
    flat = np.frombuffer(floats, "<f4") if floats else np.frombuffer(_bytes(data), np.uint8)
    return flat.reshape(shape)  # type: ignore[arg-type]  # refuses sizes that do not fit


def _bytes(value: Any) -> Any:
    if isinstance(value, int):
        raise ValueError("the field `data` is a number")
    return value


def _label(record: memoryview) -> int:
    """The label of a record; 0 if it has none, as in the message's definition."""
    for number, value in _fields(record):
        if number == LABEL and isinstance(value, int):
            return value - (1 << 64) if value >> 63 else value
    return 0


def _fields(record: memoryview) -> Iterator[tuple[int, Field]]:
    """The fields of a message: their numbers, with integers or bytes."""
    at = 0
    while at < len(record):
        key, at = _varint(record, at)
        match key & 7:
            case 0:
                value, at = _varint(record, at)
                yield key >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, at = _varint(record, at)
            case 5:
                size = 4
            case kind:
                raise ValueError(f"a field of kind {kind}")
        if at + size > len(record):
            raise ValueError("a record ends within a field")
        yield key >> 3, record[at : at + size]
        at += size


def _varint(record: memoryview, at: int) -> tuple[int, int]:
    """An integer in groups of seven bits, the lowest first, and the position after it."""
    value = 0
    for place, byte in enumerate(record[at : at + 10]):
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise ValueError("a record ends within a field")
