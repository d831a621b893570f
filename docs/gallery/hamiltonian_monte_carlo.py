"""Samples of a curved density by Hamiltonian Monte Carlo.

A leapfrog step needs the gradient of the log-density. The whole chain, with its random numbers, is one compiled
function: a `scan` over samples with a `fold` over steps inside.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64, UInt32

import pullback as pb
from pullback import Array


def log_density(x):
    """A banana: the second coordinate follows the square of the first."""
    return -(x[0] ** 2) / 2 - 2 * (x[1] - x[0] ** 2 / 2) ** 2


@pb.function
def chain(key: UInt32[Array, "2"], x: Float64[Array, "2"], samples: pb.Size["S"]):
    force = pb.grad(log_density)

    def leapfrog(state, k):
        x, p = state
        p = p + 0.1 * force(x)
        x = x + 0.2 * p
        return x, p + 0.1 * force(x)

    def sample(x, i):
        keys = pb.random.split(pb.random.fold_in(key, i))
        p = pb.random.normal(keys[0], (2,))
        new, q = pb.fold(10, (x, p), leapfrog)
        energy = log_density(new) - log_density(x) + (pb.sum(p * p) - pb.sum(q * q)) / 2
        x = pb.where(pb.log(pb.random.uniform(keys[1], ())) < energy, new, x)
        return x, x

    return pb.scan(samples, x, sample)[1]


drawn = chain(pb.random.key(1), np.zeros(2), 20_000)
assert abs(drawn[:, 0].mean()) < 0.06 and abs(drawn[:, 0].var() - 1) < 0.1
assert abs(drawn[:, 1].mean() - 0.5) < 0.06  # half of the mean of the square

side = np.meshgrid(np.linspace(-3.5, 3.5, 150), np.linspace(-1.5, 5, 150))
plt.contour(*side, np.exp(log_density(side)), 6, colors="gray")
plt.plot(*drawn[:2000].T, ".", markersize=2)
plt.plot(*drawn[:20].T, "-", label="the first 20 samples")
plt.legend()
