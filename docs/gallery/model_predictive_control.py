"""Model-predictive control: a cart raises a leaning pole and keeps it up.

Every 50 ms one Newton step improves a plan of forty states and forces. Its sparse Jacobian and Hessian come from the
model; the [guide to control](../guides/control.md) builds them step by step.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64
from scipy.sparse import bmat
from scipy.sparse.linalg import spsolve

import pullback as pb
from pullback import Array

H, N = 0.05, 40  # seconds a step, steps ahead


def rates(state, force):
    angle, speed, spin = state[1], state[2], state[3]
    s, c = pb.sin(angle), pb.cos(angle)
    push = (force + 0.05 * spin * spin * s) / 1.1
    turn = (9.81 * s - c * push) / (0.5 * (4 / 3 - c * c / 11))
    return pb.stack([speed, spin, push - turn * c / 22, turn])


@pb.function
def after(state: Float64[Array, "4"], force: float):
    middle = state + H / 2 * rates(state, force)
    return state + H * rates(middle, force)


@pb.function
def defects(z: Float64[Array, "N 5"], start: Float64[Array, "4"]):
    ahead = pb.vmap(after)(z[:-1, :4], z[:-1, 4])
    return z[:, :4] - pb.concat([start[None, :], ahead])


@pb.function
def lagrangian(z: Float64[Array, "N 5"], start: Float64[Array, "4"], price: Float64[Array, "N 4"]):
    cost = z * z * np.array([1.0, 5.0, 0.1, 0.1, 0.01])
    return pb.sum(cost) / 2 + pb.sum(price * defects(z, start))


slopes, curvature = pb.jacobian(defects, wrt="z", sparse=True), pb.hessian(lagrangian, wrt="z", sparse=True)
gradient = pb.grad(lagrangian, wrt="z")


def newton(z, price, start):
    A, B = slopes(z, start).tocsr(), curvature(z, start, price).tocsr()
    right = np.concatenate([gradient(z, start, price).ravel(), defects(z, start).ravel()])
    change = spsolve(bmat([[B, A.T], [A, None]], format="csc"), -right)
    return z + change[: 5 * N].reshape(N, 5), price + change[5 * N :].reshape(N, 4)


z, price, state = np.zeros((N, 5)), np.zeros((N, 4)), np.array([0.0, 0.6, 0.0, 0.0])
for _ in range(6):
    z, price = newton(z, price, state)
states, forces = [state], []
for _ in range(80):
    forces.append(z[0, 4])
    states.append(after(states[-1], 1.1 * z[0, 4]))  # the real motor is stronger by a tenth
    z, price = newton(np.vstack([z[1:], z[-1:]]), np.vstack([price[1:], price[-1:]]), states[-1])
place, angle = np.array(states)[:, :2].T
assert np.abs(angle[-20:]).max() < 0.02

fig, (above, below) = plt.subplots(2, 1, height_ratios=(3, 2), layout="constrained")
for k in range(0, 81, 2):
    shade = plt.cm.viridis(k / 80)
    above.plot([place[k], place[k] + np.sin(angle[k])], [0, np.cos(angle[k])], color=shade, alpha=0.7)
above.plot(place, 0 * place, "k.", markersize=3)
above.set_aspect("equal")
below.step(H * np.arange(80), forces, where="post")
below.set_xlabel("seconds")
below.set_ylabel("force")
