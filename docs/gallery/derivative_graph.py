"""The derivative of a layer as a graph.

Each node is an array. Each edge carries the operator that maps a change of one array to a change of the next; the
gradient is the product of the operators along all paths.
"""

import numpy as np
from jaxtyping import Float32

import pullback as pb
from pullback import Array


@pb.function
def loss(w: Float32[Array, "M K"], x: Float32[Array, "N M"], y: Float32[Array, "N K"]):
    d = pb.tanh(x @ w) - y
    return pb.sum(d * d)


one = np.ones((2, 2), np.float32)
assert np.isclose(pb.grad(loss)(one, one, one)[0, 0], 8 * (np.tanh(2) - 1) / np.cosh(2) ** 2 / 2, rtol=1e-3)

picture = loss.drawn()
