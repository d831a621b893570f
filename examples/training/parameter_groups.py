"""Train groups of parameters with learning rates and optimizers of their own.

In PyTorch: `Adam([{"params": body, "lr": 1e-4}, {"params": head}])`.
In Keras: a custom loop with two optimizers.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(200, 4)).astype(np.float32)
y = x @ np.array([[1.0], [-2.0], [0.5], [0.0]], np.float32) + 1

net = nn.sequential(nn.dense(8), nn.dense(1)).on("N 4")
parameters, _ = net.init(seed=0)
groups = nn.parameter_groups({"*/b": nn.sgd(0.05), "dense1/*": nn.adam(1e-5), "*": nn.adamw(0.02)})
run = nn.fit(net, nn.mse_loss, (x, y), optimizer=groups, epochs=30, parameters=parameters, state={}, progress=False)

moved = {name: np.abs(run.parameters[name]["w"] - parameters[name]["w"]).max() for name in parameters}
assert moved["dense1"] < 0.01 < moved["dense2"]  # the first layer has a small learning rate
assert run.history.losses[-1] < 0.05
print(f"the largest change: {moved['dense1']:.4f} in the first layer, {moved['dense2']:.2f} in the last")
