"""A row and a column broadcast to a matrix."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
row: lazy.Array[tuple[Literal[4]], np.float64] = lazy.asarray(np.ones(4))
a: Matrix = x + row
b: Matrix = row * x
column: lazy.Array[tuple[Literal[3], Literal[1]], np.float64] = x.sum(axis=1, keepdims=True)
c: Matrix = x / (column + 1.0)
d: Matrix = column + row
print(a.sum(), b.sum(), c.sum(), d.sum())
