"""Solve a differential equation by a network whose loss has the network's derivatives by its input.

In PyTorch: `autograd.grad` twice.
In Keras: nested `GradientTape`s. Here: u'' = -u, u(0) = 0, u'(0) = 1.
"""

import numpy as np

import pullback as pb
from pullback import nn

net = nn.sequential(nn.dense(24), nn.tanh, nn.dense(1)).on("N 1")


def loss(parameters, state, times):
    def u(t):  # at one time
        return net(parameters, pb.reshape(t, (1, 1)))[0, 0]

    slope = pb.grad(u)
    bend = pb.vmap(pb.grad(lambda t: slope(t)))(times)
    equation = pb.mean((bend + pb.vmap(u)(times)) ** 2)
    zero = times[0] * 0
    return equation + 10 * (u(zero) ** 2 + (slope(zero) - 1) ** 2)


times = np.linspace(0, 3, 40)
parameters, _ = net.init(seed=0, dtype=np.float64)
run = nn.fit(
    loss, times, parameters=parameters, optimizer=nn.adam(nn.cosine_decay_schedule(0.02, 3000)), epochs=3000,
    batch_size=40, progress=False,
)  # fmt: skip
error = np.abs(net(run.parameters, times[:, None])[:, 0] - np.sin(times)).max()
assert error < 0.03
print(f"largest difference from sin(t): {error:.4f}, loss {run.history.losses[-1]:.2g}")
