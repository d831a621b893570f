"""Saliency and an adversarial example: the gradient by the image.

The gradient of the loss by the pixels shows which matter. A small step along its sign makes the network read another
digit.
"""

import matplotlib.pyplot as plt
import numpy as np

import pullback as pb
from pullback import data, nn

digits = data.load("digits")
(x, y), (x_test, y_test) = ((part.inputs.reshape(-1, 784), part.targets) for part in (digits.train, digits.test))
net = nn.sequential(nn.dense(64), nn.relu, nn.dense(10))
run = nn.fit(net, nn.cross_entropy, (x, y), optimizer=nn.adam(2e-3), epochs=10, seed=0, progress=False)

loss = pb.function(lambda x, parameters, labels: nn.cross_entropy(net(parameters, x), labels))
slope = pb.grad(loss, wrt="x")(x_test, run.parameters, y_test)
misled = np.clip(x_test + 0.15 * np.sign(slope), 0, 1)
before, after = (net(run.parameters, images).argmax(1) for images in (x_test, misled))
assert np.mean(before == y_test) > 0.9
assert np.mean(after == y_test) < 0.5

fig, parts = plt.subplots(3, 6, figsize=(6.4, 3.6), layout="constrained")
for k, column in zip(np.flatnonzero((before == y_test) & (after != y_test)), parts.T):
    for part, image, name in zip(column, (x_test[k], slope[k], misled[k]), (before[k], "gradient", after[k])):
        part.imshow(image.reshape(28, 28), cmap="RdBu_r" if name == "gradient" else "gray_r")
        part.set_title(str(name), fontsize=9)
        part.axis("off")
