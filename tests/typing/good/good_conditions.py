"""Comparisons give bools, and steer Python."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
row: lazy.Array[tuple[Literal[4]], np.float64] = lazy.asarray(np.ones(4))
mask: lazy.Array[tuple[Literal[3], Literal[4]], np.bool_] = x > 1.0
if mask.any() and x[0, 0] < 1:
    print(int(x.sum()), [1, 2, 3][lazy.argmax(row)])
chosen: lazy.Array[Any, np.float64] = x[mask]
print(chosen.shape, x == x, x != 2.0)
