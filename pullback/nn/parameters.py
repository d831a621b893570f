"""Parameter files: trees of arrays as safetensors, written atomically and checked when read."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.errors import DataError
from pullback.files import check_place, put_file
from pullback.ir.types import dtype_of
from pullback.nn.safetensors_file import DamagedError, Words, pack, unpack
from pullback.state import registered
from pullback.tracing import tree

__all__ = [
    "CHECKPOINTS", "TRAINED", "alike", "check_writable", "checkpoints_in", "differences", "listed_differences",
    "load_parameters", "named", "names_of", "newest_intact", "put", "read", "save_parameters", "unwritable",
]  # fmt: skip

Arrays = dict[str, NDArray[Any]]
Names = Mapping[str, str] | Callable[[str], str]

CHECKPOINTS = "step-*.safetensors"  # the files of a folder of checkpoints
TRAINED = "parameters/"  # prefix of parameter names in a checkpoint
LISTED = 8  # number of differences in an error
REMEDY = "a file that `save_parameters` or training wrote for this network"
INTACT = '`resume="newest intact"` (--resume-newest-intact), or the path of that file'
_said: set[Path] = registered(set(), "files without a digest", stays="with the process: a warning is given once")


def named(x: Any) -> Arrays:
    """Return the leaves of a tree by path: keys, fields and positions joined by /.

    >>> from pullback.nn.parameters import named
    >>> list(named({"conv1": {"w": np.zeros(2)}, "rest": [np.ones(1)]}))
    ['conv1/w', 'rest/0']
    """
    leaves, structure = tree.flatten(x)
    return dict(zip(names_of(structure), map(np.asarray, leaves), strict=True))


def names_of(s: tree.Structure, alone: str = "value") -> list[str]:
    """The paths to the leaves of a tree, in order; a tree that is a single leaf is named `alone`.

    Raises:
        DataError: [E533] two leaves have the same path.
    """
    found = [alone] if s.kind == "leaf" else _paths(s, "")
    if twice := [path for path, count in Counter(found).items() if count > 1]:
        raise DataError(
            "E533", f"two arrays of a tree are called {twice[0]}", remedy="keys that differ as text and have no /"
        )
    return found


def _paths(s: tree.Structure, before: str) -> list[str]:
    if s.kind == "leaf":
        return [before]
    below = f"{before}/" if before else ""
    return [path for key, child in zip(s.keys, s.children) for path in _paths(child, f"{below}{key}")]


def save_parameters(path: str | os.PathLike[str], parameters: Any) -> None:
    """Write a tree of arrays to a file; an older file is replaced when the new one is complete.

    Args:
        path: the file.
        parameters: dicts, lists, tuples, NamedTuples and dataclasses of arrays.
    Raises:
        DataError: [E511] the file cannot be written. [E533] an array has a name or an element type that a file cannot
            hold.
    Cost:
        Two copies, a digest (0.25 s for 100 MB), and the write to disk.

    >>> from pullback import nn
    >>> nn.save_parameters("p.safetensors", {"dense1": {"w": np.ones((1, 2))}})
    >>> nn.load_parameters("p.safetensors")
    {'dense1': {'w': array([[1., 1.]])}}
    """
    put(Path(path), named(parameters), {})


def put(path: Path, arrays: Arrays, words: Words) -> None:
    """Write named arrays and metadata to a file, atomically.

    Raises:
        DataError: [E511] the file cannot be written. [E533] the format cannot hold an array.
    """
    content = pack(arrays, {"program": "pullback", **words})
    try:
        put_file(path, content, sync=True)
    except OSError as error:
        raise unwritable(path, "the parameters", error) from error


def check_writable(path: str | os.PathLike[str], what: str = "the parameters") -> None:
    """Check before a long computation that a file can be written.

    Args:
        path: the file.
        what: its content, for the message.
    Raises:
        DataError: [E511] the file cannot be written.
    """
    path = Path(path)
    try:
        check_place(path)
    except OSError as error:
        raise unwritable(path, what, error) from error


def unwritable(path: Path, what: str, error: OSError) -> DataError:
    """The error for a file that cannot be written."""
    return DataError(
        "E511",
        f"{path}: {what} cannot be written: {error.strerror or error}",
        facts=(f"folder: {path.parent.resolve()}",),
        remedy="a folder that exists and may be written to",
    )


def read(path: Path, *, foreign: bool = False) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays of a file by name, as writable arrays, and the file's metadata.

    A file without a digest, such as one from another program, gives one warning.

    Args:
        path: the file.
        foreign: whether the file is expected to be another program's, so there is no warning.
    Raises:
        DataError: [E501] the file cannot be read. [E509] It is no safetensors file, or is damaged. [E533] It holds
            unsupported element types.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError("E501", f"{path}: {error.strerror or error}", remedy=REMEDY) from error
    try:
        arrays, words, digested = unpack(content)
    except DamagedError as error:
        facts, remedy = [f"{len(content)} bytes", str(error)], REMEDY
        if fnmatchcase(path.name, CHECKPOINTS) and (intact := newest_intact(path.parent)):
            facts.append(f"the newest intact checkpoint: {intact.name}")
            remedy = INTACT
        what = f"{path}: not a safetensors file, or damaged"
        raise DataError("E509", what, facts=facts, remedy=remedy) from error
    if not digested and not foreign and path not in _said:
        _said.add(path)
        warnings.warn(f"{path} has no digest, so damage to its values would not be noticed: `nn.save_parameters` "
                      "writes one", RuntimeWarning, stacklevel=3)  # fmt: skip
    return arrays, words


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints of a folder, the oldest first.

    Raises:
        DataError: [E501] the folder cannot be read.
    """
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise DataError("E501", f"{folder}: {error.strerror or error}", remedy="a folder that may be read") from error
    return sorted(folder / name for name in names if fnmatchcase(name, CHECKPOINTS))


def newest_intact(folder: Path) -> Path | None:
    """The last readable checkpoint of a folder, or None."""
    for path in reversed(checkpoints_in(folder)):
        with suppress(OSError, DamagedError, DataError):
            unpack(path.read_bytes())
            return path
    return None


def load_parameters(
    path: str | os.PathLike[str], like: Any = None, *, names: Names | None = None, ignore: Sequence[str] = ()
) -> Any:
    """Read a tree of arrays.

    Args:
        path: a safetensors file, or a folder of checkpoints, whose last one is used.
        like: a tree of arrays with the required names, shapes and element types, such as `net.init(0)[0]`;
            floating-point arrays, also of 16 bits, are converted to its types. By default, everything is read into
            nested dicts.
        names: the names of arrays in another program's file: a mapping from our names to theirs, or a
            function.
        ignore: patterns of names in the file whose arrays are ignored, for extra arrays of other programs:
            `("*.num_batches_tracked",)`.
    Returns:
        A tree of writable arrays, with the structure of `like`.
    Raises:
        DataError: [E501] the file cannot be read. [E509] It is no safetensors file, is damaged, or holds values that
            are not finite. [E510] It holds other parameters; the differences are listed. [E533] It holds unsupported
            element types, or names that make no tree.
    """
    path = Path(path)
    if path.is_dir():
        path = next(reversed(checkpoints_in(path)), path / CHECKPOINTS)
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
    ordered = [_converted(path, theirs[n], arrays[theirs[n]], a.dtype) for n, a in wanted.items()]
    return tree.unflatten(tree.flatten(like)[1], ordered)


def _their_name(name: str, names: Names | None) -> str:
    if names is None:
        return name
    return names(name) if callable(names) else names.get(name, name)


def _converted(path: Path, name: str, array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert an array to an element type. Only floating-point numbers may be rounded.

    Raises:
        DataError: [E510] a value is too large for the element type.
    """
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        found = array.astype(dtype)
    fits = np.isfinite(found).all() if _kind(array) == "floating" else (found == array).all()
    if not fits:
        raise DataError("E510", f"{path}: {name} holds values too large for {dtype}", remedy="a wider element type")
    return found


def _check_finite(path: Path, arrays: Arrays) -> None:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise DataError(
                "E509", f"{path}: {name} holds values that are not finite", remedy="train again with a smaller rate"
            )


def _nested(arrays: Arrays) -> Any:
    """Nested dicts by the parts of the names.

    Raises:
        DataError: [E533] a name is a prefix of another path.
    """
    out: dict[str, Any] = {}
    for name, array in arrays.items():
        *front, last = name.split("/")
        place: Any = out
        for part in front:
            place = place.setdefault(part, {}) if isinstance(place, dict) else None
        if not isinstance(place, dict) or last in place:
            raise DataError(
                "E533",
                f"the name {name} and another one make no tree: one is the beginning of the other",
                remedy="`load_parameters(path, like)`, where `like` has these names",
            )
        place[last] = array
    return out


def alike(path: Path, wanted: Arrays, found: Arrays) -> list[NDArray[Any]]:
    """The arrays of a checkpoint in the required order.

    Raises:
        DataError: [E510] the arrays do not match.
    """
    if wrong := differences(wanted, found, exactly=True):
        raise DataError(
            "E510", f"{path}: not a checkpoint of this network", facts=wrong, remedy="a folder of its own for each"
        )
    return [found[n] for n in wanted]


def differences(wanted: Arrays, found: Arrays, exactly: bool = False) -> tuple[str, ...]:
    """Describe the first differences between the found and the required arrays.

    Args:
        wanted: names with arrays of the right shape and element type.
        found: the arrays of a file.
        exactly: whether a different floating-point type counts as a difference.
    """
    wrong = []
    for name, array in wanted.items():
        other = found.get(name)
        if other is None:
            wrong.append(f"{name} : {array.shape} is missing")
        elif other.shape != array.shape:
            wrong.append(f"{name} : {other.shape} in the file, {array.shape} in the network")
        elif other.dtype != array.dtype and (exactly or _kind(other) != _kind(array)):
            wrong.append(f"{name} : {other.dtype} in the file, {array.dtype} in the network")
    wrong += [f"{name} : {found[name].shape} is not known" for name in sorted(set(found) - set(wanted))]
    return listed_differences(wrong)


def listed_differences(wrong: Sequence[str]) -> tuple[str, ...]:
    """The first differences, and the number of the others."""
    return (*wrong[:LISTED], *([f"and {len(wrong) - LISTED} more"] if len(wrong) > LISTED else []))


def _kind(array: NDArray[Any]) -> str:
    """The kind of an element type; arrays are converted only within a kind."""
    found = dtype_of(array.dtype.newbyteorder("="))
    return "floating" if found is not None and found.is_half else found.kind if found is not None else array.dtype.kind
