"""A function of all floating-point types, and of all types."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import numpy as np

from pullback import lazy

N = TypeVar("N", bound=int)
M = TypeVar("M", bound=int)
Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))

F = TypeVar("F", bound=np.floating[Any])


def centered(a: lazy.Array[tuple[N, M], F]) -> lazy.Array[tuple[N, M], F]:
    return (a - a.max(axis=1, keepdims=True)) * 0.5


def count(a: lazy.Array[Any, np.number[Any]]) -> int:
    return a.size


y: Matrix = centered(x)
print(y, count(x.astype(np.int32)))
