"""The arguments of a call: arrays from NumPy, DLPack and buffers, and their element types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import DTypeError, TraceError
from pullback.ir import types
from pullback.ir.types import DType
from pullback.lang.handle import Handle, type_text


def as_numpy(value: Any, path: str) -> np.ndarray[Any, Any]:
    """An argument as a NumPy array, without a copy where its memory can be shared."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic | bool | int | float | list | tuple | memoryview | bytearray | bytes):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return np.asarray(value)
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        raise TraceError(
            "E138",
            f"{path}: {found_text(value)} was given where an array is needed",
            remedy="pass a NumPy array, or an object with DLPack or the buffer protocol",
        ) from None


def is_array_like(value: Any) -> bool:
    """Whether an argument without annotation is an array rather than a Python object."""
    if isinstance(value, np.ndarray | np.generic | list | tuple | memoryview | bytearray | bytes):
        return True
    return any(hasattr(value, name) for name in ("__dlpack__", "__array__", "__array_interface__"))


def numpy_dtype(array: np.ndarray[Any, Any], path: str) -> DType:
    """The dtype of a NumPy argument; foreign byte order and types without counterpart are errors."""
    found = types.dtype_of(array.dtype)
    if found is not None:
        return found
    native = array.dtype.newbyteorder("=")
    if types.dtype_of(native) is not None:
        raise DTypeError(
            "E123",
            f"{path} has foreign byte order ({array.dtype.str})",
            remedy=f"`{path}.astype(np.{native})` converts it",
        )
    raise DTypeError(
        "E122",
        f"{path} has NumPy dtype {array.dtype}, which has no counterpart in the language",
        remedy="convert it in NumPy first",
    )


def argument_type(value: Any, path: str, allowed: Sequence[DType]) -> tuple[DType | None, int]:
    """Dtype and rank of an argument; the dtype is None for Python numbers and weak values."""
    if isinstance(value, Handle):
        return value.strong, value.rank
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        return None, 0
    array = as_numpy(value, path)
    return numpy_dtype(array, path), array.ndim


def wrong_dtype(path: str, allowed: Sequence[DType], found: DType, value: Any) -> DTypeError:
    """An argument of another element type than annotated."""
    wanted = " or ".join(str(d.numpy) for d in allowed)
    how = (
        f"`{path}.astype(pb.{allowed[-1].numpy})`"
        if isinstance(value, Handle)
        else f"`{path}.astype(np.{allowed[-1].numpy})`"
    )
    return DTypeError(
        "E122", f"{path} has dtype {found.numpy}, its annotation says {wanted}", remedy=f"{how} converts it"
    )


def found_text(value: Any) -> str:
    """What was given, in messages."""
    if isinstance(value, Handle):
        return f"a traced {type_text(value)}"
    return f"a {type(value).__name__}"
