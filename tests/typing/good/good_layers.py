"""A layer keeps the types of its function."""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np

from pullback import lazy

N = TypeVar("N", bound=int)
M = TypeVar("M", bound=int)
Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))


@lazy.layer
def dense(
    a: lazy.Array[tuple[N, Literal[4]], np.float64],
    w: lazy.Array[tuple[Literal[4], M], np.float64],
    *,
    scale: float = 1.0,
) -> lazy.Array[tuple[N, M], np.float64]:
    return lazy.tanh(a @ w) * scale


y: lazy.Array[tuple[Literal[3], Literal[3]], np.float64] = dense(x, x.T, scale=2.0)
print(y)
