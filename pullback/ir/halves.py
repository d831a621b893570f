"""Conversion of 16-bit storage, f16 and bf16, to and from f32.

f16 is the binary16 of IEEE 754: 5 bits of exponent, 10 of mantissa. bf16 is the upper half of an f32. Every number of
either is an f32. In the other direction a number is rounded to the nearest, ties to even; beyond the largest it becomes
infinite. In both directions NaN keeps its sign and the upper bits of its mantissa. The first of these is set, so NaN is
quiet. An f64 is rounded once, through an f32 that is odd where it is not exact (Boldo and Melquiond 2008, Emulation of
FMA and correctly rounded sums).

This is the reference in NumPy, on bits; targets agree with it bit by bit (`codegen/c/halves.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.ir.types import DType

NDArray = np.ndarray[Any, Any]


def from_half(bits: Any, dtype: DType) -> NDArray:
    """Convert arrays of bits to their numbers, as f32."""
    h: NDArray = np.asarray(bits).astype(np.uint32)
    if dtype.name == "bf16":
        wide: NDArray = h << np.uint32(16)
        nan = (h & 0x7FFF) > 0x7F80
    else:
        sign, rest = (h & 0x8000) << np.uint32(16), h & 0x7FFF
        small = rest.astype(np.float32) * np.float32(2.0**-24)  # with the least exponent the mantissa is the number
        normal = (rest << np.uint32(13)) + np.uint32(112 << 23)
        special = np.uint32(0x7F800000) | (rest << np.uint32(13))
        magnitude = np.where(rest < 0x400, small.view(np.uint32), np.where(rest < 0x7C00, normal, special))
        wide, nan = sign | magnitude, rest > 0x7C00
    return np.asarray(np.where(nan, wide | np.uint32(0x00400000), wide), np.uint32).view(np.float32)


def to_half(x: Any, dtype: DType) -> NDArray:
    """Round an f32 or f64 array to the nearest numbers of the type, as bits."""
    with np.errstate(all="ignore"):
        return _to_half(np.asarray(x), dtype)


def elements_of(array: NDArray, dtype: DType) -> NDArray:
    """The values read from an array of this type: f32 for one of 16 bits."""
    return from_half(array.view(np.uint16), dtype) if dtype.is_half else array


def _to_half(x: NDArray, dtype: DType) -> NDArray:
    bits = (_odd(x) if x.dtype == np.float64 else x.astype(np.float32)).view(np.uint32)
    sign, rest = (bits >> np.uint32(16)) & np.uint32(0x8000), bits & np.uint32(0x7FFFFFFF)
    if dtype.name == "bf16":
        near = (rest + np.uint32(0x7FFF) + ((rest >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        nan = (rest >> np.uint32(16)) | np.uint32(0x40)
    else:
        even = (rest >> np.uint32(13)) & np.uint32(1)
        normal = (rest - np.uint32(112 << 23) + np.uint32(0xFFF) + even) >> np.uint32(13)
        tiny = np.where(rest < 0x38800000, rest, np.uint32(0)).view(np.float32)
        small = (tiny + np.float32(0.5)).view(np.uint32) - np.uint32(0x3F000000)  # a sum rounds to multiples of 2^-24
        near = np.where(rest < 0x38800000, small, np.where(rest < 0x47800000, normal, np.uint32(0x7C00)))
        nan = np.uint32(0x7E00) | ((rest >> np.uint32(13)) & np.uint32(0x3FF))
    return np.asarray(sign | np.where(rest > 0x7F800000, nan, near), np.uint32).astype(np.uint16)


def _odd(x: NDArray) -> NDArray:
    """Convert f64 to f32; if inexact, to the neighbor whose last bit is set."""
    near = np.asarray(x.astype(np.float32))
    bits = near.view(np.uint32)
    step = np.where(np.abs(near.astype(np.float64)) < np.abs(x), np.uint32(1), np.uint32(0xFFFFFFFF))
    inexact = (near != x) & ((bits & 1) == 0) & (x == x)
    return np.asarray(np.where(inexact, bits + step, bits), np.uint32).view(np.float32)
