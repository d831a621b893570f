"""Trees of arrays as files: safetensors, names as paths, written whole or not at all, checked when read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pullback.errors import DataError
from pullback.files import check_place, put_file
from pullback.ir.halves import from_half
from pullback.ir.types import bf16
from pullback.lang import tree

__all__ = [
    "CHECKPOINTS", "TRAINED", "check_writable", "differences", "load_parameters", "named", "names_of", "put",
    "read", "save_parameters",
]  # fmt: skip

Arrays = dict[str, NDArray[Any]]
Names = Mapping[str, str] | Callable[[str], str]

CHECKPOINTS = "step-*.safetensors"  # the files of a folder of checkpoints
_KINDS: Final = {
    **{f"{kind}{8 * size}": f"{kind.lower()}{size}" for kind in "FIU" for size in (2, 4, 8)},
    "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
TRAINED = "parameters/"  # before the names of parameters in a checkpoint
LISTED = 8  # differences that an error shows
REMEDY = "a file that `save_parameters` or training wrote for this network"


def named(x: Any) -> Arrays:
    """The leaves of a tree, by the path to each: keys, fields and positions with / between.

    >>> from pullback.nn.parameters import named
    >>> list(named({"conv1": {"w": np.zeros(2)}, "rest": [np.ones(1)]}))
    ['conv1/w', 'rest/0']
    """
    leaves, structure = tree.flatten(x)
    return dict(zip(names_of(structure), map(np.asarray, leaves), strict=True))


def names_of(s: tree.Structure, alone: str = "value") -> list[str]:
    """The paths to the leaves of a tree, in its order; what a leaf that is no tree is called is `alone`."""
    return [alone] if s.kind == "leaf" else _paths(s, "")


def _paths(s: tree.Structure, before: str) -> list[str]:
    if s.kind == "leaf":
        return [before]
    below = f"{before}/" if before else ""
    return [path for key, child in zip(s.keys, s.children) for path in _paths(child, f"{below}{key}")]


def save_parameters(path: str | os.PathLike[str], parameters: Any) -> None:
    """Write a tree of arrays to a file; an older file stays as it is until the new one is complete.

    Args:
        path: the file.
        parameters: dicts, lists, tuples, NamedTuples and dataclasses of arrays.
    Raises:
        DataError: [E511] the file cannot be written.

    >>> from pullback import nn
    >>> nn.save_parameters("p.safetensors", {"dense1": {"w": np.ones((1, 2))}})
    >>> nn.load_parameters("p.safetensors")
    {'dense1': {'w': array([[1., 1.]])}}
    """
    put(Path(path), named(parameters), {})


def put(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> None:
    """Write named arrays and words about them to a file, at once.

    Raises:
        DataError: [E511] the file cannot be written.
    """
    from safetensors.numpy import save

    content = save({n: np.asarray(a, order="C") for n, a in arrays.items()}, {"program": "pullback", **metadata})
    try:
        put_file(path, content, sync=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Find out before long work, not after it, whether a file can be written.

    Raises:
        DataError: [E511] it cannot.
    """
    path = Path(path)
    try:
        check_place(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(
        "E511",
        f"{path}: the parameters cannot be written: {error.strerror or error}",
        facts=(f"folder: {path.parent.resolve()}",),
        remedy="a folder that exists and may be written to",
    )


def read(path: Path) -> tuple[Arrays, dict[str, str]]:
    """The arrays of a file by name, which may be written to, and the words about them.

    Raises:
        DataError: [E501] the file cannot be read, [E509] it is not a safetensors file or is damaged.
    """
    from safetensors import SafetensorError

    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError("E501", f"{path}: {error.strerror or error}", remedy=REMEDY) from error
    try:
        arrays = _arrays(content)
        words = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            "E509",
            f"{path}: not a safetensors file, or damaged",
            facts=(f"{len(content)} bytes", str(error)),
            remedy=REMEDY,
        ) from error
    return {n: np.array(a, order="C") for n, a in arrays.items()}, words


def _arrays(content: bytes) -> Arrays:
    """The arrays of a file by name; bfloat16, which NumPy has not, as float32."""
    from safetensors import deserialize

    arrays = {}
    for name, found in deserialize(content):  # type: ignore[no-untyped-call]
        kind, shape = found["dtype"], found["shape"]
        array = np.frombuffer(found["data"], np.uint16 if kind == "BF16" else _KINDS[kind])
        arrays[name] = (from_half(array, bf16) if kind == "BF16" else array).reshape(shape)
    return arrays


def load_parameters(
    path: str | os.PathLike[str], like: Any = None, *, names: Names | None = None, ignore: Sequence[str] = ()
) -> Any:
    """Read a tree of arrays.

    Args:
        path: a safetensors file, or a folder of checkpoints, of which the last one counts.
        like: a tree of arrays with the names, shapes and element types that are wanted, such as `net.init(0)[0]`;
            floating-point arrays are converted to its types, those of 16 bits too. Without it, everything is read into
            nested dicts.
        names: what an array is called in the file, for files of other programs: a mapping from our names to theirs, or
            a function.
        ignore: patterns of names in the file whose arrays are left out, for what other programs keep there besides:
            `("*.num_batches_tracked",)`.
    Returns:
        A tree like `like`, of arrays that may be written to.
    Raises:
        DataError: [E501] the file cannot be read, [E509] it is not a safetensors file, is damaged or holds values that
            are not finite, [E510] it holds other parameters: the differences are listed.
    """
    path = Path(path)
    if path.is_dir():
        path = max(path.glob(CHECKPOINTS), default=path / CHECKPOINTS)
    arrays, _ = read(path)
    if trained := {n.removeprefix(TRAINED): a for n, a in arrays.items() if n.startswith(TRAINED)}:
        arrays = trained
    arrays = {n: a for n, a in arrays.items() if not any(fnmatchcase(n, pattern) for pattern in ignore)}
    _check_finite(path, arrays)
    if like is None:
        return _nested(arrays)
    wanted = named(like)
    theirs = {n: _their_name(n, names) for n in wanted}
    wrong = differences({theirs[n]: a for n, a in wanted.items()}, arrays)
    if wrong:
        raise DataError("E510", f"{path}: not the parameters of this network", facts=wrong, remedy=REMEDY)
    ordered = [arrays[theirs[n]].astype(a.dtype, copy=False) for n, a in wanted.items()]
    return tree.unflatten(tree.flatten(like)[1], ordered)


def _their_name(name: str, names: Names | None) -> str:
    if names is None:
        return name
    return names(name) if callable(names) else names.get(name, name)


def _check_finite(path: Path, arrays: Arrays) -> None:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise DataError(
                "E509", f"{path}: {name} holds values that are not finite", remedy="train again with a smaller rate"
            )


def _nested(arrays: Arrays) -> Any:
    """Nested dicts by the parts of the names."""
    out: dict[str, Any] = {}
    for name, array in arrays.items():
        *front, last = name.split("/")
        place = out
        for part in front:
            place = place.setdefault(part, {})
        place[last] = array
    return out


def differences(wanted: Arrays, found: Arrays, exactly: bool = False) -> tuple[str, ...]:
    """What keeps arrays from being those that are wanted, in words, the first of them.

    Args:
        wanted: names with arrays of the right shape and element type.
        found: those of a file.
        exactly: whether another floating type is a difference too.
    """
    wrong = []
    for name, array in wanted.items():
        other = found.get(name)
        if other is None:
            wrong.append(f"{name} : {array.shape} is missing")
        elif other.shape != array.shape:
            wrong.append(f"{name} : {other.shape} in the file, {array.shape} in the network")
        elif other.dtype != array.dtype and (exactly or other.dtype.kind != array.dtype.kind):
            wrong.append(f"{name} : {other.dtype} in the file, {array.dtype} in the network")
    wrong += [f"{name} : {found[name].shape} is not known" for name in sorted(set(found) - set(wanted))]
    return (*wrong[:LISTED], *([f"and {len(wrong) - LISTED} more"] if len(wrong) > LISTED else []))
