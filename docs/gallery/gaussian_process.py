"""Gaussian process regression with learned length, height and noise.

The log marginal likelihood goes through a Cholesky factor, and so does its gradient. Fifty ascent steps on three
logarithms fit the kernel.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array, linalg


def covariance(log, x, z):
    return pb.exp(2 * log[1]) * pb.exp(-((x[:, None] - z) ** 2) * pb.exp(-2 * log[0]) / 2)


def noisy(log, x):
    return covariance(log, x, x) + pb.exp(2 * log[2]) * pb.eye(x.shape[0])


@pb.function
def log_likelihood(log: Float64[Array, "3"], x: Float64[Array, "N"], y: Float64[Array, "N"]):
    factor = linalg.cholesky(noisy(log, x))
    whitened = linalg.solve_triangular(factor, y, lower=True)
    return -(whitened @ whitened) / 2 - pb.sum(pb.log(linalg.diagonal(factor)))


@pb.function
def predict(log: Float64[Array, "3"], x: Float64[Array, "N"], y: Float64[Array, "N"], z: Float64[Array, "M"]):
    across = covariance(log, z, x)
    variance = pb.exp(2 * log[1]) - pb.sum(across * linalg.solve(noisy(log, x), across.T).T, axis=1)
    return across @ linalg.solve(noisy(log, x), y), pb.sqrt(variance)


r = np.random.default_rng(0)
x = np.sort(np.concatenate([r.uniform(-3, 0.2, 20), r.uniform(1.5, 3, 10)]))
y = np.sin(2 * x) + 0.1 * r.normal(size=30)
log, slope = np.zeros(3), pb.grad(log_likelihood)
for _ in range(200):
    log = log + 0.01 * np.clip(slope(log, x, y), -5, 5)
z = np.linspace(-3, 3, 200)
mean, deviation = predict(log, x, y, z)
assert 0.05 < np.exp(log[2]) < 0.2  # the noise of the data is 0.1
assert np.mean(np.abs(mean - np.sin(2 * z)) < 2 * deviation + 0.05) > 0.9

plt.plot(x, y, "k.", label="measured")
plt.plot(z, np.sin(2 * z), "k:", label="true")
plt.plot(z, mean, label="mean")
plt.fill_between(z, mean - 2 * deviation, mean + 2 * deviation, alpha=0.25, label="two standard deviations")
plt.legend()
