"""The annotation `Array[Shape, DType]`, which type checkers read as they do NumPy's.

Array[tuple[N, Literal[10]], np.float64]       a size is Literal, a type variable, or int or Any for all sizes
Array[Any, np.floating[Any]]                   any shape; any of some element types
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from pullback.errors import TraceError
from pullback.source import user_position

__all__ = ["ArrayForm", "form_of"]

DTYPES: Final = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
                 "float64", "complex64", "complex128")  # fmt: skip


class ArrayForm(NamedTuple):
    """An annotated array: its text, its dims, and NumPy's names of the element types; None for all."""

    text: str
    dims: tuple[str, ...]
    dtypes: tuple[str, ...] | None


def form_of(items: Sequence[Any], owner: str) -> ArrayForm:
    """The form of `Array[items]`.

    Raises:
        TraceError: [E107] a size is not understood.
    """
    shape, dtype = items if len(items) == 2 else (*items, Any)
    sizes = (Ellipsis,) if shape is Any else typing.get_args(shape)
    dims = ("...",) if Ellipsis in sizes else tuple(_dim(n, owner) for n in sizes)
    text = "Any" if shape is Any else f"tuple[{', '.join(dims) or '()'}]"
    kind = typing.get_origin(dtype) or dtype  # `np.floating[Any]`
    if not (isinstance(kind, type) and issubclass(kind, np.generic)) or kind is np.generic:
        return ArrayForm(f"Array[{text}, Any]", dims, None)
    names = tuple(n for n in DTYPES if issubclass(np.dtype(n).type, kind))
    return ArrayForm(f"Array[{text}, {kind.__name__}]", dims, names)


def _dim(size: Any, owner: str) -> str:
    """A size of `tuple[...]` as a dim of the language."""
    if size is Any or size is int:
        return "_"
    if isinstance(size, typing.TypeVar):
        return size.__name__
    known = typing.get_args(size)
    if typing.get_origin(size) is typing.Literal and len(known) == 1 and type(known[0]) is int:
        return str(known[0])
    raise TraceError(
        "E107",
        f"{owner}: {size!r} is not a size",
        position=user_position(),
        remedy="`Literal[10]`, a type variable, `int` or `Any`",
    )
