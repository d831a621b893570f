"""Count which classes a network confuses, and save pictures of the counts and of the history.

In PyTorch and Keras: `sklearn.metrics.confusion_matrix` and matplotlib.
"""

import tempfile
from pathlib import Path

import numpy as np

import pullback as pb
from pullback import data, nn

digits = data.load_digits()
net = nn.sequential(nn.flatten(), nn.dense(10)).on("N 28 28")
run = nn.fit(net, nn.cross_entropy, digits, optimizer=nn.adam(1e-3), epochs=8, progress=False)

scores = nn.predict(net, digits.test, parameters=run.parameters)
counts = pb.function(nn.metrics.confusion_matrix)(scores, digits.test.targets.astype(np.int64))
assert counts.shape == (10, 10)
assert np.array_equal(counts.sum(axis=1), np.bincount(digits.test.targets))  # a row for each label
assert np.trace(counts) / counts.sum() > 0.85
recall = np.diag(counts) / counts.sum(axis=1)
with tempfile.TemporaryDirectory() as folder:
    run.history.picture().save(Path(folder) / "history.svg")
    assert (Path(folder) / "history.svg").read_text().startswith("<svg")
    try:
        import matplotlib.pyplot as plt

        plt.figure().add_subplot().imshow(counts, cmap="Blues")
        plt.savefig(Path(folder) / "counts.png")
        plt.close()
    except ImportError:
        pass
print(counts, f"least recall: {recall.min():.2f}, of digit {recall.argmin()}", sep="\n")
