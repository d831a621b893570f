"""Queries about dtypes: isdtype, result_type, can_cast, finfo, iinfo, and the namespace's features."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pullback.errors import DTypeError
from pullback.ir import types
from pullback.ir.types import DType, promote
from pullback.records import dataclass
from pullback.source import user_position
from pullback.tracing.arithmetic import dtype_from
from pullback.tracing.array import Array
from pullback.tracing.complex_array import ComplexArray, ComplexType, complex64, complex128, complex_type

_KINDS: Final = {
    "bool": ("bool",),
    "signed integer": ("signed",),
    "unsigned integer": ("unsigned",),
    "integral": ("signed", "unsigned"),
    "real floating": ("floating", "half"),
    "complex floating": ("complex",),
    "numeric": ("signed", "unsigned", "floating", "half", "complex"),
}

_RANKS: Final = {"bool": 0, "signed": 1, "unsigned": 1, "floating": 2, "half": 2, "complex": 3}
API_VERSION: Final = "2025.12"  # version of the Python array API standard


@dataclass(frozen=True)
class FloatInfo:
    """Properties of a floating-point type: width in bits and limits."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """Properties of an integer type: width in bits, maximum and minimum."""

    bits: int
    max: int
    min: int
    dtype: DType


Kind = DType | ComplexType


def _named(x: Any) -> Kind:
    """The type for a name, a NumPy type or a type of the language."""
    return complex_type(x) or dtype_from(x)


def _type_of(x: Any) -> Kind:
    """The type for a name or type, or the type of an array."""
    if isinstance(x, Array):
        return x.storage
    return _named(x.dtype if isinstance(x, np.ndarray | np.generic | ComplexArray) else x)


def _promoted(a: Kind, b: Kind) -> Kind | None:
    """The promoted type of two; for complex types, the one whose parts have the promoted part type."""
    if not isinstance(a, ComplexType) and not isinstance(b, ComplexType):
        return promote(a, b)
    first, second = (t.part if isinstance(t, ComplexType) else t for t in (a, b))
    part = promote(first, second) if first.is_floating and second.is_floating else None
    return None if part is None else complex64 if part is types.f32 else complex128


def finfo(type: Any, /) -> FloatInfo:
    """Limits of a floating-point type, or of an array's type; for complex types, those of the parts.

    >>> pb.finfo(pb.float32).eps
    1.1920928955078125e-07
    """
    found = _type_of(type)
    dtype = found.part if isinstance(found, ComplexType) else found
    if not dtype.computed.is_floating:
        raise DTypeError("E121", f"finfo is about floating-point types, not {dtype}", position=user_position())
    if dtype is types.bf16:
        largest = float.fromhex("0x1.fep127")
        return FloatInfo(16, 2.0**-7, largest, -largest, 2.0**-126, dtype)
    info: Any = np.finfo(dtype.title)
    eps, largest, smallest, normal = map(float, (info.eps, info.max, info.min, info.smallest_normal))
    return FloatInfo(dtype.bits, eps, largest, smallest, normal, dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """Limits of an integer type, or of an array's type.

    >>> pb.iinfo(pb.int8).min
    -128
    """
    dtype = _type_of(type)
    if isinstance(dtype, ComplexType) or not dtype.is_integer:
        raise DTypeError("E121", f"iinfo is about integer types, not {dtype}", position=user_position())
    return IntegerInfo(dtype.bits, dtype.maximum, dtype.minimum, dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype equals another, or is of a kind: "bool", "integral", "real floating", ...

    >>> pb.isdtype(pb.int8, ("bool", "integral"))
    True
    """
    mine = _named(dtype)
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
    return mine is _named(kind)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether one dtype promotes to another, so that all its values are representable there.

    >>> pb.can_cast(pb.int8, pb.int16), pb.can_cast(pb.int16, pb.int8)
    (True, False)
    """
    given, wanted = _type_of(from_), _named(to)
    return given is wanted or _promoted(given, wanted) is wanted


def result_type(*arrays_and_dtypes: Any) -> Kind:
    """The common element type of arrays, types and Python numbers.

    Raises:
        DTypeError: [E120] there is no common type.

    >>> pb.result_type(pb.int8, pb.uint8, 3), pb.result_type(pb.float32, 1j)
    (i16, complex64)
    """
    order = (bool, int, float, complex)
    weak = [x for x in arrays_and_dtypes if type(x) in order]
    strong = [t if isinstance(t, ComplexType) else t.computed
              for t in (_type_of(x) for x in arrays_and_dtypes if type(x) not in order)]  # fmt: skip
    highest = max((order.index(type(x)) for x in weak), default=0)
    if not strong and weak:
        return (types.bool_, types.i64, types.f64, complex128)[highest]
    common: Kind | None = strong[0] if strong else None
    for dtype in strong[1:]:
        common = common and _promoted(common, dtype)
    if highest == 3 and common is not None:
        common = _promoted(common, complex64)
    own = -1 if common is None else _RANKS[common.kind]
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
    """The namespace's features, in the form of the Python array API."""

    def capabilities(self) -> dict[str, Any]:
        """The capabilities: no data-dependent shapes, hence no boolean masks."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": None}

    def default_device(self) -> str:
        """The processor."""
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """The only device, the processor."""
        return ("cpu",)

    def default_dtypes(self, *, device: Any = None) -> dict[str, Kind]:
        """The default dtypes; floats are f32 if all floating inputs are."""
        return {"real floating": types.f64, "complex floating": complex128, "integral": types.i64,
                "indexing": types.i64}  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Kind]:
        """The dtypes by name, all or of a kind."""
        found = (*types.DTYPES, complex64, complex128)
        return {str(d.numpy): d for d in found if kind is None or isdtype(d, kind)}


def namespace_info() -> NamespaceInfo:
    """The namespace's features for the Python array API: capabilities, devices, dtypes.

    >>> sorted(pb.__array_namespace_info__().dtypes(kind="real floating"))
    ['float32', 'float64']
    """
    return NamespaceInfo()
