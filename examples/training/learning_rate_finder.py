"""Find a learning rate: train for some steps while the rate grows, and look where the loss falls fastest.

In PyTorch: `Tuner.lr_find` of Lightning.
In Keras: `LearningRateScheduler` and a plot.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(500, 8)).astype(np.float32)
y = np.sin(x @ random.normal(size=(8, 1))).astype(np.float32)
net = nn.sequential(nn.dense(32), nn.tanh, nn.dense(1)).on("N 8")

found = nn.find_learning_rate(net, nn.mse_loss, (x, y), optimizer=nn.sgd)
assert 1e-4 < found.suggestion < 1
losses = {}
for rate in (found.suggestion, found.suggestion / 100):
    losses[rate] = nn.fit(net, nn.mse_loss, (x, y), optimizer=nn.sgd(rate), epochs=20, progress=False).history.losses[
        -1
    ]
assert losses[found.suggestion] < losses[found.suggestion / 100]
print(
    f"suggested {found.suggestion:.3g}: loss {losses[found.suggestion]:.3f}, "
    f"a hundredth of it: loss {losses[found.suggestion / 100]:.3f}"
)
