"""Element types: the dtypes an array may hold, with their NumPy names.

A `DType` is one of a closed set of singletons, so it is compared by identity. Promotion follows the Python array API.
Within a kind the wider type wins, and signed and unsigned meet in a wider signed type. A mix of kinds (bool, integer,
floating) is an error that names `astype`. Python numbers are weak and take the other operand's dtype, which is
decided in `tracing`.

f16 and bf16 are storage types: inputs and results of a program may have them, but it computes in f32.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np

from pullback.records import dataclass

Kind = Literal["bool", "signed", "unsigned", "floating", "half"]


@dataclass(frozen=True, eq=False, slots=True)
class DType:
    """An element type. `name` is its form in program text and error messages."""

    name: str
    kind: Kind
    bits: int

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of the same elements, in native byte order."""
        return _NUMPY[self.name]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy dtype, which `np.dtype(x)` reads here: `np.zeros(3, x.dtype)` takes types of the language."""
        return self.numpy

    @property
    def size(self) -> int:
        """Bytes an element takes in a buffer."""
        return max(self.bits, 8) // 8

    @property
    def is_floating(self) -> bool:
        """Whether it is f32 or f64."""
        return self.kind == "floating"

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer type."""
        return self.kind in ("signed", "unsigned")

    @property
    def is_bool(self) -> bool:
        """Whether it is bool."""
        return self.kind == "bool"

    @property
    def is_half(self) -> bool:
        """Whether it is f16 or bf16, which are storage types only."""
        return self.kind == "half"

    @property
    def computed(self) -> DType:
        """The type for computation: f32 for f16 and bf16, else the type itself."""
        return f32 if self.is_half else self

    @property
    def minimum(self) -> int:
        """Smallest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "signed" else 0

    @property
    def maximum(self) -> int:
        """Largest value of an integer type."""
        return (1 << (self.bits - (self.kind == "signed"))) - 1

    def wrap(self, value: int) -> int:
        """`value` reduced modulo 2**bits into the range of this integer type."""
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if self.kind == "signed" and value > self.maximum else value

    @property
    def title(self) -> str:
        """The users' name of the type: `float32`."""
        return "bfloat16" if self.name == "bf16" else str(self.numpy)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dtype_named, (self.name,)


bool_: Final = DType("bool", "bool", 1)
i8: Final = DType("i8", "signed", 8)
i16: Final = DType("i16", "signed", 16)
i32: Final = DType("i32", "signed", 32)
i64: Final = DType("i64", "signed", 64)
u8: Final = DType("u8", "unsigned", 8)
u16: Final = DType("u16", "unsigned", 16)
u32: Final = DType("u32", "unsigned", 32)
u64: Final = DType("u64", "unsigned", 64)
f32: Final = DType("f32", "floating", 32)
f64: Final = DType("f64", "floating", 64)
f16: Final = DType("f16", "half", 16)
bf16: Final = DType("bf16", "half", 16)

DTYPES: Final = (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64)  # the types for computation
HALVES: Final = (f16, bf16)
_BY_NAME: Final = {d.name: d for d in (*DTYPES, *HALVES)}
_NUMPY: Final = {
    d.name: np.dtype({"bool": "bool", "signed": "int", "unsigned": "uint", "floating": "float"}[d.kind]
                     + ("" if d.is_bool else str(d.bits)))
    for d in DTYPES
} | {"f16": np.dtype("float16"), "bf16": np.dtype("uint16")}  # NumPy has no bfloat16: its bits
_FROM_NUMPY: Final = {d.numpy: d for d in (*DTYPES, f16)}


def dtype_named(name: str) -> DType:
    """The dtype called `name` in the text form; KeyError if there is none."""
    return _BY_NAME[name]


def dtype_of(dtype: np.dtype[np.generic]) -> DType | None:
    """The dtype of a NumPy dtype in native byte order, None if the language has no such type.

    `bfloat16` of the package ml_dtypes is known by its name.
    """
    found = _FROM_NUMPY.get(dtype)
    return bf16 if found is None and dtype.name == "bfloat16" else found


def conversion(dtype: np.dtype[Any], name: str = "") -> str:
    """The remedy for an array `name` of a dtype that the language lacks."""
    native = dtype.newbyteorder("=")
    wanted = {"f": "float64", "c": "complex128"}.get(dtype.kind) if native == dtype else native
    return f"`{name}.astype(np.{wanted})` converts it" if wanted else "convert it in NumPy first"


def bits_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """View a `bfloat16` array as its bits, on the same memory; others stay as they are."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def promote(a: DType, b: DType) -> DType | None:
    """The common dtype of two operands by the array API's table; None where the table has none."""
    a, b = a.computed, b.computed
    if a is b:
        return a
    if (a.is_floating and b.is_floating) or a.kind == b.kind:
        return a if a.bits >= b.bits else b
    if a.is_integer and b.is_integer:
        signed, unsigned = (a, b) if a.kind == "signed" else (b, a)
        bits = signed.bits if signed.bits > unsigned.bits else 2 * unsigned.bits
        return _BY_NAME.get(f"i{bits}")
    return None
