"""Train a generator and a discriminator against each other: two networks and two optimizers in one step.

In PyTorch: two optimizers and `detach()`.
In Keras: `train_step` with two gradient tapes.
"""

import numpy as np

import pullback as pb
from pullback import nn

generator = nn.sequential(nn.dense(16), nn.relu, nn.dense(1)).on("N 2")
discriminator = nn.sequential(nn.dense(16), nn.relu, nn.dense(1)).on("N 1")
rates = {"generator": nn.adam(2e-3, betas=(0.5, 0.9)), "discriminator": nn.adam(4e-3, betas=(0.5, 0.9))}


def cost(scores, real):
    return nn.bce_with_logits(scores, pb.full_like(scores, real))


@pb.function(donate=("p", "memory"))
def step(p, memory, real, noise, t):
    def fool(g):
        return cost(discriminator(p["discriminator"], generator(g, noise)), 1.0)

    def detect(d):
        fake = pb.stop_gradient(generator(p["generator"], noise))
        return cost(discriminator(d, real), 1.0) + cost(discriminator(d, fake), 0.0)

    gradients = {"generator": pb.grad(fool)(p["generator"]), "discriminator": pb.grad(detect)(p["discriminator"])}
    after, kept = {}, {}
    for name, optimizer in rates.items():
        updates, kept[name] = optimizer.update(gradients[name], memory[name], p[name], t)
        after[name] = optimizer.apply(p[name], updates)
    return after, kept


random = np.random.default_rng(0)
p = {"generator": generator.init(seed=0)[0], "discriminator": discriminator.init(seed=1)[0]}
memory = {name: optimizer.init(p[name]) for name, optimizer in rates.items()}
averaged = []
for t in range(2000):
    real, noise = random.normal(3, 0.5, (64, 1)), random.normal(size=(64, 2))
    p, memory = step(p, memory, real.astype(np.float32), noise.astype(np.float32), np.int64(t))
    if t % 100 == 99 and t >= 1000:
        averaged.append(generator(p["generator"], random.normal(size=(1000, 2)).astype(np.float32)))
mean, std = np.mean(averaged), np.mean([np.std(a) for a in averaged])
assert abs(mean - 3) < 0.5
assert 0.1 < std < 1.0
print(f"made numbers: mean {mean:.2f} and deviation {std:.2f}; real ones: 3 and 0.5")
