"""The base of lazy arrays for checkers, `Array[Shape, DType]`; `typed.pyi` has the overloads."""

from __future__ import annotations

from types import GenericAlias
from typing import Any, Final, TypeVar

__all__ = ["DTypeT", "ShapeT", "Typed"]

ShapeT: Final = TypeVar("ShapeT")
DTypeT: Final = TypeVar("DTypeT")


class Typed:
    """The base of lazy arrays, which may be subscripted by shape and element type."""

    __slots__ = ()

    def __class_getitem__(cls, item: Any) -> GenericAlias:
        return GenericAlias(cls, item)
