"""Learn distances: one network embeds an anchor, a similar and a different sample.

In PyTorch: `TripletMarginLoss()`.
In Keras: the example "Image similarity estimation using a Siamese network".
"""

import numpy as np

import pullback as pb
from pullback import nn

random = np.random.default_rng(0)
centers = random.normal(size=(10, 8))


def samples(labels):
    noise = random.normal(size=(len(labels), 8)) * np.array([0.1, 0.1, 0.1, 0.1, 4, 4, 4, 4])  # half of it says nothing
    return (centers[labels] + noise).astype(np.float32)


same, other = random.integers(0, 10, 600), random.integers(1, 10, 600)
batch = {"anchor": samples(same), "positive": samples(same), "negative": samples((same + other) % 10)}
embed = nn.sequential(nn.dense(32), nn.relu, nn.dense(4)).on("N 8")


def triplet_loss(parameters, state, x):
    a, p, n = (embed(parameters, x[name]) for name in ("anchor", "positive", "negative"))
    closer, farther = pb.sum((a - p) ** 2, axis=1), pb.sum((a - n) ** 2, axis=1)
    return pb.mean(pb.maximum(closer - farther + 1.0, 0.0))


parameters, _ = embed.init(seed=0)
run = nn.fit(triplet_loss, batch, parameters=parameters, optimizer=nn.adam(0.01), epochs=30, progress=False)


def nearest(f):
    """The share of samples whose nearest other sample has their label."""
    labels = np.arange(200) % 10
    points = f(samples(labels))
    distances = ((points[:, None] - points) ** 2).sum(-1) + 1e9 * np.eye(200)
    return np.mean(labels[distances.argmin(1)] == labels)


found, before = nearest(lambda x: embed(run.parameters, x)), nearest(lambda x: x)
assert found > 0.7 > before
print(f"nearest neighbor of the same label: {before:.0%} of inputs, {found:.0%} of embeddings")
