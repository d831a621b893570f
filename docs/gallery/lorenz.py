"""The Lorenz attractor, colored by how fast neighbors part.

`pb.jvp` carries a small displacement along the trajectory. Its growth is the largest Lyapunov exponent, which
is 0.906 for these constants.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


def slope(y):
    return pb.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])


def after(y, h=0.005):
    k1 = slope(y)
    k2 = slope(y + h / 2 * k1)
    k3 = slope(y + h / 2 * k2)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3))


@pb.function
def trajectory(y: Float64[Array, "3"], v: Float64[Array, "3"], steps: pb.Size["T"]):
    def step(state, t):
        y, v = pb.jvp(after)((state[0],), (state[1],))
        growth = pb.sqrt(pb.sum(v * v))
        return (y, v / growth), (y, pb.log(growth) / 0.005)

    return pb.scan(steps, (y, v), step)[1]


places, rates = trajectory(np.array([1.0, 1.0, 20.0]), np.array([1.0, 0.0, 0.0]), 200_000)
assert abs(rates[2000:].mean() - 0.906) < 0.02

plt.scatter(places[:12000, 0], places[:12000, 2], c=np.clip(rates[:12000], -20, 20), s=0.5, cmap="coolwarm")
plt.colorbar(label="growth rate of a displacement")
plt.xlabel("x")
plt.ylabel("z")
