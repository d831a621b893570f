"""Gradient descent as a fold: the loop, the loss and its gradient become one C function.

python examples/descent.py
"""

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array, Size


@pb.function
def loss(w: Float64[Array, "M"], x: Float64[Array, "N M"], y: Float64[Array, "N"]):
    """Mean squared error of a linear model."""
    N, M = x.shape
    error = pb.build(N, lambda n: pb.sum_over(M, lambda m: x[n, m] * w[m]) - y[n])
    return pb.sum_over(N, lambda n: error[n] * error[n]) / N


@pb.function
def fit(w: Float64[Array, "M"], x: Float64[Array, "N M"], y: Float64[Array, "N"], rate: float, steps: Size["S"]):
    """`steps` steps downhill from w."""
    gradient = pb.grad(loss, wrt="w")
    return pb.fold(steps, w, lambda w, s: w - rate * gradient(w, x, y))


def main() -> None:
    random = np.random.default_rng(0)
    truth = np.array([1.0, -2.0, 0.5])
    x = random.standard_normal((100, 3))
    y = x @ truth + 0.01 * random.standard_normal(100)
    w = fit(np.zeros(3), x, y, 0.1, 200)
    print("found", w.round(3), "loss", float(loss(w, x, y)))


if __name__ == "__main__":
    main()
