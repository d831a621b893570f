"""Predict counts: the network gives the logarithm of a Poisson rate.

In PyTorch: `PoissonNLLLoss()`.
In Keras: `losses.Poisson()`.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(2000, 2)).astype(np.float32)
counts = random.poisson(np.exp(0.5 + 0.8 * x[:, 0] - 0.3 * x[:, 1]))

run = nn.fit(
    nn.dense(1), lambda y, t: nn.poisson_nll_loss(y[:, 0], t), (x, counts), optimizer=nn.adam(0.02), epochs=20,
    progress=False,
)  # fmt: skip
found = [*run.parameters["w"][0], *run.parameters["b"]]
assert np.allclose(found, [0.8, -0.3, 0.5], atol=0.1)  # the rates that made the counts
print("coefficients", np.round(found, 3))
