"""Train on sequences of different lengths: jagged arrays, of which batches are padded, and a mean of what is there.

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

net = nn.masked(nn.embedding(10, 8), pool="mean") >> nn.dense(2)
run = nn.fit(net, nn.cross_entropy, (words, labels), optimizer=nn.adam(0.05), epochs=15, progress=False)
scores = nn.predict(net, words, parameters=run.parameters)

mask = words.mask(8)
assert mask.sum() == sum(map(len, rows))
other = net(run.parameters, {"values": words.padded(8, fill=3), "mask": mask})  # what fills the rows does not matter
assert np.allclose(scores, other, atol=1e-6)
assert np.mean(scores.argmax(1) == labels) > 0.9
print(f"accuracy {np.mean(scores.argmax(1) == labels):.3f}")
