"""The arguments of a call: arrays from NumPy, DLPack and buffers, and their element types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import DTypeError, TraceError
from pullback.ir import types
from pullback.ir.types import DType
from pullback.tracing import tree
from pullback.tracing.array import Array, type_text


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


def array_of(value: list[Any] | tuple[Any, ...], path: str, allowed: Sequence[DType]) -> Any:
    """A list of numbers as an array of an allowed element type: like Python's numbers it has none of its own.

    Raises:
        TraceError: [E138] it is ragged, or holds what are no numbers. DTypeError: [E122] numbers of another kind.
        [E124] an integer does not fit.
    """
    if any(isinstance(x, Array) for x in tree.flatten(value)[0]):
        from pullback.arrays.creation import asarray

        return asarray(value)
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    found = types.dtype_of(array.dtype)
    if found is None:
        kinds_held = {"U": "strings", "c": "complex numbers"}
        held = kinds_held.get(array.dtype.kind, "no numbers, or rows that differ in length")
        raise TraceError(
            "E138",
            f"{path}: the {type(value).__name__} holds {held}",
            remedy="nested lists of numbers, all rows of one length",
        )
    kinds = ("signed", "unsigned", "floating") if found.is_integer else (found.kind,)
    fitting = [d for d in allowed if d is found] or [d for k in kinds for d in reversed(allowed) if d.kind == k]
    if not array.size:
        fitting = [allowed[-1]]
    if not fitting:
        kind = {"b": "bools", "f": "floats"}.get(array.dtype.kind, "ints")
        raise DTypeError(
            "E122",
            f"{path} is a {type(value).__name__} of {kind}, its annotation says {dtypes_text(allowed)}",
            remedy=f"`np.array({path}).astype(np.{allowed[-1].numpy})` converts it",
        )
    target = fitting[0]
    if target.is_integer and array.size and not target.minimum <= array.min() <= array.max() <= target.maximum:
        odd = array.min() if array.min() < target.minimum else array.max()
        raise DTypeError("E124", f"{path} holds {odd}, which does not fit {target}", remedy="another element type")
    return array.astype(target.numpy)


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
    if isinstance(value, Array):
        return value.strong and value.storage, value.rank
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        return None, 0
    array = as_numpy(value, path)
    return numpy_dtype(array, path), array.ndim


def dtypes_text(allowed: Sequence[DType]) -> str:
    """`float32 or float64`."""
    return " or ".join(d.title for d in allowed)


def wrong_dtype(path: str, allowed: Sequence[DType], found: DType, value: Any) -> DTypeError:
    """An argument of another element type than annotated."""
    wanted = dtypes_text(allowed)
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        kind = type(value).__name__
        python = "bool" if allowed[-1].is_bool else "int" if allowed[-1].is_integer else "float"
        what = f"{path} is {value!r}, a {kind}; its annotation says {wanted}"
        return DTypeError("E122", what, remedy=f"`{python}({path})`")
    module = "pb" if isinstance(value, Array) else "np"
    return DTypeError(
        "E122",
        f"{path} has dtype {found.title}, its annotation says {wanted}",
        remedy=f"`{path}.astype({module}.{allowed[-1].title})` converts it",
    )


def found_text(value: Any) -> str:
    """What was given, in messages."""
    if isinstance(value, Array):
        return f"a traced {type_text(value)}"
    kind = type(value).__name__
    return "None" if value is None else f"{'an' if kind[0] in 'aeioAEIO' else 'a'} {kind}"
