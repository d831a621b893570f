"""Smooth labels, and train on soft labels: a distribution over the classes for each sample.

In PyTorch: `CrossEntropyLoss(label_smoothing=0.1)`.
In Keras: `CategoricalCrossentropy(label_smoothing=0.1)`.
"""

import functools

import numpy as np

import pullback as pb
from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(300, 4)).astype(np.float32)
labels = x[:, :3].argmax(1)
soft = (0.9 * np.eye(3)[labels] + 0.1 / 3).astype(np.float32)

smoothed = functools.partial(nn.cross_entropy, label_smoothing=0.1)
runs = {}
for name, loss, targets in (
    ("hard", nn.cross_entropy, labels),
    ("smoothed", smoothed, labels),
    ("soft", nn.cross_entropy, soft),
):
    runs[name] = nn.fit(nn.dense(3), loss, (x, targets), optimizer=nn.adam(0.1), epochs=30, progress=False)
scores = {name: nn.dense(3).on("N 4")(run.parameters, x) for name, run in runs.items()}
assert np.allclose(scores["smoothed"], scores["soft"], atol=1e-3)  # two ways to write one loss
sure = {name: float(np.mean(pb.function(nn.softmax)(y).max(1))) for name, y in scores.items()}
assert sure["smoothed"] < sure["hard"] - 0.03
assert np.mean(scores["soft"].argmax(1) == labels) > 0.95
print({name: f"mean confidence {value:.3f}" for name, value in sure.items()})
