"""Keep moving averages of the parameters, and validate the averages instead of the noisy parameters.

In PyTorch: `torch.optim.swa_utils.AveragedModel`.
In Keras: `Adam(use_ema=True)`.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(400, 5)).astype(np.float32)
y = (x @ np.arange(1, 6, dtype=np.float32)[:, None] + random.normal(0, 2, (400, 1))).astype(np.float32)
test = x[300:], (x[300:] @ np.arange(1, 6, dtype=np.float32)[:, None])

run = nn.fit(
    nn.dense(1), nn.mse_loss, (x[:300], y[:300]), validation_data=test, optimizer=nn.sgd(0.1), epochs=30, batch_size=5,
    average=0.995, progress=False,
)  # fmt: skip
noisy = nn.evaluate(nn.dense(1), nn.mse_loss, test, parameters=run.parameters)["loss"]
averaged = nn.evaluate(nn.dense(1), nn.mse_loss, test, parameters=run.averaged_parameters)["loss"]
assert np.isclose(averaged, run.history["validation_loss"][-1])
assert averaged < 0.5 * noisy
print(f"validation loss {noisy:.4f}, of the averages {averaged:.4f}")
