"""A keyword that the layer does not have."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))


@lazy.layer
def f(a: Matrix, *, scale: float) -> Matrix:
    return a * scale


f(x, scaling=2.0)  # wrong
