"""Writes in place, and copies with changes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
row: lazy.Array[tuple[Literal[4]], np.float64] = lazy.asarray(np.ones(4))
y = lazy.zeros((3, 4))
y[0] = row
y[1:, :2] = 1.0
y += x
z: Matrix = x.at[0, 1].set(2.0)
print(y, z, x.set((0, 0), 1.0), x.reshape(4, 3), x.reshape(-1), x.ravel())
