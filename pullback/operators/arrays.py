"""Arrays of any library: NumPy's and others with the array API, including traced ones.

Arrays of other libraries are not converted: they multiply, transpose, add and check shapes themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def is_array(x: Any) -> bool:
    """Whether x is an array of some library, with known numbers or traced."""
    return isinstance(x, np.ndarray) or (hasattr(x, "shape") and hasattr(x, "ndim") and hasattr(x, "__matmul__"))


def is_concrete(x: Any) -> bool:
    """Whether the shape of x is known to NumPy."""
    return isinstance(x, np.ndarray | np.generic) or not is_array(x)


def as_array(x: Any) -> Any:
    """Convert to a NumPy array; arrays of other libraries stay."""
    return x if is_array(x) else np.asarray(x)


def rank(x: Any) -> int:
    """The number of axes."""
    found: int = x.ndim if is_array(x) else np.ndim(x)
    return found


def is_real(x: Any) -> bool:
    """Whether the entries are real."""
    return not (is_concrete(x) and np.iscomplexobj(x))


def conjugate(x: Any) -> Any:
    """The conjugate of an array; a real array itself."""
    return x if is_real(x) and x.dtype != object else x.conj()
