"""A layer refuses 10 × 21 where 10 × 20 is asked."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pullback import lazy


@lazy.layer
def f(a: lazy.Array[tuple[Literal[10], Literal[20]], np.float64]) -> lazy.Array:
    return a


y: lazy.Array[tuple[Literal[10], Literal[21]], np.float64] = lazy.zeros((10, 21))
f(y)  # wrong
