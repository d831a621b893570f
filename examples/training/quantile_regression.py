"""Predict intervals instead of means: a quantile loss for each of three results.

In PyTorch and Keras: a pinball loss of your own.
"""

import numpy as np

import pullback as pb
from pullback import nn

QUANTILES = np.array([0.1, 0.5, 0.9], np.float32)
random = np.random.default_rng(0)
x = random.uniform(0, 1, (2000, 1)).astype(np.float32)
y = (2 * x + (0.2 + x) * random.normal(size=x.shape)).astype(np.float32)  # the spread grows with x


def pinball(y, target):
    """The mean of q d above the prediction and (q - 1) d below it, for the errors d and quantiles q."""
    d = target - y
    return pb.mean(pb.maximum(QUANTILES * d, (QUANTILES - 1) * d))


net = nn.sequential(nn.dense(16), nn.tanh, nn.dense(3)).on("N 1")
run = nn.fit(net, pinball, (x, y), optimizer=nn.adam(0.01), epochs=30, batch_size=50, progress=False)
low, middle, high = net(run.parameters, x).T
inside = np.mean((low < y[:, 0]) & (y[:, 0] < high))
assert 0.7 < inside < 0.9
assert np.mean(middle > y[:, 0]) - 0.5 < 0.05
widths = [(high - low)[part].mean() for part in (x[:, 0] < 0.3, x[:, 0] > 0.7)]
assert widths[1] > 1.5 * widths[0]
print(f"{inside:.1%} of the targets between the 10 % and 90 % quantiles; widths {widths[0]:.2f} and {widths[1]:.2f}")
