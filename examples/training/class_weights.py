"""Weight the classes in the loss, so that a rare class counts as much as a frequent one.

In PyTorch: `CrossEntropyLoss(weight=w)`.
In Keras: `model.fit(class_weight={…})`.
"""

import functools

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
labels = (np.arange(600) % 15 == 0).astype(np.int64)  # 40 of 600
x = (random.normal(size=(600, 2)) + 1.2 * labels[:, None]).astype(np.float32)
weights = len(labels) / (2 * np.bincount(labels))

recalls = {}
for name, loss in (("plain", nn.cross_entropy), ("weighted", functools.partial(nn.cross_entropy, weight=weights))):
    run = nn.fit(nn.dense(2), loss, (x, labels), optimizer=nn.adam(0.05), epochs=30, progress=False)
    predicted = nn.dense(2).on("N 2")(run.parameters, x).argmax(1)
    recalls[name] = [float(np.mean(predicted[labels == k] == k)) for k in (0, 1)]
assert recalls["plain"][1] < 0.5  # the rare class is mostly missed
assert min(recalls["weighted"]) > 0.6
print({name: [round(r, 2) for r in both] for name, both in recalls.items()})
