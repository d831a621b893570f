"""Predict several labels at once: each of the classes may hold or not.

In PyTorch: `BCEWithLogitsLoss()` with targets (N, K).
In Keras: sigmoids and `BinaryCrossentropy`.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(400, 6)).astype(np.float32)
tags = np.stack([x[:, 0] > 0, x[:, 1] + x[:, 2] > 0.5, np.abs(x[:, 3]) > 1], axis=1).astype(np.float32)


def exact_match(y, t):
    return np.mean(((y > 0) == (t > 0)).all(axis=1))


net = nn.sequential(nn.dense(32), nn.relu, nn.dense(3)).on("N 6")
run = nn.fit(
    net, nn.bce_with_logits, (x[:300], tags[:300]), validation_data=(x[300:], tags[300:]), optimizer=nn.adam(0.02),
    epochs=30, metrics=[nn.metrics.on_outputs(exact_match)], progress=False,
)  # fmt: skip
assert tags.sum(axis=1).max() == 3  # some samples have all labels
assert run.history["exact_match"][-1] > 0.75
print(f"all three labels right: {run.history['exact_match'][-1]:.0%}")
