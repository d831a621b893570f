"""Rows, elements and slices."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
first: lazy.Array[tuple[Literal[4]], np.float64] = x[0]
element: lazy.Array[tuple[()], np.float64] = x[1, 2]
some: lazy.Array[tuple[Any, Literal[4]], np.float64] = x[1:]
other: lazy.Array[Any, np.float64] = x[:, ::2]
for line in x:
    print(line)
print(float(element), first + some, other.shape)
