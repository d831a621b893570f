"""Compute with weights rounded to bfloat16, while the optimizer updates their float32 masters.

In PyTorch: `torch.autocast("cpu", torch.bfloat16)`.
In Keras: `set_global_policy("mixed_bfloat16")`.
"""

import numpy as np

import pullback as pb
from pullback import data, nn

digits = data.load_digits()
net = nn.sequential(nn.flatten(), nn.dense(64), nn.relu, nn.dense(10)).on("N 28 28")


def rounded(parameters):
    return pb.tree_map(lambda p: p.astype(pb.bfloat16), parameters)


def mixed(parameters, state, batch):
    x, labels = batch
    return nn.cross_entropy(net(rounded(parameters), x.astype(pb.bfloat16)), labels)


def full(parameters, state, batch):
    return nn.cross_entropy(net(parameters, batch[0]), batch[1])


losses = {}
for loss in (mixed, full):
    start, _ = net.init(seed=0)
    run = nn.fit(loss, digits, optimizer=nn.adam(1e-3), epochs=5, parameters=start, progress=False)
    assert run.parameters["dense1"]["w"].dtype == np.float32  # the masters
    losses[loss.__name__] = run.history["validation_loss"][-1]
assert abs(losses["mixed"] - losses["full"]) < 0.03
assert losses["mixed"] < 0.5
print({name: round(value, 4) for name, value in losses.items()})
