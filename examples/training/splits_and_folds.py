"""Split data with the same share of each label in both parts, and cross-validate with folds.

In PyTorch and Keras: `train_test_split(stratify=y)` and `StratifiedKFold` of scikit-learn.
"""

import numpy as np

from pullback import data, nn

random = np.random.default_rng(0)
labels = np.repeat([0, 1, 2], [60, 24, 6])
x = (random.normal(size=(90, 2)) + 3 * np.array([[0, 0], [1, 0], [0, 1]])[labels]).astype(np.float32)
points = data.Dataset(x, labels)

train, test = points.split(2 / 3, seed=0, stratified=True)
assert np.bincount(train.targets).tolist() == [40, 16, 4]
assert np.bincount(test.targets).tolist() == [20, 8, 2]

scores = []
for train, test in points.k_fold(3, seed=0, stratified=True):
    run = nn.fit(
        nn.dense(3), nn.cross_entropy, train, validation_data=test, optimizer=nn.adam(0.1), epochs=30,
        metrics=[nn.metrics.accuracy], progress=False,
    )  # fmt: skip
    scores.append(run.history["accuracy"][-1])
assert min(scores) > 0.7
print(f"accuracy {np.mean(scores):.3f} ± {np.std(scores):.3f}")
