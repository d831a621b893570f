"""Reduce the learning rate when the validation loss stops falling.

In PyTorch: `lr_scheduler.ReduceLROnPlateau`.
In Keras: the callback `ReduceLROnPlateau`.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(300, 5)).astype(np.float32)
y = (x.sum(axis=1, keepdims=True) + random.normal(0, 1, (300, 1))).astype(np.float32)  # noise: the loss ends near 1

run = nn.fit(
    nn.dense(1), nn.mse_loss, (x[:200], y[:200]), validation_data=(x[200:], y[200:]), optimizer=nn.sgd(0.3), epochs=40,
    batch_size=10, callbacks=[nn.ReduceLROnPlateau(factor=0.5, patience=3)], progress=False,
)  # fmt: skip
rates = run.history["learning_rate"]
assert rates[0] == 0.3
assert rates[-1] < 0.1
assert set(np.round(np.divide(rates[1:], rates[:-1]), 6)) == {0.5, 1.0}
print(f"learning rate {rates[0]} to {rates[-1]:.4f}, validation loss {run.history['validation_loss'][-1]:.3f}")
