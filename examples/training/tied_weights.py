"""Use one matrix of weights in two places: an encoder and its transpose as the decoder.

In PyTorch: `decoder.weight = encoder.weight`.
In Keras: a layer called twice, or a custom layer.
"""

import numpy as np

from pullback import nn


@nn.layer("N M")
def tied_autoencoder(scope, x, units):
    """The reconstruction x wᵀ w + b, which uses w twice."""
    (_, M) = x.shape
    w = scope.parameter("w", (units, M), nn.init.xavier_uniform())
    b = scope.parameter("b", (M,), nn.init.zeros())
    return x @ w.T @ w + b


random = np.random.default_rng(0)
x = (random.normal(size=(300, 2)) @ random.normal(size=(2, 10)) * 0.3).astype(np.float32)  # a plane in ten dimensions

net = tied_autoencoder(2).on("N 10")
run = nn.fit(net, nn.mse_loss, (x, x), optimizer=nn.adam(0.02), epochs=40, progress=False)
assert sorted(run.parameters) == ["b", "w"]  # one matrix; its gradient is the sum over both uses
assert run.history.losses[-1] < 0.1 * np.mean(x**2)
print(f"{run.parameters['w'].size} weights, loss {run.history.losses[0]:.3f} to {run.history.losses[-1]:.4f}")
