"""A robot arm that draws a circle, by its Jacobian.

The joint angles of each point start from those of the point before. Damped least squares uses the exact Jacobian of
the arm's tip; three steps a point are enough.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def joints(q: Float64[Array, "N"]):
    """Return the places of all joints of a planar arm with links of length 1."""
    angle = pb.cumulative_sum(q)
    return pb.stack([pb.cumulative_sum(pb.cos(angle)), pb.cumulative_sum(pb.sin(angle))], axis=1)


@pb.function
def draw(q: Float64[Array, "N"], goals: Float64[Array, "T 2"]):
    tip = pb.function(lambda q: joints(q)[-1])

    def reach(q, k):
        J = pb.jacobian(tip)(q)
        return q + J.T @ pb.linalg.solve(J @ J.T + 1e-6 * pb.eye(2), goals[k] - tip(q))

    def step(q, k):
        q = pb.fold(3, q, lambda q, i: reach(q, k))
        return q, q

    return pb.scan(goals.shape[0], q, step)[1]


turn = np.linspace(0, 2 * np.pi, 60)
goals = np.stack([1.8 + np.cos(turn), 1.5 + np.sin(turn)], axis=1)
angles = draw(np.array([0.2, 0.5, 0.5, 0.3]), goals)
places = pb.vmap(joints)(angles)
assert np.abs(places[1:, -1] - goals[1:]).max() < 1e-3

for k in range(0, 60, 4):
    x, y = np.vstack([np.zeros(2), places[k]]).T
    plt.plot(x, y, "o-", color=plt.cm.twilight(k / 60), markersize=4, alpha=0.8)
plt.plot(*goals.T, "k:")
plt.axis("equal")
