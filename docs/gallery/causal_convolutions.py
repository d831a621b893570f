"""A wave continued by causal convolutions.

The network is a WaveNet in small: convolutions with doubling dilations, which see only the past. It learns to predict
the next value of noisy waves that change their pitch. Then it continues a wave that it has not seen by its own answers.
"""

import matplotlib.pyplot as plt
import numpy as np

import pullback as pb
from pullback import nn

L, PAST = 96, 64
random = np.random.default_rng(0)
t = np.arange(L + 1)


def waves(count):
    """Return sums of a slow and a fast sine of random phase, with little noise."""
    a, b = random.uniform(0, 2 * np.pi, (2, count, 1))
    clean = np.sin(2 * np.pi * t / 24 + a) + 0.5 * np.sin(2 * np.pi * t / 7 + b)
    return (clean + 0.02 * random.normal(size=clean.shape))[..., None].astype(np.float32)


series = waves(256)
net = nn.models.tcn(1, channels=16, num_layers=5)
error = lambda y, target: pb.mean((y - target) ** 2)
how = {"optimizer": nn.adam(5e-3), "epochs": 25, "batch_size": 32, "seed": 0, "progress": False}
run = nn.fit(net, error, (series[:, :-1], series[:, 1:]), **how)
assert run.history["loss"][-1] < 0.02

new = waves(1)
continued = new.copy()
for k in range(PAST, L + 1):  # what comes after does not matter: the network is causal
    continued[:, k] = net(run.parameters, continued[:, :-1])[:, k - 1]
assert np.abs(continued - new)[0, PAST : PAST + 16].mean() < 0.3

plt.plot(t, new[0, :, 0], color="0.7", label="the wave")
plt.plot(t[PAST:], continued[0, PAST:, 0], "C3", label="continued by the network")
plt.axvline(PAST, color="k", lw=0.8, ls=":")
plt.xlabel("step")
plt.ylim(-1.8, 2.2)
plt.legend(loc="upper left", ncols=2)
