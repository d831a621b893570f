"""Gaussian process regression: the log marginal likelihood, its gradient, and predictions.

python examples/gaussian_process.py
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array, linalg


class Kernel(NamedTuple):
    """Length over which the function varies, its height, and the noise of observations, by their logarithms."""

    length: Float64[Array, ""]
    height: Float64[Array, ""]
    noise: Float64[Array, ""]


def covariance(kernel, x, z):
    """height² exp(-|x - z|² / (2 length²)) for all pairs of points."""
    sharpness = pb.exp(-2 * kernel.length) / 2
    square = lambda n, m: pb.sum_over(x.shape[1], lambda d: (x[n, d] - z[m, d]) ** 2)
    return pb.build((x.shape[0], z.shape[0]), lambda n, m: pb.exp(2 * kernel.height - sharpness * square(n, m)))


@pb.function
def log_likelihood(kernel: Kernel, x: Float64[Array, "N D"], y: Float64[Array, "N"]):
    """Log p(y | x), up to a constant: Rasmussen and Williams, Gaussian Processes for Machine Learning, eq. (2.30)."""
    factor = linalg.cholesky(covariance(kernel, x, x) + pb.exp(2 * kernel.noise) * pb.eye(x.shape[0]))
    whitened = linalg.solve_triangular(factor, y, lower=True)
    return -(whitened @ whitened) / 2 - pb.sum(pb.log(linalg.diagonal(factor)))


@pb.function
def predict(kernel: Kernel, x: Float64[Array, "N D"], y: Float64[Array, "N"], z: Float64[Array, "M D"]):
    """The mean at new points z."""
    noise = pb.exp(2 * kernel.noise) * pb.eye(x.shape[0])
    return covariance(kernel, z, x) @ linalg.solve(covariance(kernel, x, x) + noise, y)


def main() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-3, 3, (60, 1))
    y = np.sin(2 * x[:, 0]) + 0.1 * random.standard_normal(60)
    kernel, ascent = Kernel(*np.zeros(3)), pb.value_and_grad(log_likelihood)
    for step in range(201):
        value, gradient = ascent(kernel, x, y)
        if step % 50 == 0:
            print(f"step {step:3d}  log-likelihood {value:.3f}  {Kernel(*np.exp(kernel).round(3).tolist())}")
        kernel = Kernel(*(p + 0.01 * np.clip(g, -5, 5) for p, g in zip(kernel, gradient)))
    print("sin(2) is about", predict(kernel, x, y, np.array([[1.0]])).round(3).tolist())


if __name__ == "__main__":
    main()
