"""The shape of a product, by the names of sizes."""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np

from pullback import lazy

N = TypeVar("N", bound=int)
M = TypeVar("M", bound=int)
Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
row: lazy.Array[tuple[Literal[4]], np.float64] = lazy.asarray(np.ones(4))


def project(
    a: lazy.Array[tuple[N, Literal[4]], np.float64], w: lazy.Array[tuple[Literal[4], M], np.float64]
) -> lazy.Array[tuple[N, M], np.float64]:
    return a @ w


y: lazy.Array[tuple[Literal[3], Literal[3]], np.float64] = project(x, x.T)
v: lazy.Array[tuple[Literal[3]], np.float64] = x @ row
s: lazy.Array[tuple[()], np.float64] = row @ row
print(y.shape, v.shape, float(s))
