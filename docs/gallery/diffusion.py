"""Points of a spiral, made of noise.

A diffusion model: the network learns to tell the noise in noisy points of a spiral, for all amounts of noise. Then
points that are nothing but noise lose it in fifty steps, and lie on the spiral.
"""

import matplotlib.pyplot as plt
import numpy as np

import pullback as pb
from pullback import nn

STEPS = 50
random = np.random.default_rng(0)
kept = np.cumprod(1 - np.linspace(1e-4, 0.15, STEPS))  # the part of the signal that is left after each step


def spiral(count):
    """Return points of a spiral."""
    turn = 3 * np.pi * np.sqrt(random.uniform(0.05, 1, count))
    return (np.stack([turn * np.cos(turn), turn * np.sin(turn)], 1) / 6).astype(np.float32)


def inputs(points, k):
    """Return points with the amount of noise, as waves of several lengths."""
    waves = np.outer(k / STEPS, np.pi * np.array([0.5, 1, 2, 4]))
    return np.concatenate([points, np.sin(waves), np.cos(waves)], 1).astype(np.float32)


points = spiral(24_000)
k, noise = random.integers(0, STEPS, len(points)), random.normal(size=points.shape).astype(np.float32)
noisy = np.sqrt(kept[k])[:, None] * points + np.sqrt(1 - kept[k])[:, None] * noise
net = nn.sequential(*(nn.dense(64), nn.silu) * 3, nn.dense(2))
error = lambda y, target: pb.mean((y - target) ** 2)
how = {"optimizer": nn.adam(nn.cosine_decay_schedule(4e-3, decay_steps=3750)), "batch_size": 128, "progress": False}
run = nn.fit(net, error, (inputs(noisy, k), noise), epochs=20, seed=0, **how)

x = random.normal(size=(1000, 2)).astype(np.float32)
path = [x]
for k in reversed(range(STEPS)):
    before = kept[k - 1] if k else 1.0
    rate = 1 - kept[k] / before
    told = net(run.parameters, inputs(x, np.full(len(x), k)))
    x = (x - rate / np.sqrt(1 - kept[k]) * told) / np.sqrt(1 - rate)
    x += np.sqrt(rate * (1 - before) / (1 - kept[k])) * random.normal(size=x.shape)
    path.append(x)
x = x.astype(np.float32)
far = np.sqrt(((x[:, None] - spiral(2000)) ** 2).sum(2)).min(1)
assert np.median(far) < 0.12

fig, parts = plt.subplots(1, 3, figsize=(7, 2.5), layout="constrained")
for part, at in zip(parts, (0, 35, STEPS)):
    part.scatter(*path[at].T, s=2)
    part.set(xlim=(-2.5, 2.5), ylim=(-2.5, 2.5), aspect="equal", title=f"{at} steps")
