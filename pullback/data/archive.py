"""Archives of NumPy arrays (`.npz`), each array checked by its header before it is read."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.lib import format
from numpy.typing import NDArray

from pullback import reading

__all__ = ["read_archive"]


def read_archive(path: Path, wanted: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of an archive, in the order of the file.

    Args:
        path: the file.
        wanted: the names of the arrays to read; None for all.
    Raises:
        DataError: [E503] the file is not an archive, or is damaged; [E527] an array is larger than the limit.
    """
    arrays = {}
    with reading.parsing(path, "a NumPy file", "write it again with `np.savez`"), ZipFile(path) as archive:
        for member in dict.fromkeys(archive.namelist()):
            name = member.removesuffix(".npy")
            if wanted is not None and name not in wanted:
                continue
            with archive.open(member) as file:
                first = format.read_magic(file) == (1, 0)
                read = format.read_array_header_1_0 if first else format.read_array_header_2_0
                shape, _, dtype = read(file)
            reading.check_size(f"{path}, {name}", shape, dtype.itemsize)
            if math.prod(shape) * dtype.itemsize > archive.getinfo(member).file_size:
                raise ValueError(f"{name} has fewer bytes than its shape {shape} takes")
            with archive.open(member) as file:
                arrays[name] = np.asarray(format.read_array(file, allow_pickle=False))
    return arrays
