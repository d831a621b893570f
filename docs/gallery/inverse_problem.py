"""A hidden region of a plate, found from temperatures.

Four points of the plate are heated, and the temperatures are measured later. The gradient of the misfit by the 400
conductivities is the adjoint of 150 time steps; nobody wrote it.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64
from scipy import optimize

import pullback as pb
from pullback import Array


@pb.function
def warmed(k: Float64[Array, "N N"], u: Float64[Array, "N N"]):
    def step(u, t):
        def gain(i, j, down, right):
            other = k.at(i + down, j + right, fill=0)
            return 0.4 * k[i, j] * other / (k[i, j] + other) * (u.at(i + down, j + right, fill=0) - u[i, j])

        moves = ((1, 0), (-1, 0), (0, 1), (0, -1))
        return pb.build(u.shape, lambda i, j: u[i, j] + sum(gain(i, j, *move) for move in moves))

    return pb.fold(150, u, step)


@pb.function
def misfit(log_k: Float64[Array, "N N"], starts: Float64[Array, "E N N"], seen: Float64[Array, "E N N"]):
    ends = pb.vmap(warmed, in_axes=(None, 0))(pb.exp(log_k), starts)
    rough = pb.sum((log_k[1:] - log_k[:-1]) ** 2) + pb.sum((log_k[:, 1:] - log_k[:, :-1]) ** 2)
    return pb.sum((ends - seen) ** 2) + 1e-3 * rough


N = 20
row, column = np.mgrid[:N, :N] / (N - 1)
truth = np.where((row - 0.6) ** 2 + (column - 0.4) ** 2 < 0.05, 0.2, 1.0)
starts = np.zeros((4, N, N))
starts[np.arange(4), [3, 3, -4, -4], [3, -4, 3, -4]] = 100.0
seen = np.stack([warmed(truth, start) for start in starts])
seen += 0.01 * np.random.default_rng(0).normal(size=seen.shape)

both = pb.value_and_grad(misfit)
flat = lambda x: tuple(np.ravel(part) for part in both(x.reshape(N, N), starts, seen))
found = np.exp(optimize.minimize(lambda x: (flat(x)[0][0], flat(x)[1]), np.zeros(N * N), jac=True, method="L-BFGS-B").x)
assert np.mean((found.reshape(N, N) < 0.5) == (truth < 0.5)) > 0.95

fig, parts = plt.subplots(1, 3, figsize=(7, 2.6), layout="constrained")
for part, image, name in zip(parts, (seen[0], truth, found.reshape(N, N)), ("measured", "conductivity", "found")):
    part.imshow(image, cmap="inferno")
    part.set_title(name)
    part.axis("off")
