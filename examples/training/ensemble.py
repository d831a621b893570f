"""Train an ensemble of networks at once: parameters with one more axis, and `vmap` over it.

In PyTorch: `torch.func.stack_module_state` and `vmap`.
In Keras: a list of models.
"""

import numpy as np

import pullback as pb
from pullback import nn

MEMBERS = 5
random = np.random.default_rng(0)
x = random.uniform(-2, 2, (64, 1)).astype(np.float32)
y = (np.sin(2 * x) + random.normal(0, 0.1, x.shape)).astype(np.float32)

net = nn.sequential(nn.dense(32), nn.tanh, nn.dense(1)).on("N 1")
each = [net.init(seed=k)[0] for k in range(MEMBERS)]
stacked = pb.tree_map(lambda *arrays: np.stack(arrays), *each)
together = pb.vmap(lambda parameters, x: net(parameters, x), in_axes=(0, None))


def loss(parameters, state, batch):
    inputs, targets = batch
    return pb.mean((together(parameters, inputs) - targets) ** 2)


run = nn.fit(loss, (x, y), parameters=stacked, optimizer=nn.adam(0.02), epochs=300, batch_size=64, progress=False)
near, far = (
    pb.function(together)(run.parameters, np.array(points, np.float32)[:, None]) for points in ([0.0, 1.0], [5.0, 8.0])
)
assert near.shape == (MEMBERS, 2, 1)
assert np.allclose(near.mean(axis=0)[:, 0], np.sin([0.0, 2.0]), atol=0.2)
assert far.std(axis=0).mean() > 3 * near.std(axis=0).mean()  # the members disagree where there are no data
print(f"spread among data {near.std(axis=0).mean():.3f}, far from them {far.std(axis=0).mean():.3f}")
