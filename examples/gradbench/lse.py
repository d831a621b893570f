"""The logarithm of a sum of exponentials, which nothing overflows.

python -m examples.gradbench.lse
"""

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def primal(x: Float64[Array, "N"]):
    """Log Σ i: exp xᵢ = m + log Σ i: exp(xᵢ − m), where m = max i: xᵢ."""
    N = x.shape[0]
    m = pb.max_over(N, lambda i: x[i])
    return m + pb.log(pb.sum_over(N, lambda i: pb.exp(x[i] - m)))


gradient = pb.grad(primal)


def main() -> None:
    x = np.array([1000.0, 1001.0, 1002.0])
    print("log-sum-exp", primal(x))
    print("gradient", gradient(x).round(6))


if __name__ == "__main__":
    main()
