"""Questions about element types: isdtype, result_type, can_cast, finfo, iinfo, and what the namespace offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pullback.errors import DTypeError
from pullback.ir import types
from pullback.ir.types import DType, promote
from pullback.lang.elementwise import dtype_from
from pullback.lang.handle import Handle
from pullback.source import user_position

_KINDS: Final = {
    "bool": ("bool",),
    "signed integer": ("signed",),
    "unsigned integer": ("unsigned",),
    "integral": ("signed", "unsigned"),
    "real floating": ("floating", "half"),
    "complex floating": (),
    "numeric": ("signed", "unsigned", "floating", "half"),
}


@dataclass(frozen=True)
class FloatInfo:
    """What a floating-point type holds: its width in bits, and numbers about it."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """What an integer type holds: its width in bits, its largest and smallest number."""

    bits: int
    max: int
    min: int
    dtype: DType


def _type_of(x: Any) -> DType:
    if isinstance(x, Handle):
        return x.storage
    return dtype_from(x.dtype if isinstance(x, np.ndarray | np.generic) else x)


def finfo(type: Any, /) -> FloatInfo:
    """What a floating-point type, or that of an array, holds.

    >>> pb.finfo(pb.float32).eps
    1.1920928955078125e-07
    """
    dtype = _type_of(type)
    if not dtype.computed.is_floating:
        raise DTypeError("E121", f"finfo is about floating-point types, not {dtype}", position=user_position())
    if dtype is types.bf16:
        largest = float.fromhex("0x1.fep127")
        return FloatInfo(16, 2.0**-7, largest, -largest, 2.0**-126, dtype)
    found: Any = np.finfo(dtype.title)
    eps, largest, smallest, normal = map(float, (found.eps, found.max, found.min, found.smallest_normal))
    return FloatInfo(dtype.bits, eps, largest, smallest, normal, dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """What an integer type, or that of an array, holds.

    >>> pb.iinfo(pb.int8).min
    -128
    """
    dtype = _type_of(type)
    if not dtype.is_integer:
        raise DTypeError("E121", f"iinfo is about integer types, not {dtype}", position=user_position())
    return IntegerInfo(dtype.bits, dtype.maximum, dtype.minimum, dtype)


def isdtype(dtype: Any, kind: Any, /) -> bool:
    """Whether an element type is another one, or of a kind: "bool", "integral", "real floating", "numeric", ...

    >>> pb.isdtype(pb.int8, ("bool", "integral"))
    True
    """
    mine = dtype_from(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(mine, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return mine.kind in _KINDS[kind]
    if isinstance(kind, str):
        raise DTypeError(
            "E122",
            f"isdtype: there is no kind {kind!r}",
            position=user_position(),
            remedy="one of " + ", ".join(map(repr, _KINDS)),
        )
    return mine is dtype_from(kind)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether one element type is promoted to another: whether all of its numbers are numbers of that one too.

    >>> pb.can_cast(pb.int8, pb.int16), pb.can_cast(pb.int16, pb.int8)
    (True, False)
    """
    given, wanted = _type_of(from_), dtype_from(to)
    return given is wanted or promote(given, wanted) is wanted


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The element type that arrays, types and Python numbers have together.

    Raises:
        DTypeError: [E120] they have none.

    >>> pb.result_type(pb.int8, pb.uint8, 3)
    i16
    """
    weak = [x for x in arrays_and_dtypes if isinstance(x, bool | int | float)]
    strong = [_type_of(x).computed for x in arrays_and_dtypes if not isinstance(x, bool | int | float)]
    common: DType | None = strong[0] if strong else None
    for dtype in strong[1:]:
        common = common and promote(common, dtype)
    kinds = {bool: 0, int: 1, float: 2}
    highest = max((kinds[type(x)] for x in weak), default=0)
    own = -1 if common is None else 0 if common.is_bool else 2 if common.is_floating else 1
    if not strong and weak:
        return (types.bool_, types.i64, types.f64)[highest]
    bools_mixed = any(isinstance(x, bool) for x in weak) and own > 0
    if common is None or highest > own or bools_mixed:
        raise DTypeError(
            "E120",
            f"result_type: {' and '.join(map(repr, [*strong, *weak]))} have no common element type",
            position=user_position(),
            remedy="convert one side with `astype`",
        )
    return common


class NamespaceInfo:
    """What there is, in the form that the Python array API asks for."""

    def capabilities(self) -> dict[str, Any]:
        """No shape depends on data: there is no indexing by masks, and no function whose result has such a shape."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": None}

    def default_device(self) -> str:
        """The processor."""
        return "cpu"

    def devices(self) -> list[str]:
        """The processor alone."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The element types of numbers that nothing else decides; f32 for floats where all floating inputs are f32."""
        return {"real floating": types.f64, "integral": types.i64, "indexing": types.i64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The element types by name, all or those of a kind."""
        return {str(d.numpy): d for d in types.DTYPES if kind is None or isdtype(d, kind)}


def namespace_info() -> NamespaceInfo:
    """What the namespace offers, as the Python array API asks: capabilities, devices, element types.

    >>> sorted(pb.__array_namespace_info__().dtypes(kind="real floating"))
    ['float32', 'float64']
    """
    return NamespaceInfo()
