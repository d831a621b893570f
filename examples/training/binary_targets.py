"""Predict yes or no: one score for each sample, and the area under the ROC curve.

In PyTorch: `BCEWithLogitsLoss()`.
In Keras: `BinaryCrossentropy(from_logits=True)` and `AUC()`.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(500, 3)).astype(np.float32)
labels = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
train, test = (x[:400], labels[:400]), (x[400:], labels[400:])

net = nn.sequential(nn.dense(32), nn.relu, nn.dense(1), lambda y: y[:, 0]).on("N 3")
run = nn.fit(
    net, nn.bce_with_logits, train, validation_data=test, optimizer=nn.adam(0.02), epochs=30,
    metrics=[nn.metrics.roc_auc_score], progress=False,
)  # fmt: skip
right = np.mean((net(run.parameters, test[0]) > 0) == test[1])
assert right > 0.9
assert run.history["roc_auc_score"][-1] > 0.95
print(f"accuracy {right:.3f}, area under the curve {run.history['roc_auc_score'][-1]:.3f}")
