"""Least squares: a polynomial through the sign function at n points of [-1, 1] (`llsq_obj` of cmpad).

    y(x) = ½ Σ i: (sᵢ − Σ j: xⱼ tᵢʲ)²,    tᵢ = −1 + 2i / (n − 1),    sᵢ = sign tᵢ

python -m examples.gradbench.llsq
"""

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array, Size


@pb.function
def primal(x: Float64[Array, "M"], n: Size["N"]):
    """Half the sum of the squared distances; the polynomial by Horner's rule."""
    M = x.shape[0]
    t = pb.build(n, lambda i: -1 + 2.0 * i / (n - 1))
    value = pb.fold(M, pb.zeros(n), lambda value, j: value * t + x[M - 1 - j])
    return pb.sum((pb.sign(t) - value) ** 2) / 2


gradient = pb.grad(primal, wrt="x")


def main() -> None:
    x = np.random.default_rng(0).random(8)
    print("y", primal(x, 50))
    print("gradient", gradient(x, 50).round(3))


if __name__ == "__main__":
    main()
