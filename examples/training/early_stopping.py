"""Stop when the validation loss has not improved for some epochs, and take the parameters of the best epoch.

In PyTorch: `EarlyStopping` of Lightning.
In Keras: `EarlyStopping(patience=4, restore_best_weights=True)`.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(80, 20)).astype(np.float32)
y = (x[:, :1] + random.normal(0, 0.5, (80, 1))).astype(np.float32)  # few samples: a large network learns the noise
validation = x[40:], y[40:]

net = nn.sequential(nn.dense(64), nn.relu, nn.dense(1)).on("N 20")
run = nn.fit(
    net, nn.mse_loss, (x[:40], y[:40]), validation_data=validation, optimizer=nn.adam(0.01), epochs=200, batch_size=10,
    early_stopping=nn.EarlyStopping(4), progress=False,
)  # fmt: skip
losses = run.history["validation_loss"]
assert run.stop_reason == "stopped early"
assert run.best_epoch == 1 + int(np.argmin(losses)) == len(losses) - 4
restored = nn.evaluate(net, nn.mse_loss, validation, parameters=run.parameters)["loss"]
assert np.isclose(restored, min(losses))
print(f"stopped after {len(losses)} epochs; the best is epoch {run.best_epoch} with {restored:.3f}")
