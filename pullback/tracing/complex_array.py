"""Complex arrays: pairs of real arrays that act as one.

The core has no complex numbers. A complex array is a pair of real ones, its real and imaginary part, also at every
boundary (a tree of two leaves). So passes, derivatives and C need no changes, and loops run over plain floats. This
module defines the pair. `pullback.arrays.complex` has its arithmetic, `pullback.arrays.by_parts` the functions that
only move elements, or add and multiply them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from pullback.ir import types
from pullback.ir.index import Index
from pullback.ir.types import DType
from pullback.records import dataclass
from pullback.tracing.array import Array, TracedArray, shape_text, twin


@dataclass(frozen=True)
class ComplexType:
    """The element type of a complex array; its parts are of the type `part`."""

    name: str
    part: DType
    kind: ClassVar[str] = "complex"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        return np.dtype(self.name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype, which `np.dtype(x)` reads here."""
        return self.numpy

    def __repr__(self) -> str:
        return self.name


complex64: Final = ComplexType("complex64", types.f32)
complex128: Final = ComplexType("complex128", types.f64)
_TYPES: Final[dict[Any, ComplexType]] = {
    key: t for t in (complex64, complex128) for key in (t, t.name, t.numpy, t.numpy.type)
} | {complex: complex128, "complex": complex128}


def complex_type(dtype: object) -> ComplexType | None:
    """The complex type for a dtype; None if it is not complex."""
    try:
        return _TYPES.get(dtype)
    except TypeError:
        return None


class ComplexArray(TracedArray["ComplexArray"]):
    """A complex array, with parts `real` and `imag` of one shape and element type.

    Indexing, slicing, operators and methods follow the Python array API standard. Complex numbers are not ordered.
    Methods apply to both parts, at twice the cost. A product takes four real products, a quotient some ten operations.

    >>> pb.function(lambda z: (z * z.conj()).real + z.imag)(np.array([1.0 + 2.0j])).tolist()
    [7.0]
    """

    __slots__ = ("imag", "real")

    real: Array
    imag: Array

    def __init__(self, real: Array, imag: Array) -> None:
        self.real, self.imag = twin(real), twin(imag)  # which writes to other arrays leave as they are

    @property
    def extents(self) -> tuple[Index, ...]:  # type: ignore[override]
        """The shape as dims."""
        return self.real.extents

    @property
    def name(self) -> str | None:  # type: ignore[override]
        """The name of the array in messages, if known."""
        return self.real.name

    @property
    def weak(self) -> None:  # type: ignore[override]
        """None, as a complex array has a type, even if its parts are Python numbers."""

    @property
    def index(self) -> None:  # type: ignore[override]
        """None, as a complex number is not an index."""

    @property
    def dtype(self) -> ComplexType:
        """The element type."""
        return complex64 if self.real.settled is types.f32 else complex128

    def conj(self) -> ComplexArray:
        """The conjugate.

        >>> pb.function(lambda z: z.conj())(np.array([2.0j])).tolist()
        [-2j]
        """
        return ComplexArray(self.real, -self.imag)

    @property
    def type_text(self) -> str:
        """The type in messages: complex128[N, M]."""
        return f"{self.dtype}{shape_text(self.extents) if self.extents else ''}"

    def __repr__(self) -> str:
        return f"<{self.type_text}>"


@dataclass(frozen=True)
class Parts:
    """A replacement for a complex array that applies properties to its parts."""

    real: Any
    imag: Any


def is_complex(x: object) -> bool:
    """Whether x is a complex array or number, traced or not."""
    if type(x) is Array:  # nearly all
        return False
    return isinstance(x, ComplexArray | complex | np.complexfloating) or (
        isinstance(x, np.ndarray) and x.dtype.kind == "c"
    ) or getattr(type(x), "is_pair", False)  # an array on a device


def joined(real: Any, imag: Any) -> Any:
    """Join two parts, traced, of NumPy or on a device, to a complex array; anything else to a pair."""
    if isinstance(real, Array) and isinstance(imag, Array):
        return ComplexArray(real, imag)
    if isinstance(real, np.ndarray | np.generic) and isinstance(imag, np.ndarray | np.generic):
        out = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
        out.real, out.imag = real, imag
        return out[()] if out.ndim == 0 else out
    pair_with = getattr(real, "pair_with", None)
    return Parts(real, imag) if pair_with is None else pair_with(imag)
