"""Clip gradients by their common norm or by value, so that a bad batch does not end the training.

In PyTorch: `clip_grad_norm_(parameters, 1.0)` and `clip_grad_value_`.
In Keras: `Adam(global_clipnorm=1.0)` and `clipvalue`.
"""

import numpy as np

import pullback as pb
from pullback import nn

gradients = {"a": np.array([30.0, 40.0]), "b": np.array([0.0])}  # their norm is 50
parameters = {"a": np.zeros(2), "b": np.zeros(1)}


def updates(optimizer: nn.Optimizer) -> dict:
    step = pb.function(lambda g, p: optimizer.update(g, optimizer.init(p), p, 0)[0])
    return step(gradients, parameters)


assert np.allclose(updates(nn.clip_by_global_norm(1.0) >> nn.sgd(1.0))["a"], [-0.6, -0.8])
assert np.allclose(updates(nn.clip_by_value(35.0) >> nn.sgd(1.0))["a"], [-30, -35])

x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
y = x.sum(axis=1, keepdims=True) * np.where(np.arange(64) == 7, 1e4, 1)[:, None].astype(np.float32)  # a wrong target
moved = []
for clip in (nn.clip_by_global_norm(1.0), nn.clip_by_global_norm(1e9)):
    run = nn.fit(
        nn.dense(1), nn.mse_loss, (x, y), optimizer=clip >> nn.sgd(0.05), epochs=1, batch_size=8, progress=False
    )
    moved.append(np.abs(run.parameters["w"]).max())
assert moved[0] < 2 < 10 < moved[1]
print(f"largest weight: {moved[0]:.2f} with clipping, {moved[1]:.0f} without")
