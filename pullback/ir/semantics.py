"""Number semantics shared by constant folding and the interpreter; the C backend does the same.

Integers wrap; `//` and `%` floor, division by zero gives 0; floating to integer saturates, NaN gives 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.ir.types import DType

NDArray = np.ndarray[Any, Any]


def convert(x: NDArray, dtype: DType) -> NDArray:
    """Convert x to `dtype`: saturating from floating to integer, wrapping between integers, != 0 for bool."""
    if dtype.is_bool:
        return np.asarray(x != 0)
    if dtype.is_integer and x.dtype.kind == "f":
        wide = np.asarray(x, np.float64)
        below, above = wide <= dtype.minimum, wide >= dtype.maximum
        inside = np.where(np.isnan(wide) | below | above, 0.0, wide)
        out = np.trunc(inside).astype(dtype.numpy)
        out = np.where(below, dtype.numpy.type(dtype.minimum), out)
        return np.asarray(np.where(above, dtype.numpy.type(dtype.maximum), out))
    with np.errstate(all="ignore"):
        return np.asarray(x.astype(dtype.numpy))


def floor_divide(a: NDArray, b: NDArray) -> NDArray:
    """floor(a / b); integers: 0 where b is 0, wrapping at the one overflow."""
    with np.errstate(all="ignore"):
        if a.dtype.kind == "f":
            quotient = a / b
            whole = np.floor(quotient)
            # where the quotient was rounded up to a whole number, nearly all of b is left
            above = (quotient == whole) & (np.remainder(a, b) / b > 0.5) & ((whole - 1) + 1 == whole)
            return np.asarray(np.where(above, whole - 1, whole))
        return np.asarray(np.where(b == 0, a.dtype.type(0), np.floor_divide(a, np.where(b == 0, 1, b).astype(a.dtype))))


def remainder(a: NDArray, b: NDArray) -> NDArray:
    """Remainder a - b * floor(a / b); integers: 0 where b is 0."""
    with np.errstate(all="ignore"):
        if a.dtype.kind == "f":
            return np.asarray(np.remainder(a, b))
        return np.asarray(np.where(b == 0, a.dtype.type(0), np.remainder(a, np.where(b == 0, 1, b).astype(a.dtype))))
