"""A mixture of three normal distributions, fitted by its gradient.

`logsumexp` keeps the likelihood finite. The parameters are unconstrained: logarithms of weights and scales.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


def log_parts(p, x):
    z = (x[:, None] - p[1]) * pb.exp(-p[2])
    return p[0] - pb.logsumexp(p[0]) - p[2] - z * z / 2 - np.log(2 * np.pi) / 2


@pb.function
def loss(p: Float64[Array, "3 K"], x: Float64[Array, "N"]):
    return -pb.mean(pb.logsumexp(log_parts(p, x), axis=1))


@pb.function
def densities(p: Float64[Array, "3 K"], x: Float64[Array, "N"]):
    return pb.exp(log_parts(p, x))


r = np.random.default_rng(0)
x = np.concatenate([r.normal(-2, 0.5, 400), r.normal(0.5, 0.4, 400), r.normal(3, 1.0, 800)])
p, slope = np.stack([np.zeros(3), np.array([-1.0, 0.0, 1.0]), np.zeros(3)]), pb.grad(loss)
for _ in range(1500):
    p = p - 0.2 * slope(p, x)
assert np.allclose(np.sort(p[1]), [-2, 0.5, 3], atol=0.15)

grid = np.linspace(-5, 7, 400)
plt.hist(x, 60, density=True, color="lightgray")
plt.plot(grid, densities(p, grid))
plt.plot(grid, densities(p, grid).sum(1), "k:")
plt.ylabel("density")
