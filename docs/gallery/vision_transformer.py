"""Digits, read by a small vision transformer.

The image is cut into 16 patches of 7 × 7 pixels. Two blocks of attention let each patch look at the others. The
pictures show how much the patches matter: the change of the scores when one of them is painted over.
"""

import matplotlib.pyplot as plt
import numpy as np

from pullback import data, nn

digits = data.load("digits")
(x, y), (x_test, y_test) = ((part.inputs[:, None], part.targets) for part in (digits.train, digits.test))
net = nn.models.vit(10, patch_size=7, embed_dim=32, num_layers=2)
how = {"optimizer": nn.adamw(3e-3), "epochs": 15, "seed": 0, "progress": False}
run = nn.fit(net, nn.cross_entropy, (x, y), **how)
scores = net(run.parameters, x_test)
accuracy = np.mean(scores.argmax(1) == y_test)
assert accuracy > 0.93

shown = x_test[:10]
change = np.zeros((10, 4, 4))
for i, j in np.ndindex(4, 4):
    painted = shown.copy()
    painted[:, :, 7 * i : 7 * i + 7, 7 * j : 7 * j + 7] = 0
    change[:, i, j] = np.abs(net(run.parameters, painted) - scores[:10]).sum(1)
fig, parts = plt.subplots(2, 5, figsize=(6.4, 2.8), layout="constrained")
for part, image, weight, row in zip(parts.flat, shown[:, 0], change, scores):
    part.imshow(image, cmap="gray_r")
    part.imshow(np.kron(weight, np.ones((7, 7))), cmap="magma", alpha=0.35)
    part.set_title(str(row.argmax()), fontsize=9)
    part.axis("off")
fig.suptitle(f"accuracy on new digits: {accuracy:.1%}", fontsize=10)
