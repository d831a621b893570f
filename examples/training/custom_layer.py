"""Write a layer of your own, with a parameter, and use it among others.

In PyTorch: `class Scale(nn.Module)`.
In Keras: `class Scale(Layer)` with `build` and `call`.
"""

import numpy as np

import pullback as pb
from pullback import nn


@nn.layer("N M")
def radial(scope, x, count):
    """Gaussian bumps around `count` learned centers: y[n, k] = exp(-Σ m: (x[n, m] - c[k, m])²)."""
    (N, M) = x.shape
    c = scope.parameter("c", (count, M), nn.init.normal(1.0))
    return pb.build((N, count), lambda n, k: pb.exp(-pb.sum_over(M, lambda m: (x[n, m] - c[k, m]) ** 2)))


random = np.random.default_rng(0)
x = random.uniform(-2, 2, (500, 2)).astype(np.float32)
inside = (np.hypot(*x.T) < 1).astype(np.int64)

net = nn.sequential(radial(12), nn.dense(2)).on("N 2")
run = nn.fit(
    net, nn.cross_entropy, (x, inside), optimizer=nn.adam(0.03), epochs=40, validation_data=(x, inside),
    metrics=[nn.metrics.accuracy], progress=False,
)  # fmt: skip
assert run.parameters["radial1"]["c"].shape == (12, 2)
assert run.history["accuracy"][-1] > 0.95
print(net.type, f"accuracy {run.history['accuracy'][-1]:.3f}", sep="\n")
