"""Helpers shared by operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.errors import DataError, ShapeError
from pullback.ir.types import DType, dtype_of
from pullback.nn.layers.windows import named
from pullback.onnx.operators.table import WrongNode

__all__ = ["DTYPES", "NARROW", "axis_of", "build", "check_table", "constant", "dtype_named", "floating", "integers",
           "is_floating", "number", "numbers", "traced"]  # fmt: skip

NAMES: Final = "ijklmnabcd"
LARGEST_TABLE: Final = 1 << 27  # bytes

# The codes of supported element types in a file (TensorProto.DataType).
DTYPES: Final = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
                 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float32",
                 18: "float32", 19: "float32", 20: "float32", 21: "uint8", 22: "int8", 23: "float32", 24: "float32",
                 25: "uint8", 26: "int8"}  # fmt: skip

# Types of eight bits and fewer, whose values are held in wider types. `Cast` rounds to them.
NARROW: Final = {17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4",
                 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2"}  # fmt: skip


def dtype_named(code: int) -> DType:
    """The element type of a code.

    Raises:
        WrongNode: the element type is not supported.
    """
    if code not in DTYPES:
        raise WrongNode(f"elements of type {code}, which arrays here do not have")
    found: DType = getattr(pb, DTYPES[code])
    return found


def is_floating(x: Any) -> bool:
    """Whether the elements are floating-point numbers."""
    return bool(pb.isdtype(x.dtype, "real floating"))


def floating(x: Any) -> Any:
    """Convert integers and 16-bit floats to f32; return other arrays unchanged."""
    return x if x.dtype in (pb.float32, pb.float64) else pb.astype(x, pb.float32)


def traced(value: Any) -> Any:
    """Turn a value into a part of the program: a number, or a constant array."""
    if not isinstance(value, np.ndarray):
        return value
    if value.ndim == 0 and dtype_of(value.dtype) is not None and value.dtype.kind in "biuf":
        return pb.asarray(value.item(), dtype=dtype_of(value.dtype))
    return pb.asarray(constant(value))


def constant(value: Any) -> np.ndarray[Any, Any]:
    """Return a read-only NumPy array, which exported C contains as a table."""
    copy = np.array(value, order="C")
    copy.setflags(write=False)
    return copy


def number(extent: Any) -> int:
    """Return a size as a number.

    Raises:
        ShapeError: [E117] the size is open; the function is then traced for the sizes of each call.
    """
    if isinstance(extent, int | np.integer):
        return int(extent)
    raise ShapeError("E117", f"a size is needed as a number, and is {extent}", remedy="`dims=` when it is loaded")


def numbers(extents: Iterable[Any]) -> tuple[int, ...]:
    """Sizes as numbers."""
    return tuple(number(e) for e in extents)


def integers(value: Any, default: Iterable[int] = ()) -> list[int]:
    """Convert a known array, an attribute or a missing value to a list of ints."""
    if value is None:
        return list(default)
    return [int(v) for v in np.asarray(value).reshape(-1)]


def axis_of(axis: Any, rank: int) -> int:
    """Convert an axis to a nonnegative number.

    Raises:
        WrongNode: the axis is out of range.
    """
    found = int(np.asarray(axis).reshape(()))
    if not -rank <= found < max(rank, 1):
        raise WrongNode(f"axis {found} of an array with {rank}")
    return found % rank if rank else 0


def check_table(*extents: Any) -> None:
    """Check the size of a table of numbers that an operator computes during tracing.

    Raises:
        DataError: [E527] it is too large.
    """
    size = 8 * prod(int(e) for e in extents)
    if size > LARGEST_TABLE:
        raise DataError("E527", f"a table for its result has {size} bytes", facts=[f"limit: {LARGEST_TABLE} bytes"],
                        remedy="smaller sizes in the model")  # fmt: skip


def build(shape: Sequence[Any], f: Callable[..., Any]) -> Any:
    """Call `pb.build` for a function of any number of indices; the indices get names."""
    return pb.build(tuple(shape), named(NAMES[: len(shape)], f))
