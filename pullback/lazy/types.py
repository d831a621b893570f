"""Array types, interned: dtype and shape, known before the value."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from pullback.arrays.complex_parts import pair
from pullback.errors import DTypeError
from pullback.ir.index import as_index
from pullback.ir.types import DType, bf16, dtype_of
from pullback.source import user_position
from pullback.state import registered
from pullback.tracing.complex_array import ComplexType, complex_type
from pullback.tracing.making import from_ref
from pullback.tracing.tracer import Tracer

__all__ = ["IN_USE", "ArrayType", "array_type", "type_of_value"]

_KNOWN: Final[dict[Any, ArrayType]] = registered(
    {}, "element types and shapes met", stays="with the process: compared by identity"
)

IN_USE: Final[set[str]] = registered(set(), "devices of this computer", stays="with the types")  # of any lazy array


class ArrayType:
    """An element type and a shape. Types are compared by identity: `array_type` returns the unique object.

    Attributes:
        dtype: the element type.   shape: the size along each axis.   numpy: the NumPy dtype.
        floating: whether elements have derivatives.   bytes: the size of all elements in bytes.
        form: 2 if programs take two arrays, real and imaginary part; otherwise 0 (`tracing.tree.form`).
        device: the device of the elements, such as "cuda:0"; "" for the processor.
    """

    __slots__ = ("bytes", "device", "dtype", "floating", "form", "numpy", "shape")

    def __init__(self, dtype: DType | ComplexType, shape: tuple[int, ...], device: str) -> None:
        self.dtype = dtype
        self.shape = shape
        self.device = device
        self.numpy: np.dtype[Any] = dtype.numpy
        self.bytes = self.numpy.itemsize * prod(shape)
        self.form = 2 if isinstance(dtype, ComplexType) else 0
        self.floating = isinstance(dtype, ComplexType) or dtype.computed.is_floating

    @property
    def part(self) -> DType:
        """The element type of the arrays that represent the array in a program."""
        return self.dtype.part if isinstance(self.dtype, ComplexType) else self.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def enter(self, tracer: Tracer, name: str) -> Any:
        """Add a traced input of this type, which messages do not name."""
        extents = [as_index(n) for n in self.shape]
        made = []
        for suffix in ("_re", "_im") if self.form else ("",):
            made.append(from_ref(tracer.input(f"{name}{suffix}", self.part, extents)))
            made[-1].name = None
        return pair(*made) if self.form else made[0]

    def on(self, device: str) -> ArrayType:
        """The type of such an array on a device; "" for the processor."""
        return self if device == self.device else array_type(self.dtype, self.shape, device)

    def __repr__(self) -> str:
        shape = f"{list(self.shape)}" if self.shape else ""
        return f"{self.dtype}{shape} on {self.device}" if self.device else f"{self.dtype}{shape}"


def array_type(dtype: DType | ComplexType, shape: tuple[int, ...], device: str = "") -> ArrayType:
    """The type with this element type and shape, on a device; "" for the processor.

    Raises:
        DTypeError: [E122] the element type is bfloat16, which NumPy cannot sum, or complex on a device.
    """
    if dtype is bf16:
        raise DTypeError("E122", "lazy arrays hold no bfloat16", position=user_position(),
                         remedy="`astype(np.float32)` loses nothing, and a `pb.function` takes bfloat16")
    if device and isinstance(dtype, ComplexType):
        raise DTypeError("E122", f"{device} holds no complex lazy arrays", position=user_position(),
                         remedy='two arrays; `x.to_device("cpu")`; or `lazy.lift` of a function with real results')
    key = (dtype, shape, device) if device else (dtype, shape)
    found = _KNOWN.get(key)
    if found is None:
        if device:
            IN_USE.add(device)
        found = _KNOWN.setdefault(key, ArrayType(dtype, shape, device))
    return found


def type_of_value(value: np.ndarray[Any, Any]) -> ArrayType | None:
    """The type of a NumPy array; None if the language has no such element type."""
    found = _KNOWN.get((value.dtype, value.shape))
    if found is None:
        dtype = complex_type(value.dtype) if value.dtype.kind == "c" else dtype_of(value.dtype)
        if dtype is None:
            return None
        found = _KNOWN[value.dtype, value.shape] = array_type(dtype, value.shape)
    return found
