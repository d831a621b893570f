"""Where the letters of a word are heard: the alignment of connectionist temporal classification.

The gradient of the loss by the scores is the softmax minus the probability of each letter at each step, given the
word. So one gradient gives the alignment.
"""

import matplotlib.pyplot as plt
import numpy as np

import pullback as pb
from pullback import nn

LETTERS = "-ehlo"  # the first is the blank
word = np.array([[LETTERS.index(c) for c in "hello"]])
r, steps = np.random.default_rng(0), 40
scores = r.normal(size=(1, steps, len(LETTERS)))
for letter, at in zip("hello", (4, 11, 19, 26, 33)):
    scores[0, at - 1 : at + 2, LETTERS.index(letter)] += 3.0

loss = pb.function(lambda scores, word: pb.sum(nn.ctc_loss(scores, word)))
softmax = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
alignment = (softmax - pb.grad(loss)(scores, word))[0]
assert np.allclose(alignment.sum(1), 1) and alignment.min() > -1e-9
assert alignment[19, 3] > 0.5 and alignment[26, 3] > 0.5  # both of the letters l

plt.imshow(alignment.T, aspect="auto", cmap="magma_r", vmin=0, vmax=1)
plt.yticks(range(5), ["blank", *"ehlo"])
plt.xlabel("step")
plt.colorbar(label="probability, given the word hello")
