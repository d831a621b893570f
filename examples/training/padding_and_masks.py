"""Train on sequences of different lengths: padded rows, and a mask that the mean leaves out.

In PyTorch: `pad_sequence` and `key_padding_mask`.
In Keras: `pad_sequences` and `mask_zero=True`.
"""

import numpy as np

import pullback as pb
from pullback import nn

random = np.random.default_rng(0)
rows = [random.integers(0, 10, n) for n in random.integers(2, 9, 400)]
labels = np.array([int(np.mean(row) > 4.5) for row in rows])
words = pb.jagged(rows)
padded, mask = pb.function(lambda words: (words.padded(8), words.mask(8)))(words)  # (400, 8) each
assert mask.sum() == sum(map(len, rows))


@nn.layer({"words": "i64[N, L]", "mask": "bool[N, L]"})
def masked_mean(scope, x):
    """The mean of the embeddings of the words that are there."""
    e = scope.call(nn.embedding(10, 8), x["words"], "embedding")
    weights = pb.expand_dims(x["mask"], 2).astype(e.dtype)
    return pb.sum(weights * e, axis=1) / pb.sum(weights, axis=1)


net = nn.sequential(masked_mean(), nn.dense(2)).on({"words": "N L", "mask": "N L"})
data = {"words": padded, "mask": mask}
run = nn.fit(net, nn.cross_entropy, (data, labels), optimizer=nn.adam(0.05), epochs=15, progress=False)
scores = net(run.parameters, data)
other = net(run.parameters, {"words": np.where(mask, padded, 3), "mask": mask})  # what fills the rows does not matter
assert np.allclose(scores, other)
assert np.mean(scores.argmax(1) == labels) > 0.9
print(f"accuracy {np.mean(scores.argmax(1) == labels):.3f}")
