"""Measure validation data by a metric of your own: traced, as a mean over batches, or in Python on all results.

In PyTorch: a class of torchmetrics.
In Keras: `model.compile(metrics=[function])`.
"""

import numpy as np

import pullback as pb
from pullback import nn


def largest_error(y, target):  # traced: measured in each batch, then averaged
    return pb.max(pb.abs(y - target))


def median_error(y, target):  # Python: NumPy arrays of all results
    return np.median(np.abs(y - target))


random = np.random.default_rng(0)
x = random.normal(size=(200, 3)).astype(np.float32)
y = x @ np.array([[1.0], [-1.0], [2.0]], np.float32)
run = nn.fit(
    nn.dense(1), nn.mse_loss, (x, y), optimizer=nn.adam(0.05), epochs=30, validation_data=(x, y),
    metrics=[largest_error, nn.metrics.on_outputs(median_error)], progress=False,
)  # fmt: skip
errors = np.abs(nn.dense(1).on("N 3")(run.parameters, x) - y)
assert np.isclose(run.history["largest_error"][-1], errors.max(), rtol=1e-4)
assert np.isclose(run.history["median_error"][-1], np.median(errors), rtol=1e-4)
assert run.history["median_error"][-1] < run.history["median_error"][0]
print(f"largest error {run.history['largest_error'][-1]:.4f}, median {run.history['median_error'][-1]:.4f}")
