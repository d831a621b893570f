"""Penalize the slope of a network at its inputs: a derivative inside the loss, which is differentiated again.

In PyTorch: `autograd.grad(y, x, create_graph=True)`.
In Keras: nested `GradientTape`s, as in WGAN-GP.
"""

import numpy as np

import pullback as pb
from pullback import nn
from pullback.testing import check_grads

net = nn.sequential(nn.dense(24), nn.tanh, nn.dense(1)).on("N 1")
random = np.random.default_rng(0)
x = np.linspace(-1, 1, 12, dtype=np.float32)[:, None]
y = (x > 0).astype(np.float32) + random.normal(0, 0.1, x.shape).astype(np.float32)  # a jump, with noise


def loss_with(weight):
    def loss(parameters, state, batch):
        inputs, targets = batch
        slopes = pb.grad(lambda x: pb.sum(net(parameters, x)))(inputs)
        return nn.mse_loss(net(parameters, inputs), targets) + weight * pb.mean(slopes**2)

    return loss


steepest = {}
grid = np.linspace(-1, 1, 400, dtype=np.float32)[:, None]
for weight in (0.0, 0.1):
    start, _ = net.init(seed=0)
    run = nn.fit(
        loss_with(weight), (x, y), parameters=start, optimizer=nn.adam(0.02), epochs=400, batch_size=12, progress=False
    )
    steepest[weight] = float(np.abs(np.diff(net(run.parameters, grid)[:, 0])).max() / np.diff(grid[:2, 0])[0])
assert steepest[0.1] < 0.5 * steepest[0.0]
start, _ = net.init(seed=0, dtype=np.float64)
check_grads(
    pb.function(lambda parameters: loss_with(0.1)(parameters, {}, (x.astype(float), y.astype(float)))), (start,)
)
print({f"penalty {weight}": f"steepest slope {value:.2f}" for weight, value in steepest.items()})
