"""Parameter files: safetensors, written whole or not at all, checked when read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pullback.errors import DataError
from pullback.files import check_place, put_file
from pullback.ir.halves import from_half
from pullback.ir.types import bf16
from pullback.nn.network import Network

__all__ = ["check_writable", "load_parameters", "save_parameters"]

_KINDS: Final = {
    **{f"{kind}{8 * size}": f"{kind.lower()}{size}" for kind in "FIU" for size in (2, 4, 8)},
    "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
REMEDY = "pass a file that `--save` wrote for this network"


def save_parameters(path: str | os.PathLike[str], network: Network, parameters: Any) -> None:
    """Write parameters to a file; an older file stays as it is until the new one is complete.

    Args:
        path: the file.
        network: whose parameters.
        parameters: an instance of `network.parameters`.
    Raises:
        DataError: [E511] the file cannot be written.
    """
    from safetensors.numpy import save

    path = Path(path)
    arrays = {name: np.ascontiguousarray(array) for name, array in parameters._asdict().items()}
    content = save(arrays, metadata={"network": network.name, "program": "pullback"})
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


def load_parameters(path: str | os.PathLike[str], network: Network, dtype: Any = np.float32) -> Any:
    """Read parameters of a network.

    Args:
        path: a file that `save_parameters` wrote.
        network: whose parameters are expected.
        dtype: the element type wanted; other floating types are converted, those of 16 bits too.
    Returns:
        An instance of `network.parameters`.
    Raises:
        DataError: [E501] the file cannot be read, [E509] it is not a safetensors file or is damaged, [E510] it holds
            the parameters of another network.
    """
    from safetensors import SafetensorError

    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError("E501", f"{path}: {error.strerror or error}", remedy=REMEDY) from error
    try:
        arrays = _arrays(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise DataError(
            "E509",
            f"{path}: not a safetensors file, or damaged",
            facts=(f"{len(content)} bytes", str(error)),
            remedy=REMEDY,
        ) from error
    wrong = _differences(network, arrays)
    if wrong:
        raise DataError("E510", f"{path}: not the parameters of {network.name}", facts=wrong, remedy=REMEDY)
    ordered = {name: np.ascontiguousarray(arrays[name], dtype=dtype) for name in network.shapes}
    for name, array in ordered.items():
        if not np.isfinite(array).all():
            raise DataError(
                "E509", f"{path}: {name} holds values that are not finite", remedy="train again with a smaller rate"
            )
    return network.parameters(**ordered)


def _arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name; bfloat16, which NumPy has not, as float32."""
    from safetensors import deserialize

    arrays = {}
    for name, found in deserialize(content):  # type: ignore[no-untyped-call]
        kind, shape = found["dtype"], found["shape"]
        array = np.frombuffer(found["data"], np.uint16 if kind == "BF16" else _KINDS[kind])
        arrays[name] = (from_half(array, bf16) if kind == "BF16" else array).reshape(shape)
    return arrays


def _differences(network: Network, arrays: dict[str, NDArray[Any]]) -> tuple[str, ...]:
    """What keeps the arrays from being parameters of the network, in words."""
    wrong = []
    for name, shape in network.shapes.items():
        if name not in arrays:
            wrong.append(f"{name} : {shape} is missing")
        elif arrays[name].shape != shape:
            wrong.append(f"{name} : {arrays[name].shape} in the file, {shape} in {network.name}")
        elif arrays[name].dtype.kind != "f":
            wrong.append(f"{name} holds {arrays[name].dtype}")
    wrong += [f"{name} : {arrays[name].shape} is not known" for name in sorted(set(arrays) - set(network.shapes))]
    return tuple(wrong[:4])
