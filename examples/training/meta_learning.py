"""Learn to learn: parameters from which one step of gradient descent solves a new task (MAML).

In PyTorch: `higher` or `torch.func`.
In Keras: nested `GradientTape`s. The outer gradient goes through the inner step.
"""

import numpy as np

import pullback as pb
from pullback import nn

net = nn.sequential(nn.dense(24), nn.tanh, nn.dense(1)).on("N 1")
random = np.random.default_rng(0)


def tasks(count):
    """Sines of different amplitudes: ten points to learn from, ten to judge by."""
    amplitude = random.uniform(1, 5, (count, 1, 1))
    x = random.uniform(-2, 2, (2, count, 10, 1))
    return tuple(a.astype(np.float32) for a in (x[0], amplitude * np.sin(x[0]), x[1], amplitude * np.sin(x[1])))


def error(p, x, y):
    return pb.mean((net(p, x) - y) ** 2)


def adapted(p, x, y):
    return pb.tree_map(lambda w, g: w - 0.05 * g, p, pb.grad(error)(p, x, y))


def after_one_step(p, x, y, new_x, new_y):
    return error(adapted(p, x, y), new_x, new_y)


def meta_loss(parameters, state, batch):
    return pb.mean(pb.vmap(after_one_step, in_axes=(None, 0, 0, 0, 0))(parameters, *batch))


start, _ = net.init(seed=0)
run = nn.fit(meta_loss, tasks(800), parameters=start, optimizer=nn.adam(5e-3), epochs=20, batch_size=16, progress=False)
new = tasks(100)
before, after = (float(pb.function(meta_loss)(p, {}, new)) for p in (start, run.parameters))
plain = float(pb.function(lambda p: pb.mean(pb.vmap(error, in_axes=(None, 0, 0))(p, *new[2:])))(run.parameters))
assert after < 0.3 * before
assert after < 0.5 * plain  # the step matters
print(f"error on new tasks: {plain:.2f} without a step, {after:.2f} after one; from random parameters {before:.2f}")
