"""Train with a loss of your own: a Python function of results and targets, of which the gradient is derived.

In PyTorch: any function of tensors.
In Keras: `model.compile(loss=function)`.
"""

import numpy as np

import pullback as pb
from pullback import nn
from pullback.testing import check_grads


def cauchy(y, target, scale=0.5):
    """The mean of log(1 + (d / scale)²), which grows slowly with the error d."""
    return pb.mean(pb.log1p(((y - target) / scale) ** 2))


random = np.random.default_rng(0)
x = random.uniform(-1, 1, (200, 1)).astype(np.float32)
y = 2 * x + 1
y[::10] += 20  # outliers

found = {}
for loss in (cauchy, nn.mse_loss):
    run = nn.fit(nn.dense(1), loss, (x, y), optimizer=nn.adam(0.05), epochs=60, progress=False)
    found[loss] = float(run.parameters["w"][0, 0]), float(run.parameters["b"][0])
check_grads(pb.function(cauchy), (np.array([0.1, 2.0]), np.array([0.0, 0.5])))
assert np.allclose(found[cauchy], (2, 1), atol=0.05)  # not disturbed by the outliers
assert found[nn.mse_loss][1] > 2
print("slope and intercept:", np.round(found[cauchy], 2), "instead of", np.round(found[nn.mse_loss], 2))
