"""Disks in noise, found by a U-Net.

The network reads an image of bright and dark shapes in noise, and says of each pixel whether it belongs to a disk. The
squares are there to mislead. Upper row: images that training has not seen; lower row: the answers.
"""

import matplotlib.pyplot as plt
import numpy as np

from pullback import nn

SIZE = 20
random = np.random.default_rng(0)
y, x = np.mgrid[:SIZE, :SIZE]


def sample():
    """Return an image with a disk and a square, and the disk's pixels."""
    (a, b, c, d), r = random.uniform(4, SIZE - 4, 4), random.uniform(3, 4.5)
    disk, square = np.hypot(x - a, y - b) < r, np.maximum(abs(x - c), abs(y - d)) < r * 0.9
    return np.where(disk, 1.0, square * 1.0) + 0.3 * random.normal(size=(SIZE, SIZE)), disk


images, disks = (np.stack(part)[:, None].astype(np.float32) for part in zip(*(sample() for _ in range(640))))
net = nn.models.unet(base_channels=8)
how = {"optimizer": nn.adam(5e-3), "epochs": 24, "batch_size": 32, "seed": 0, "progress": False}
run = nn.fit(net, nn.bce_with_logits, (images[:576], disks[:576]), **how)
found = net(run.parameters, images[576:]) > 0
both, either = (found & (disks[576:] > 0)).sum(), (found | (disks[576:] > 0)).sum()
assert both / either > 0.65  # intersection over union

fig, parts = plt.subplots(2, 6, figsize=(7, 2.5), layout="constrained")
for (upper, lower), image, answer in zip(parts.T, images[576:, 0], found[:, 0]):
    upper.imshow(image, cmap="gray")
    lower.imshow(answer, cmap="gray")
    upper.axis("off"), lower.axis("off")
