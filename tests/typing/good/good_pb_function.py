"""A traced function: checked at its definition, typed in its calls."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32

import pullback as pb

F32Matrix = pb.Array[tuple[int, int], np.float32]


@pb.function
def product(a: Float32[F32Matrix, "N K"], b: Float32[F32Matrix, "K M"]) -> Float32[F32Matrix, "N M"]:
    return pb.matmul(a, b)


@pb.function(threads=1)
def norm(a: pb.Array[tuple[int], np.float64]) -> pb.Array[tuple[()], np.float64]:
    return pb.sqrt(pb.sum(a * a))


a = np.zeros((2, 3), np.float32)
y: np.ndarray[tuple[int, int], np.dtype[np.float32]] = product(a, np.zeros((3, 2), np.float32))
n: np.ndarray[tuple[()], np.dtype[np.float64]] = norm(np.array([3.0, 4.0]))
print(y.flags.c_contiguous, float(n), norm([3.0, 4.0]), product(a, a.T, out=np.zeros((2, 2), np.float32)), product.type)
