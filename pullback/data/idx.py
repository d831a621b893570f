"""The idx file format: a magic number of four bytes, big-endian sizes, then row-major elements.

    byte 0, 1   zero
    byte 2      element type: 08 uint8, 09 int8, 0B int16, 0C int32, 0D float32, 0E float64
    byte 3      rank
    rank × 4    sizes, unsigned
    rest        elements, big-endian

A file may be compressed with gzip, which is detected from its first bytes.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback import reading
from pullback.errors import DataError
from pullback.writing import write_file

__all__ = ["read_idx", "write_idx"]

ELEMENT_TYPES: dict[int, np.dtype[Any]] = {
    0x08: np.dtype(np.uint8),
    0x09: np.dtype(np.int8),
    0x0B: np.dtype(np.int16),
    0x0C: np.dtype(np.int32),
    0x0D: np.dtype(np.float32),
    0x0E: np.dtype(np.float64),
}
LARGEST_HEADER = 4 + 4 * 255


def read_idx(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read one idx file, plain or compressed with gzip.

    Args:
        path: the file.
    Returns:
        The array, in the machine's byte order.
    Raises:
        DataError: [E501] the file cannot be read, [E502] it is not an idx file, [E503] it is truncated or damaged,
            [E504] it is longer than its header states, [E527] it is larger than the limit.

    >>> from pullback.data import read_idx, write_idx
    >>> write_idx("images.idx.gz", np.zeros((2, 3, 3), np.uint8))
    >>> read_idx("images.idx.gz").shape
    (2, 3, 3)
    """
    path = Path(path)
    content: bytes | bytearray = reading.content(path)
    packed = content if reading.is_gzip(content) else None
    if packed is not None:
        content = reading.inflated(packed, path, LARGEST_HEADER)
    dtype, shape, start = _header(path, content)
    wanted = math.prod(shape) * dtype.itemsize
    if packed is not None:
        reading.check_size(path, shape, dtype.itemsize)
        content = reading.inflated(packed, path, start + wanted)
    found = len(content) - start
    facts = (f"header: {dtype.name} of shape {shape}", f"{wanted} bytes of elements expected")
    if found < wanted:
        raise DataError(
            "E503",
            f"{path}: the file ends before its last element",
            facts=(*facts, f"{found} found"),
            remedy="copy or download the file again",
        )
    if found > wanted:
        more = "more bytes follow" if packed else f"{found - wanted} bytes follow"
        raise DataError(
            "E504",
            f"{path}: {more} the last element",
            facts=facts if packed else (*facts, f"{found} found"),
            remedy="check that the file was written whole and is not two files joined",
        )
    reading.check_size(path, shape, dtype.itemsize)  # of a size of 0, with other extents that no array has
    big_endian = np.frombuffer(content, dtype=dtype.newbyteorder(">"), offset=start, count=math.prod(shape))
    return big_endian.reshape(shape).astype(dtype)


def write_idx(path: str | os.PathLike[str], array: NDArray[Any]) -> None:
    """Write one idx file, compressed if the name ends in `.gz`.

    Args:
        path: the file, which is written atomically.
        array: uint8, int8, int16, int32, float32 or float64.
    Raises:
        DataError: [E502] the element type has no idx code. UsageError: [E607] the file cannot be written.

    >>> from pullback.data import read_idx, write_idx
    >>> write_idx("labels.idx", np.array([3, 1], np.uint8))
    >>> read_idx("labels.idx").tolist()
    [3, 1]
    """
    path = Path(path)
    codes = {dtype: code for code, dtype in ELEMENT_TYPES.items()}
    code = codes.get(array.dtype.newbyteorder("="))
    if code is None:
        raise DataError(
            "E502",
            f"{path}: idx files cannot hold {array.dtype}",
            facts=("possible: " + ", ".join(dtype.name for dtype in codes),),
            remedy=f"array.astype(np.{'float64' if array.dtype.kind == 'f' else 'int32'})",
        )
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    content = header + array.astype(array.dtype.newbyteorder(">")).tobytes()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    write_file(path, content)


def _header(path: Path, content: bytes | bytearray) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Element type, shape and offset of the first element."""
    first = content[:4]
    dtype = ELEMENT_TYPES.get(first[2]) if len(first) == 4 and first[:2] == b"\0\0" else None
    if dtype is None:
        raise DataError(
            "E502",
            f"{path}: not an idx file",
            facts=(f"first bytes: {first.hex(' ') or 'none'}", "an idx file starts with 00 00, a type 08–0e, a rank"),
            remedy="pass a file in the idx format, plain or gzip, such as train-images-idx3-ubyte.gz",
        )
    rank = first[3]
    start = 4 + 4 * rank
    if len(content) < start:
        raise DataError(
            "E503",
            f"{path}: the file ends inside its header",
            facts=(f"rank {rank}", f"{start} bytes of header expected", f"{len(content)} found"),
            remedy="copy or download the file again",
        )
    return dtype, struct.unpack(f">{rank}I", content[4:start]), start
