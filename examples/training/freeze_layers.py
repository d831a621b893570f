"""Freeze the first layers of a network, and train the others.

In PyTorch: `p.requires_grad_(False)`.
In Keras: `layer.trainable = False`.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(200, 4)).astype(np.float32)
y = np.tanh(x @ random.normal(size=(4, 1))).astype(np.float32)

net = nn.sequential(nn.dense(16), nn.tanh, nn.dense(1)).on("N 4")
parameters, _ = net.init(seed=0)
run = nn.fit(
    net, nn.mse_loss, (x, y), optimizer=nn.freeze("dense1/*") >> nn.adam(0.01), epochs=40, parameters=parameters,
    state={}, progress=False,
)  # fmt: skip
assert np.array_equal(run.parameters["dense1"]["w"], parameters["dense1"]["w"])  # frozen
assert not np.array_equal(run.parameters["dense2"]["w"], parameters["dense2"]["w"])
assert list(run.optimizer_state["adam"]["mean"]) == ["dense2/b", "dense2/w"]  # no state for frozen parameters
assert run.history.losses[-1] < 0.2 * run.history.losses[0]
print(f"loss {run.history.losses[0]:.3f} to {run.history.losses[-1]:.4f}, the first layer as it was")
