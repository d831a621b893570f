"""A dense layer in index notation, checked, called, differentiated and shown as C.

python examples/dense.py
pullback check examples/dense.py
pullback explain examples/dense.py:dense --dim N=500 --dim M=784 --dim K=10
pullback export examples/dense.py:dense --dim N=500 --dim M=784 --dim K=10 --out dense_c
"""

import numpy as np
from jaxtyping import Float32

import pullback as pb
from pullback import Array


@pb.function
def dense(x: Float32[Array, "N M"], w: Float32[Array, "K M"], b: Float32[Array, "K"]):
    """One dense layer: y = x wᵀ + b."""
    (N, M), K = x.shape, b.shape[0]
    return pb.build((N, K), lambda n, k: pb.sum_over(M, lambda m: x[n, m] * w[k, m]) + b[k])


@pb.function
def loss(w: Float32[Array, "K M"], b: Float32[Array, "K"], x: Float32[Array, "N M"], y: Float32[Array, "N K"]):
    """Half the squared distance between the layer's result and y."""
    error = dense(x, w, b) - y
    return pb.sum_over(y.shape, lambda n, k: error[n, k] * error[n, k]) / 2


def main() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((5, 4), dtype=np.float32)
    w = random.standard_normal((3, 4), dtype=np.float32)
    b = np.zeros(3, np.float32)
    y = np.ones((5, 3), np.float32)
    print(dense.type)
    print(dense(x, w, b))
    w_bar, b_bar = pb.grad(loss, wrt=("w", "b"))(w, b, x, y)
    print(w_bar, b_bar)


if __name__ == "__main__":
    main()
