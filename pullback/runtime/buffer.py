"""NumPy arrays for C: contiguous, aligned, in native byte order, and their addresses."""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.errors import DTypeError, ShapeError

if TYPE_CHECKING:
    from pullback.loops.program.values import Buffer

_address_of = ctypes.addressof
_first_byte = ctypes.c_char.from_buffer

NDArray = np.ndarray[Any, Any]
ALIGNMENT = 64


def address(a: NDArray) -> int:
    """The address of the first element."""
    try:
        return _address_of(_first_byte(a))  # type: ignore[arg-type]  # four times as fast as below
    except (TypeError, ValueError):  # read-only or empty
        return int(a.__array_interface__["data"][0])


class Spans:
    """An index of contiguous arrays by memory range, to find those that overlap another array."""

    def __init__(self, arrays: Sequence[NDArray]) -> None:
        starts = [address(a) for a in arrays]
        self._order = sorted((k for k, a in enumerate(arrays) if a.nbytes), key=starts.__getitem__)
        self._starts = [starts[k] for k in self._order]
        self._ends = [starts[k] + arrays[k].nbytes for k in self._order]
        self._reach = list(accumulate(self._ends, max))  # the maximal end so far

    def meeting(self, a: NDArray) -> list[int]:
        """The positions of the arrays that share memory with `a`, found in logarithmic time."""
        start = address(a)
        k = bisect_left(self._starts, start + a.nbytes) - 1
        out = []
        while k >= 0 and a.nbytes and self._reach[k] > start:
            if self._ends[k] > start:
                out.append(self._order[k])
            k -= 1
        return sorted(out)


def aligned_bytes(count: int) -> NDArray:
    """Allocate `count` uninitialized bytes that begin at a multiple of 64."""
    raw = np.empty(count + ALIGNMENT, np.uint8)
    start = -address(raw) % ALIGNMENT
    return raw[start : start + count]


def extents(b: Buffer) -> tuple[int, ...]:
    """The shape of a buffer without open dims."""
    out = []
    for d in b.shape:
        n = d.constant
        assert n is not None, f"{b.name} has the symbolic dim {d}"
        out.append(n)
    return tuple(out)


def prepared(a: NDArray, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray:
    """Return the array itself if C can read it, or a copy if only its layout differs.

    Raises:
        DTypeError: [E122] another element type or byte order.   ShapeError: [E111] another shape.
    """
    if a.dtype != dtype:
        order = "" if a.dtype.isnative else " in foreign byte order"
        raise DTypeError("E122", f"{name} has dtype {a.dtype.name}{order}, not {dtype.name}",
                         remedy=f"{name}.astype(np.{dtype.name})")
    if a.shape != shape:
        raise ShapeError("E111", f"{name} has shape {a.shape}, not {shape}")
    flags = a.flags
    return a if flags.c_contiguous and flags.aligned else np.array(a, order="C", copy=True)
