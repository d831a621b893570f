"""Weights of torchvision's and timm's models, by a table of names for each architecture."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pullback.errors import DataError
from pullback.nn.layer import Layer
from pullback.nn.parameters import listed_differences, read

__all__ = ["File", "Table", "from_file"]

File = str | os.PathLike[str]
Table = Mapping[str, str]
"""The layers of an architecture by their paths, and their names in a file."""

Arrays = dict[str, NDArray[Any]]
ARRAYS: Final = {
    "w": "weight", "b": "bias", "scale": "weight", "shift": "bias", "mean": "running_mean", "variance": "running_var",
}  # fmt: skip
COUNTER: Final = "num_batches_tracked"  # of batches: PyTorch needs it for averages without momentum
PICKLES: Final = (b"PK\x03\x04", b"\x80")  # how files of `torch.save` begin
CONVERSION: Final = (
    "in Python with PyTorch: `import torch; from safetensors.torch import save_file` and "
    '`save_file(torch.load("{name}", weights_only=True), "{stem}.safetensors")`'
)


def from_file(
    net: Layer, path: File | None, tables: Sequence[Table], heads: Sequence[str], ignore: tuple[str, ...] = ()
) -> Layer:
    """Return a network that begins with the arrays of a file.

    Args:
        net: the network.
        path: a safetensors file with PyTorch's names; None for the network as it is.
        tables: the names of the layers in files, of one program each. The one with most names in the file is taken.
        heads: the layers that give the scores; they begin anew if the file has another number of classes.
        ignore: beginnings of names in the file that are left out.
    Raises:
        DataError: [E501] the file cannot be read. [E509] It is no safetensors file. [E510] Its arrays are those of
            another network; the differences are listed.
    """
    if path is None:
        return net
    found = _read(Path(path), ignore)
    wanted = {
        (what, *place): array
        for what in ("parameters", "state")
        for place, array in net.type.wanted(what)
        if array.dtype is None  # not the keys of random numbers
    }
    names = max((_names(wanted, table) for table in tables), key=lambda names: len(set(names.values()) & found.keys()))
    shapes = {names[place]: tuple(e.constant for e in w.extents) for place, w in wanted.items()}
    kept = {n: a for n, a in found.items() if n in shapes}
    for head in heads:
        own = {names[place] for place in wanted if "/".join(place[1:-1]) == head}
        if any(n in kept and kept[n].shape[:1] != shapes[n][:1] for n in own):  # another number of classes
            shapes = {n: shape for n, shape in shapes.items() if n not in own}
            found = {n: a for n, a in found.items() if n not in own}
    arrays = {n: _as_dense(a, shapes.get(n, ())) for n, a in found.items()}
    _check(Path(path), shapes, arrays)
    trees: dict[str, Any] = {"parameters": {}, "state": {}}
    for place in wanted:
        if names[place] in shapes:
            _put(trees, place, arrays[names[place]])
    return net.starting_from(trees["parameters"], trees["state"])


def _read(path: Path, ignore: tuple[str, ...]) -> Arrays:
    """The arrays of a file but for counters of batches.

    Raises:
        DataError: [E509] the file holds pickled objects, which may run any program when they are read.
    """
    try:
        with path.open("rb") as file:
            first = file.read(9)
    except OSError as error:
        raise DataError("E501", f"{path}: {error.strerror or error}", remedy="a safetensors file") from error
    if first.startswith(PICKLES) and first[8:] != b"{":  # a length may begin like a pickle
        raise DataError(
            "E509",
            f"{path}: a file of `torch.save`, which is not read: it may hold any program",
            remedy=CONVERSION.format(name=path.name, stem=path.stem),
        )
    arrays, _ = read(path, foreign=True)
    return {n: a for n, a in arrays.items() if not n.endswith(COUNTER) and not n.startswith(ignore or ("\0",))}


def _names(wanted: Iterable[tuple[str, ...]], table: Table) -> dict[tuple[str, ...], str]:
    """The name in the file of each array of the network."""
    return {place: f"{table['/'.join(place[1:-1])]}.{ARRAYS[place[-1]]}" for place in wanted}


def _as_dense(array: NDArray[Any], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Weights of a dense layer that the file has as a convolution over the whole image."""
    return array.reshape(len(array), prod(array.shape[1:])) if array.ndim > 2 == len(shape) else array


def _check(path: Path, shapes: Mapping[str, tuple[int | None, ...]], arrays: Arrays) -> None:
    """Compare names and shapes; sizes that depend on the image are open.

    Raises:
        DataError: [E509] a value is not finite. [E510] There are differences.
    """
    wrong = []
    for name, shape in shapes.items():
        text = f"({', '.join('…' if n is None else str(n) for n in shape)})"
        if name not in arrays:
            wrong.append(f"{name} : {text} is missing")
        elif len(shape) != arrays[name].ndim or any(n not in (None, m) for n, m in zip(shape, arrays[name].shape)):
            wrong.append(f"{name} : {arrays[name].shape} in the file, {text} in the network")
        elif arrays[name].dtype.kind != "f":
            wrong.append(f"{name} : {arrays[name].dtype} in the file, and floating-point numbers in the network")
        elif not np.isfinite(arrays[name]).all():
            raise DataError("E509", f"{path}: {name} holds values that are not finite", remedy="another file")
    wrong += [f"{name} : {arrays[name].shape} is not known" for name in arrays if name not in shapes]
    if wrong:
        raise DataError("E510", f"{path}: not the weights of this network", facts=listed_differences(wrong),
                        remedy="a file of this architecture, with the names of torchvision or timm")  # fmt: skip


def _put(tree: dict[str, Any], place: tuple[str, ...], array: NDArray[Any]) -> None:
    for name in place[:-1]:
        tree = tree.setdefault(name, {})
    tree[place[-1]] = array
