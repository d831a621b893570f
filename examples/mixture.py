"""Log-likelihood of points under a mixture of Gaussians, and its gradient.

python examples/mixture.py
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


class Mixture(NamedTuple):
    """K Gaussians in D dimensions with independent axes; weights and scales by their logarithms."""

    log_weight: Float64[Array, "K"]
    mean: Float64[Array, "K D"]
    log_scale: Float64[Array, "K D"]


@pb.function
def log_likelihood(mixture: Mixture, x: Float64[Array, "N D"]):
    """Σ n: log Σ k: exp(score of point n under Gaussian k), up to a constant."""
    weight, mean, scale = mixture
    (N, D), K = x.shape, weight.shape[0]
    sharpness = pb.build((K, D), lambda k, d: pb.exp(-scale[k, d]))
    whole = pb.log(pb.sum_over(K, lambda k: pb.exp(weight[k])))
    height = pb.build(K, lambda k: weight[k] - whole - pb.sum_over(D, lambda d: scale[k, d]))

    def score(n, k):
        def term(d):
            z = (x[n, d] - mean[k, d]) * sharpness[k, d]
            return z * z

        return height[k] - pb.sum_over(D, term) / 2

    scores = pb.build((N, K), score)
    largest = pb.build(N, lambda n: pb.max_over(K, lambda k: scores[n, k]))
    total = pb.build(N, lambda n: pb.sum_over(K, lambda k: pb.exp(scores[n, k] - largest[n])))
    return pb.sum_over(N, lambda n: largest[n] + pb.log(total[n]))


def main() -> None:
    random = np.random.default_rng(0)
    x = np.concatenate([random.normal(-2, 0.5, (200, 2)), random.normal(2, 1.0, (200, 2))])
    mixture = Mixture(np.zeros(2), np.array([[-1.0, 0.0], [1.0, 0.0]]), np.zeros((2, 2)))
    ascent = pb.value_and_grad(log_likelihood, wrt="mixture")
    for step in range(200):
        value, gradient = ascent(mixture, x)
        if step % 50 == 0:
            print(f"step {step:3d}  log-likelihood {value:.3f}")
        mixture = Mixture(*(p + 2e-3 * g for p, g in zip(mixture, gradient)))
    print("means", mixture.mean.round(2).tolist())


if __name__ == "__main__":
    main()
