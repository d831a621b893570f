"""Leave positions out of the loss and the metric by a label that means "ignore".

In PyTorch: `CrossEntropyLoss(ignore_index=-100)`.
In Keras: `SparseCategoricalCrossentropy(ignore_class=-100)`.
"""

import functools

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
words = random.integers(0, 20, (200, 6))  # six symbols in each row; a label for each is its remainder by three
labels = np.where(random.random((200, 6)) < 0.5, words % 3, -100)  # half of them unknown

net = nn.sequential(nn.embedding(20, 8), nn.dense(3)).on("N 6")
run = nn.fit(
    net, functools.partial(nn.cross_entropy, ignore_index=-100), (words, labels), optimizer=nn.adam(0.05), epochs=15,
    validation_data=(words, labels), metrics=[functools.partial(nn.metrics.accuracy, ignore_index=-100)],
    progress=False,
)  # fmt: skip
everywhere = np.mean(net(run.parameters, words).argmax(-1) == words % 3)
assert everywhere == 1  # the unknown ones, too
assert run.history.rows[-1]["accuracy(ignore_index=-100)"] == 1
print(f"loss {run.history.losses[-1]:.4f}, right everywhere: {everywhere:.0%}")
