"""The attention map of a layer that learns to reverse a sequence.

One head, trained for a second, finds the rule by itself: step i of the result looks at step L - 1 - i of the input.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Int64

import pullback as pb
from pullback import Array, nn

K, L, D = 8, 12, 16  # letters, steps, features


def weights(p):
    """Return how much each step looks at each other one, from learned places."""
    return pb.softmax((p["place"] @ p["query"]) @ (p["place"] @ p["key"]).T / np.sqrt(D), axis=-1)


def loss(p, letters):
    values = p["letter"][letters]
    scores = pb.einsum("lm,nmd->nld", weights(p), values) @ p["out"]
    return nn.cross_entropy(scores.reshape(-1, K), letters[:, ::-1].reshape(-1))


@pb.function
def step(p, state, letters: Int64[Array, "N 12"], count):
    value, gradient = pb.value_and_grad(loss)(p, letters)
    updates, state = optimizer.update(gradient, state, p, count)
    return value, optimizer.apply(p, updates), state


r = np.random.default_rng(0)
shapes = {"place": (L, D), "query": (D, D), "key": (D, D), "letter": (K, D), "out": (D, K)}
p = {name: 0.5 * r.normal(size=shape) for name, shape in shapes.items()}
optimizer = nn.adam(0.02)
state = optimizer.init(p)
for count in range(400):
    value, p, state = step(p, state, r.integers(0, K, (32, L)), count)
seen = pb.function(weights)(p)
assert value < 0.1 and np.array_equal(seen.argmax(1), np.arange(L)[::-1])

plt.imshow(seen, cmap="magma_r", vmin=0, vmax=1)
plt.xlabel("step of the input")
plt.ylabel("step of the result")
plt.colorbar(label="attention")
