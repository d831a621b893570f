"""Handwritten digits, read by a small network.

The pictures are test digits that the network has not seen. The label below each is the network's; mistakes are red.
"""

import matplotlib.pyplot as plt
import numpy as np

from pullback import data, nn

digits = data.load("digits")
(x, y), (x_test, y_test) = ((part.inputs[:, None], part.targets) for part in (digits.train, digits.test))
net = nn.sequential(nn.conv(8, 5), nn.relu, nn.max_pool(4), nn.flatten(), nn.dense(32), nn.relu, nn.dense(10))
run = nn.fit(net, nn.cross_entropy, (x, y), optimizer=nn.adam(5e-3), epochs=8, seed=0, progress=False)
answers = net(run.parameters, x_test).argmax(1)
assert np.mean(answers == y_test) > 0.9

fig, parts = plt.subplots(5, 10, figsize=(6.4, 4), layout="constrained")
for part, image, answer, label in zip(parts.flat, x_test[:, 0], answers, y_test):
    part.imshow(image, cmap="gray_r")
    part.set_title(str(answer), y=-0.4, fontsize=9, color="black" if answer == label else "red")
    part.axis("off")
