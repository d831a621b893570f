"""Heat in a rod: the finite-difference solution meets the exact one.

One `fold` carries the whole rod through time in a single C function. Beyond both ends `.at` reads 0, so the ends
are cold. The exact solution of this problem is a decaying sine.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def warm(u: Float64[Array, "N"], steps: pb.Size["T"]):
    def step(u, t):
        after = pb.build(u.shape, lambda i: u[i] + 0.4 * (u.at(i - 1, fill=0) - 2 * u[i] + u.at(i + 1, fill=0)))
        return after, after

    return pb.scan(steps, u, step)[1]


N, T = 99, 5000
x = np.arange(1, N + 1) / (N + 1)
history = warm(np.sin(np.pi * x) + np.sin(3 * np.pi * x) / 2, T)
time = 0.4 / (N + 1) ** 2 * T
exact = np.sin(np.pi * x) * np.exp(-(np.pi**2) * time) + np.sin(3 * np.pi * x) / 2 * np.exp(-9 * np.pi**2 * time)
assert np.abs(history[-1] - exact).max() < 1e-4

for t in (0, 200, 1000, T - 1):
    plt.plot(x, history[t], label=f"step {t}")
plt.plot(x, exact, "k:", label="exact, at the end")
plt.xlabel("place")
plt.ylabel("temperature")
plt.legend()
