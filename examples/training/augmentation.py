"""Train on images that are rotated, moved, cut out and mixed anew in every epoch.

In PyTorch: `transforms.v2.Compose([RandomRotation(10), …, MixUp()])`.
In Keras: `RandomRotation`, `RandomErasing`, `MixUp`.
"""

import numpy as np

from pullback import data, nn

digits = data.load_digits()
images = data.Dataset(digits.train.inputs[:400, None], digits.train.targets[:400], "digits")
train = images.transformed(
    data.random_affine(10, translate=(0.05, 0.05)), data.random_erasing(0.3),
    data.mixup(num_classes=10, alpha=0.2), data.cutmix(num_classes=10, alpha=0.2),
)  # fmt: skip
(x, t), (again, _), (other, _) = (train.batch(np.arange(8), seed=0, epoch=epoch) for epoch in (0, 0, 1))
assert t.shape == (8, 10) and np.allclose(t.sum(axis=1), 1)  # mixed labels are distributions
assert np.array_equal(x, again) and not np.array_equal(x, other)  # new draws in each epoch, the same in a second run

net = nn.sequential(nn.flatten(), nn.dense(32), nn.relu, nn.dense(10)).on("N 1 28 28")
run = nn.fit(
    net, nn.cross_entropy, train, validation_data=data.Dataset(digits.test.inputs[:, None], digits.test.targets),
    epochs=10, optimizer=nn.adam(3e-3), metrics=[nn.metrics.accuracy], progress=False,
)  # fmt: skip
assert run.history["accuracy"][-1] > 0.6
print(f"accuracy {run.history['accuracy'][-1]:.3f}")
