"""A traced function of a matrix called with a vector."""

from __future__ import annotations

import numpy as np

import pullback as pb


@pb.function
def f(a: pb.Array[tuple[int, int], np.float32]) -> pb.Array[tuple[int], np.float32]:
    return pb.sum(a, axis=0)


f(np.zeros(3, np.float32))  # wrong
