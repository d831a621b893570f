"""Translate sequences: an encoder, a decoder that begins with its state, and attention to the encoder's steps.

In PyTorch: the tutorial "Translation with a sequence to sequence network".
In Keras: `LSTM(return_state=True)`, `Attention()`.
"""

import numpy as np

import pullback as pb
from pullback import nn

LETTERS, LENGTH, START = 6, 4, 6
random = np.random.default_rng(0)
source = random.integers(0, LETTERS, (800, LENGTH))
target = source[:, ::-1]  # to be written backward
before = np.concatenate([np.full((800, 1), START), target[:, :-1]], axis=1)  # the letters before each one


@nn.layer({"source": "i64[N, L]", "before": "i64[N, T]"})
def translate(scope, x):
    """Scores of the next letter after each letter of `before`."""
    embedded = nn.embedding(LETTERS + 1, 16).named("embedded")
    read, states = scope.call(nn.with_states(nn.sequential(embedded, nn.gru(32))), (x["source"], None), "encoder")
    written, _ = scope.call(nn.with_states(nn.sequential(embedded, nn.gru(32))), (x["before"], states), "decoder")
    seen = scope.call(nn.attention(2), {"query": written, "key": read}, "attention")
    return scope.call(nn.dense(LETTERS), pb.concat([written, seen], axis=2), "scores")


net = translate().on({"source": "N L", "before": "N T"})
train, test = slice(700), slice(700, None)
run = nn.fit(
    net, nn.cross_entropy, ({"source": source[train], "before": before[train]}, target[train]), optimizer=nn.adam(0.01),
    epochs=12, progress=False,
)  # fmt: skip
words = np.full((100, LENGTH + 1), START)
for k in range(LENGTH):  # letter by letter; those that are not written yet are not looked at
    scores = net(run.parameters, {"source": source[test], "before": words[:, :LENGTH]})
    words[:, k + 1] = scores[:, k].argmax(-1)
right = np.mean((words[:, 1:] == target[test]).all(axis=1))
assert right > 0.8
print(f"{right:.0%} of new sequences right; {source[700]} gives {words[0, 1:]}")
