"""Follow and stop a training by callbacks: functions that are called after every epoch or every batch.

In PyTorch: lines of your loop, or callbacks of Lightning.
In Keras: `class Watch(Callback)`.
"""

import numpy as np

from pullback import nn

x = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)
y = x @ np.array([[1.0], [2.0], [3.0]], np.float32)
norms = []


def note_norm(state: nn.TrainingState) -> None:
    norms.append(float(np.linalg.norm(state.parameters["w"])))


def stop_when_good(state: nn.TrainingState) -> bool:
    return state.loss < 0.05


class CountBatches:
    """An object with a method for the moment that it wants."""

    seen = 0

    def on_batch_end(self, state: nn.TrainingState) -> None:
        """Count a batch."""
        self.seen += 1


count = CountBatches()
run = nn.fit(
    nn.dense(1), nn.mse_loss, (x, y), optimizer=nn.adam(0.05), epochs=200, batch_size=20, progress=False,
    callbacks=[note_norm, stop_when_good, count],
)  # fmt: skip
assert run.stop_reason == "stopped early"
assert len(norms) == len(run.history) < 200
assert count.seen == run.steps == 6 * len(run.history)
assert abs(norms[-1] - 14**0.5) < 0.3
print(f"{len(norms)} epochs, norm {norms[0]:.2f} to {norms[-1]:.2f}")
