"""Digits in a plane: an autoencoder with two numbers in the middle.

The network reads an image, keeps two numbers of it, and draws the image again. Digits of a kind lie together, although
training never sees a label.
"""

import matplotlib.pyplot as plt

import pullback as pb
from pullback import data, nn

digits = data.load("digits").train
x = digits.inputs.reshape(-1, 28, 28)[:, 2:26:3, 2:26:3].reshape(-1, 64)
encoder = nn.sequential(nn.dense(64), nn.tanh, nn.dense(2))
net = nn.sequential(encoder, nn.dense(64), nn.tanh, nn.dense(64))
error = lambda y, x: pb.mean((y - x) ** 2)
run = nn.fit(net, error, (x, x), optimizer=nn.adam(3e-3), epochs=60, seed=0, progress=False)
assert run.history.rows[-1]["loss"] < 0.6 * x.var(0).mean()

plane = encoder({name: run.parameters[name] for name in ("dense1", "dense2")}, x)
for label in range(10):
    plt.scatter(*plane[digits.targets == label].T, s=6, color=plt.cm.tab10(label), label=str(label))
plt.legend(ncols=2, markerscale=2)
