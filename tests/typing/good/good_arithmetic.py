"""Operators keep shape and element type."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
a: Matrix = x + x * 2.0 - 1
b: Matrix = 2.0 / (x + 1.0) ** 2
c: Matrix = -abs(x) % 3
print(a.shape, b.dtype, c.ndim)
