"""The logarithm of the posterior density of a mixture of Gaussians under a Wishart prior (ADBench, section 4.1).

Component k has weight softmax(α)ₖ, mean μₖ and precision matrix Qₖᵀ Qₖ, where Qₖ is lower triangular with exp(qₖ) on
its diagonal and lₖ below, column by column.

python -m examples.gradbench.gmm
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


class Mixture(NamedTuple):
    """K Gaussians in D dimensions; T = D (D − 1) / 2."""

    alpha: Float64[Array, "K"]
    mu: Float64[Array, "K D"]
    q: Float64[Array, "K D"]
    l: Float64[Array, "K T"]


def below(i, j, D):
    """Where the element of row i and column j < i lies in an l."""
    return j * (2 * D - j - 1) // 2 + i - j - 1


def wishart_constant(D: int, K: int, m: int, gamma: float) -> float:
    """The part of the prior that depends on no parameter of the mixture: K (n D log(γ / √2) − log Γ_D(n / 2))."""
    n = D + m + 1
    log_multigamma = D * (D - 1) / 4 * math.log(math.pi) + sum(math.lgamma((n - j) / 2) for j in range(D))
    return K * (n * D * math.log(gamma / math.sqrt(2)) - log_multigamma)


def log_sum_exp(n, f):
    """Log Σ k < n: exp f(k)."""
    m = pb.max_over(n, f)
    return m + pb.log(pb.sum_over(n, lambda k: pb.exp(f(k) - m)))


@pb.function
def objective(mixture: Mixture, x: Float64[Array, "N D"], m: float, gamma: float, constant: float):
    """Log posterior density of the mixture, given the points x; m, gamma and constant describe the prior."""
    alpha, mu, q, l = mixture
    (N, D), K = x.shape, alpha.shape[0]

    def factor(k, i, j):
        return pb.where(i == j, pb.exp(q[k, i]), pb.where(i > j, l.at(k, below(i, j, D)), 0))

    Q = pb.build((K, D, D), factor)
    log_det = pb.build(K, lambda k: pb.sum_over(D, lambda j: q[k, j]))

    def squared(i, k):
        """‖Qₖ (xᵢ − μₖ)‖²."""
        return pb.sum_over(D, lambda r: pb.sum_over(D, lambda c: Q[k, r, c] * (x[i, c] - mu[k, c])) ** 2)

    beta = pb.build((N, K), lambda i, k: alpha[k] + log_det[k] - squared(i, k) / 2)
    likelihood = pb.sum_over(N, lambda i: log_sum_exp(K, lambda k: beta[i, k]))
    density = N * (D * math.log(2 * math.pi) / 2 + log_sum_exp(K, lambda k: alpha[k]))

    frobenius = pb.sum_over((K, D, D), lambda k, i, j: Q[k, i, j] ** 2)
    prior = m * pb.sum_over(K, lambda k: log_det[k]) - gamma**2 / 2 * frobenius
    return likelihood - density + prior + constant


jacobian = pb.grad(objective, wrt="mixture")


def main() -> None:
    random = np.random.default_rng(0)
    D, K, N, m, gamma = 2, 3, 100, 1, 1.0
    x = random.normal(size=(N, D))
    alpha, mu, q, l = (random.normal(size=shape) for shape in ((K,), (K, D), (K, D), (K, D * (D - 1) // 2)))
    mixture, prior = Mixture(alpha, mu, q, l), (m, gamma, wishart_constant(D, K, m, gamma))
    print("log posterior", objective(mixture, x, *prior))
    for name, slope in jacobian(mixture, x, *prior)._asdict().items():
        print(name, slope.round(3).tolist())


if __name__ == "__main__":
    main()
