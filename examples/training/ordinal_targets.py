"""Predict ordered classes, such as ratings, by one score for each threshold between them.

In PyTorch: `coral_pytorch`, or a loss of your own.
In Keras: the same.
"""

import numpy as np

import pullback as pb
from pullback import nn

RATINGS = 5
random = np.random.default_rng(0)
x = random.normal(size=(600, 3)).astype(np.float32)
ratings = np.digitize(x @ [1.0, 0.5, -0.5] + random.normal(0, 0.2, 600), [-1.2, -0.4, 0.4, 1.2])


def ordinal(y, t):
    """The scores y[n, k] say whether t[n] > k."""
    return nn.bce_with_logits(y, pb.expand_dims(t, 1) > pb.arange(RATINGS - 1))


net = nn.dense(RATINGS - 1).on("N 3")
run = nn.fit(net, ordinal, (x, ratings), optimizer=nn.adam(0.1), epochs=40, progress=False)
predicted = (net(run.parameters, x) > 0).sum(axis=1)
error = np.abs(predicted - ratings)
assert error.mean() < 0.25
assert error.max() <= 1  # never two ratings off
print(f"mean error {error.mean():.3f} ratings, largest {error.max()}")
