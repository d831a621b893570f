"""Two names of sizes are two sizes."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from pullback import lazy

N = TypeVar("N", bound=int)
M = TypeVar("M", bound=int)


def f(a: lazy.Array[tuple[N], np.float64], b: lazy.Array[tuple[M], np.float64]) -> lazy.Array[tuple[N], np.float64]:
    return a * b  # wrong
