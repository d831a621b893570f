"""Arrays that end where memory ends: who reads or writes behind them is stopped."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["guarded"]

PAGE = mmap.PAGESIZE


def guarded(a: NDArray[Any]) -> NDArray[Any]:
    """A copy of an array whose last element is the last before a page that nobody may touch; as it is on Windows."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return a
    pages = -(-a.nbytes // PAGE) * PAGE
    memory = mmap.mmap(-1, pages + PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(start + pages), PAGE, 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    out = np.frombuffer(memory, a.dtype, a.size, pages - a.nbytes).reshape(a.shape)
    out[...] = a
    return out
