"""Loss curves of four optimizers on handwritten digits.

Each run is one call of `nn.fit` with the same network, data and seed. The history of a run is a table.
"""

import matplotlib.pyplot as plt
import numpy as np

from pullback import data, nn

digits = data.load("digits")
x, y = digits.train.inputs.reshape(-1, 784), digits.train.targets
optimizers = [nn.sgd(0.1), nn.sgd(0.1, momentum=0.9), nn.rmsprop(1e-3), nn.adam(1e-3)]
ends = {}
for optimizer in optimizers:
    net = nn.sequential(nn.dense(32), nn.relu, nn.dense(10))
    run = nn.fit(net, nn.cross_entropy, (x, y), optimizer=optimizer, epochs=12, seed=0, progress=False)
    losses = [row["loss"] for row in run.history.rows]
    ends[str(optimizer)] = losses[-1]
    plt.semilogy(np.arange(1, 13), losses, "o-", markersize=3, label=str(optimizer))
assert max(ends.values()) < 0.5 and min(ends.values()) < 0.1

plt.xlabel("epoch")
plt.ylabel("training loss")
plt.legend()
