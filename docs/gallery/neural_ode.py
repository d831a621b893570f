"""A neural differential equation that learns a spiral.

The slope is a network with sixteen hidden units. Training differentiates through the solver, and starts at many
points of the measured curve at once.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array, nn


def slope(y, t, p):
    return pb.tanh(y @ p["w"] + p["b"]) @ p["v"]


@pb.function
def paths(p, start: Float64[Array, "B 2"], t: Float64[Array, "T"]):
    return pb.odeint(slope, start, t, p, method="rk4", steps=1)


@pb.function(donate=("p", "state"))
def step(p, state, start, t, seen, count):
    loss, gradient = pb.value_and_grad(lambda p: pb.mean(abs(paths(p, start, t) - seen)))(p)
    updates, state = optimizer.update(gradient, state, p, count)
    return loss, optimizer.apply(p, updates), state


@pb.function
def true_path(start: Float64[Array, "2"], t: Float64[Array, "T"]):
    A = np.array([[-0.1, 2.0], [-2.0, -0.1]])
    return pb.odeint(lambda y, t: y @ A, start, t)


r, t = np.random.default_rng(0), np.linspace(0, 12, 240)
curve = true_path(np.array([2.0, 0.0]), t)
optimizer = nn.adam(nn.cosine_decay_schedule(0.03, 600))
p = {"w": 0.3 * r.normal(size=(2, 16)), "b": np.zeros(16), "v": 0.3 * r.normal(size=(16, 2))}
state = optimizer.init(p)
for count in range(600):
    begin = r.integers(0, 210, 32)
    seen = curve[begin[None, :] + np.arange(30)[:, None]]
    loss, p, state = step(p, state, curve[begin], t[:30], seen, count)
learned = paths(p, curve[:1], t)[:, 0]
assert np.abs(learned - curve).mean() < 0.15

plt.plot(*curve.T, ".", color="gray", markersize=3, label="measured")
plt.plot(*learned.T, label="learned")
plt.axis("equal")
plt.legend()
