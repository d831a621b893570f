"""Optimal transport between two densities, by Sinkhorn's iterations.

Each iteration is two lines of `logsumexp`. The gradient of the cost by the places of the mass goes through all
iterations; it shows where each grain would move.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def plan(x: Float64[Array, "N"], y: Float64[Array, "M"], a: Float64[Array, "N"], b: Float64[Array, "M"]):
    cost = (x[:, None] - y) ** 2 / 0.02

    def step(state, k):
        f, g = state
        f = pb.log(a) - pb.logsumexp(g - cost, axis=1)
        return f, pb.log(b) - pb.logsumexp(f[:, None] - cost, axis=0)

    f, g = pb.fold(500, (0 * a, 0 * b), step)
    return pb.exp(f[:, None] + g - cost)


x = np.linspace(0, 1, 80)
a = np.exp(-((x - 0.25) ** 2) / 0.01)
b = np.exp(-((x - 0.6) ** 2) / 0.004) + 0.7 * np.exp(-((x - 0.85) ** 2) / 0.002)
a, b = a / a.sum(), b / b.sum()
moved = plan(x, x, a, b)
assert np.abs(moved.sum(1) - a).max() < 1e-4 and np.abs(moved.sum(0) - b).max() < 1e-12

fig, parts = plt.subplots(2, 2, sharex="col", width_ratios=(1, 4), height_ratios=(1, 4))
parts[0, 0].axis("off")
parts[0, 1].fill_between(x, b)
parts[1, 0].fill_betweenx(x, -a)
parts[1, 1].imshow(moved, extent=(0, 1, 1, 0), aspect="auto", cmap="magma_r")
parts[1, 0].set_ylim(1, 0)
