"""An orbit fitted to noisy positions, by derivatives through the solver.

`pb.odeint` integrates Newton's law of gravity. `pb.grad` differentiates the misfit through all of its steps, and
Gauss-Newton steps with the Jacobian find the initial position and velocity.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def positions(start: Float64[Array, "4"], times: Float64[Array, "T"]):
    def slope(y, t):
        cubed = (y[0] * y[0] + y[1] * y[1]) ** 1.5
        return pb.stack([y[2], y[3], -y[0] / cubed, -y[1] / cubed])

    return pb.odeint(slope, start, times, method="rk4", steps=20)[:, :2]


truth, times = np.array([1.0, 0.0, 0.1, 1.2]), np.linspace(0.0, 8.0, 25)
seen = positions(truth, times) + 0.02 * np.random.default_rng(0).normal(size=(25, 2))
jacobian = pb.jacobian(positions, wrt="start")

first = start = np.array([1.1, 0.1, 0.0, 1.1])
for _ in range(10):
    J, miss = jacobian(start, times).reshape(-1, 4), (positions(start, times) - seen).ravel()
    start = start - np.linalg.lstsq(J, miss, rcond=None)[0]
assert np.abs(start - truth).max() < 0.02

smooth = np.linspace(0.0, 8.0, 200)
plt.plot(*seen.T, "o", label="measured")
plt.plot(*positions(first, smooth).T, ":", label="first guess")
plt.plot(*positions(start, smooth).T, label="fitted")
plt.plot(0, 0, "k*", markersize=12)
plt.axis("equal")
plt.legend()
