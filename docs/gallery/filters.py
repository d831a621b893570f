"""The filters that a convolutional network learns from digits.

The first layer of the network has sixteen windows of 5 × 5 weights. Training takes a second. Red weights are positive,
blue ones negative.
"""

import matplotlib.pyplot as plt
import numpy as np

from pullback import data, nn

digits = data.load("digits")
(x, y), (x_test, y_test) = ((part.inputs[:, None], part.targets) for part in (digits.train, digits.test))
net = nn.sequential(nn.conv(16, 5), nn.relu, nn.max_pool(4), nn.flatten(), nn.dense(10))
run = nn.fit(net, nn.cross_entropy, (x, y), optimizer=nn.adam(5e-3), epochs=6, seed=0, progress=False)
assert np.mean(net(run.parameters, x_test).argmax(1) == y_test) > 0.9

windows = run.parameters["conv1"]["w"][:, 0]
fig, parts = plt.subplots(2, 8, figsize=(6.4, 1.8), layout="constrained")
for part, window in zip(parts.flat, windows):
    part.imshow(window, cmap="RdBu_r", vmin=-abs(windows).max(), vmax=abs(windows).max())
    part.axis("off")
