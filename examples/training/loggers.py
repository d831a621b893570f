"""Write the history of a training to a CSV file, and to event files of TensorBoard if it is installed.

In PyTorch: `SummaryWriter`.
In Keras: the callbacks `CSVLogger` and `TensorBoard`.
"""

import csv
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from pullback import nn

x = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
y = x.sum(axis=1, keepdims=True)
with tempfile.TemporaryDirectory() as folder:
    file, events = Path(folder) / "log.csv", Path(folder) / "events"
    board = [nn.TensorBoardLogger(str(events))] if find_spec("tensorboard") else []
    run = nn.fit(
        nn.dense(1), nn.mse_loss, (x, y), validation_data=(x, y), optimizer=nn.adam(0.05), epochs=5, progress=False,
        callbacks=[nn.CSVLogger(str(file)), *board],
    )  # fmt: skip
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    assert not board or any(events.iterdir())
    run.history.save(Path(folder) / "history.csv")  # the same without a callback
    assert (Path(folder) / "history.csv").exists()
assert [int(row["epoch"]) for row in rows] == [1, 2, 3, 4, 5]
assert np.allclose([float(row["validation_loss"]) for row in rows], run.history["validation_loss"])
print(*rows[-1].items(), sep="\n")
