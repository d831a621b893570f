"""Values are NumPy arrays of the same shape and type."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
value: np.ndarray[tuple[Literal[3], Literal[4]], np.dtype[np.float64]] = x.numpy()
again: np.ndarray[Any, np.dtype[np.float64]] = np.asarray(x)
print(value.flags.writeable, again.strides, np.testing.assert_allclose(value, again))
