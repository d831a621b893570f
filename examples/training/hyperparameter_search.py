"""Search for good settings: train once for each, compare validation losses, and keep the best run.

In PyTorch: Optuna or Ray Tune.
In Keras: `keras_tuner.RandomSearch`.
"""

import itertools

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(240, 6)).astype(np.float32)
y = np.abs(x[:, :3]).argmax(1)
train, validation = (x[:160], y[:160]), (x[160:], y[160:])
runs = {}
for units, rate in itertools.product((4, 32), (1e-4, 1e-2)):
    runs[units, rate] = nn.fit(
        nn.sequential(nn.dense(units), nn.relu, nn.dense(3)), nn.cross_entropy, train, validation_data=validation,
        optimizer=nn.adam(rate), epochs=30, early_stopping=5, progress=False,
    )  # fmt: skip
losses = {settings: min(run.history["validation_loss"]) for settings, run in runs.items()}
best = min(losses, key=losses.get)
assert best == (32, 1e-2)
for (units, rate), loss in sorted(losses.items(), key=lambda item: item[1]):
    print(f"units {units:2}  rate {rate:g}  loss {loss:.3f}")
