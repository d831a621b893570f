"""Draw samples by weight, so that each batch has as many samples of a rare class as of a frequent one.

In PyTorch: `WeightedRandomSampler`.
In Keras: `tf.data.Dataset.rejection_resample`.
"""

import numpy as np

from pullback import data, nn

random = np.random.default_rng(0)
labels = np.repeat([0, 1, 2], [450, 40, 10])
x = (random.normal(size=(500, 2)) + 2.5 * np.array([[0, 0], [1, 0], [0, 1]])[labels]).astype(np.float32)
points = data.Dataset(x, labels)

drawn = np.bincount(labels[points.balanced().order(0, 0)])
assert drawn.min() > 100  # an epoch has about 167 of each
recalls = {}
for name, dataset in (("plain", points), ("balanced", points.balanced())):
    run = nn.fit(nn.dense(3), nn.cross_entropy, dataset, optimizer=nn.adam(0.05), epochs=20, progress=False)
    predicted = nn.dense(3).on("N 2")(run.parameters, x).argmax(1)
    recalls[name] = min(float(np.mean(predicted[labels == k] == k)) for k in range(3))
assert recalls["balanced"] > recalls["plain"] + 0.2
print(f"labels {np.bincount(labels)}, drawn {drawn}; least recall", {name: round(r, 2) for name, r in recalls.items()})
