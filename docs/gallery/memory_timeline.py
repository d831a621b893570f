"""The memory of a gradient over time, before anything runs.

Each block is an array in the arena: its height is its size, and its width the time that it is needed. The peak is known
to the byte.
"""

from jaxtyping import Float32

import pullback as pb
from pullback import Array


@pb.function
def loss(p: Float32[Array, "3 M M"], x: Float32[Array, "N M"]):
    for k in range(3):
        x = pb.tanh(x @ p[k])
    return pb.sum(pb.softmax(x, axis=1)[:, 0])


table = pb.grad(loss).memory(N=256, M=64)
assert table.arena_bytes < 500_000  # four arrays of x's size are kept for the way back

picture = table.plot()
