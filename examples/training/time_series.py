"""Forecast the next steps of a time series from windows of its past.

In PyTorch: `series.unfold(0, length, 1)`.
In Keras: `timeseries_dataset_from_array`.
"""

import numpy as np

from pullback import data, nn

t = np.arange(1200)
series = (np.sin(t / 5) + 0.5 * np.sin(t / 13)).astype(np.float32)
past, future = (data.time_series_windows(part, length=24, horizon=3) for part in (series[:1000], series[1000:]))
assert past.inputs.shape == (974, 24) and past.targets.shape == (974, 3)

net = nn.sequential(nn.dense(32), nn.tanh, nn.dense(3)).on("N 24")
run = nn.fit(net, nn.mse_loss, past, validation_data=future, optimizer=nn.adam(0.01), epochs=20, progress=False)
naive = np.mean((future.inputs[:, -1:] - future.targets) ** 2)  # the last value for all steps
assert run.history["validation_loss"][-1] < 0.1 * naive
print(f"mean squared error {run.history['validation_loss'][-1]:.5f}, of the last value {naive:.5f}")
