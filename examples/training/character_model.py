"""Train a language model of characters, and let it write a text.

In PyTorch: `nn.Embedding`, `nn.LSTM` and a loop.
In Keras: the example "Character-level text generation".
"""

import numpy as np

from pullback import nn

text = "the cat sat on the mat. the dog sat on the log. " * 40
letters = sorted(set(text))
codes = np.array([letters.index(c) for c in text])
windows = np.lib.stride_tricks.sliding_window_view(codes, 25)[::3]
given, following = windows[:, :-1], windows[:, 1:]  # each letter is to predict the next one

net = nn.sequential(nn.embedding(len(letters), 12), nn.gru(48), nn.dense(len(letters))).on("N L")
run = nn.fit(
    net, nn.cross_entropy, (given, following), validation_data=(given[-64:], following[-64:]), optimizer=nn.adam(0.01),
    epochs=10, metrics=[nn.metrics.perplexity], progress=False,
)  # fmt: skip
assert run.history["perplexity"][-1] < 1.5

step, written, states = nn.with_states(net), "the ", None
scores, states = step(run.parameters, (np.array([[letters.index(c) for c in written]]), states))
for _ in range(40):  # the state goes on, one letter at a time
    written += letters[int(scores[0, -1].argmax())]
    scores, states = step(run.parameters, (np.array([[letters.index(written[-1])]]), states))
assert all(word in text.split() for word in written.split()[:-1])
print(written)
