"""Save checkpoints, stop, and go on later: the result is bit for bit that of one long run.

In PyTorch: `torch.save` of model, optimizer and random state.
In Keras: the callback `BackupAndRestore`.
"""

import tempfile

import numpy as np

from pullback import nn

x = np.random.default_rng(0).normal(size=(96, 6)).astype(np.float32)
y = np.abs(x).argmax(1) % 3
net = nn.sequential(nn.dense(16), nn.relu, nn.dropout(0.3), nn.dense(3)).on("N 6")


def train(epochs: int, **options) -> nn.Run:
    return nn.fit(net, nn.cross_entropy, (x, y), optimizer=nn.adam(0.01), epochs=epochs, progress=False, **options)


with tempfile.TemporaryDirectory() as folder:
    train(3, save=folder)
    resumed = train(8, save=folder)  # continues after epoch 3
    saved = nn.load_parameters(folder)
whole = train(8)
for a, b, c in zip(*(r["dense1"].values() for r in (whole.parameters, resumed.parameters, saved)), strict=True):
    assert np.array_equal(a, b) and np.array_equal(b, c)
assert np.array_equal(whole.state["dropout1"]["key"], resumed.state["dropout1"]["key"])
assert whole.history["loss"] == resumed.history["loss"]
print(f"{resumed.steps} updates in two runs, the same bits as in one")
