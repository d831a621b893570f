"""Weight each sample in the loss, by numbers that come with the targets.

In PyTorch: `(w * loss(y, t, reduction="none")).mean()`.
In Keras: `model.fit(sample_weight=w)`.
"""

import numpy as np

import pullback as pb
from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(300, 2)).astype(np.float32)
y = (3 * x[:, :1] - x[:, 1:]).astype(np.float32)
trusted = (np.arange(300) % 3 > 0).astype(np.float32)
y[trusted == 0] = 100  # a third of the targets is wrong, and it is known which


def weighted(y, t):
    each = nn.mse_loss(y, t["y"], reduction="none")
    return pb.sum(t["weight"] * each[:, 0]) / pb.sum(t["weight"])


run = nn.fit(nn.dense(1), weighted, (x, {"y": y, "weight": trusted}), optimizer=nn.adam(0.1), epochs=40, progress=False)
assert np.allclose(run.parameters["w"], [[3, -1]], atol=0.02)
print("weights", np.round(run.parameters["w"][0], 3), "bias", np.round(run.parameters["b"], 3))
