"""Digits drawn from two numbers, by a variational autoencoder.

The network learns to describe each digit by a point in the plane, and to draw the digit again from a point near it.
Each small picture is drawn from its place in the plane; kinds of digits turn into each other without a gap.
"""

import matplotlib.pyplot as plt
import numpy as np

from pullback import data, nn

digits = data.load("digits").train
x = digits.inputs.reshape(-1, 1, 28, 28)[:, :, 2:26:2, 2:26:2]  # 12 × 12 pixels
net = nn.models.vae(2, hidden_size=96)
how = {"optimizer": nn.adam(3e-3), "epochs": 60, "seed": 0, "progress": False}
run = nn.fit(net, nn.models.elbo_loss, (x, x), **how)
found = net(run.parameters, x, run.state)
again, plane = 1 / (1 + np.exp(-found["logits"])), found["mean"]
assert np.mean((again - x) ** 2) < 0.75 * x.var(0).mean()
assert 0.3 < plane.std() < 2  # points lie as a normal distribution would have them
ticks = np.linspace(-1.8, 1.8, 10, dtype=np.float32)
points = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
drawn = nn.models.vae_decoder((1, 12, 12), hidden_size=96)(run.parameters["decoder"], points)
tiles = (1 / (1 + np.exp(-drawn))).reshape(10, 10, 12, 12).transpose(0, 2, 1, 3).reshape(120, 120)
plt.imshow(tiles, cmap="gray_r", extent=(-2, 2, 2, -2))
plt.xlabel("first number")
plt.ylabel("second number")
