"""The result of a traced function is a NumPy array."""

from __future__ import annotations

import numpy as np

import pullback as pb


@pb.function
def f(a: pb.Array[tuple[int], np.float64]) -> pb.Array[tuple[int], np.float64]:
    return a * 2


f(np.zeros(3)).backward()  # wrong
