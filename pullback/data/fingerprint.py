"""Fingerprints of data: a description of its arrays, and a digest that detects changed values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from pullback.ir.identity import digest

__all__ = ["array_digest", "described", "fingerprint"]

WHOLE: Final = 1 << 26  # arrays in memory up to this size in bytes are digested whole
ROWS: Final = 64  # samples digested of other arrays, such as images decoded on demand


def array_digest(*arrays: Any) -> str:
    """A digest of the shapes, element types and values of arrays."""
    state = hashlib.blake2b(digest_size=16)
    for array in map(np.asarray, arrays):
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return state.hexdigest()


def described(arrays: Mapping[str, Any]) -> str:
    """The names, element types and shapes of arrays."""
    return ", ".join(f"{name} {x.dtype}{list(x.shape)}" for name, x in arrays.items())


def fingerprint(*arrays: Any) -> str:
    """A digest of arrays; of large or unloaded arrays, only some rows are included.

    >>> from pullback.data.fingerprint import fingerprint
    >>> fingerprint(np.arange(3)) == fingerprint(np.array([0, 1, 2]))
    True
    """
    return digest(*map(_rows_digest, arrays))


def _rows_digest(x: Any) -> str:
    if not isinstance(x, np.ndarray) or x.nbytes > WHOLE:
        x = x[np.unique(np.linspace(0, len(x) - 1, ROWS).astype(np.intp))]
    return array_digest(x)
