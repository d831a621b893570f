"""A traced function of float32 called with float64."""

from __future__ import annotations

import numpy as np

import pullback as pb


@pb.function
def f(
    a: pb.Array[tuple[int, int], np.float32], b: pb.Array[tuple[int], np.float32]
) -> pb.Array[tuple[int], np.float32]:
    return pb.matmul(a, b)


f(np.zeros((2, 3), np.float32), np.zeros(3))  # wrong
