"""Apply a trained network to all samples of a data set, in batches.

In PyTorch: a loop under `torch.no_grad()`.
In Keras: `model.predict(x, batch_size=64)`.
"""

import numpy as np

from pullback import data, nn

digits = data.load_digits()
net = nn.sequential(nn.flatten(), nn.batch_norm(), nn.dense(10)).on("N 28 28")
run = nn.fit(net, nn.cross_entropy, digits.train, optimizer=nn.adam(2e-3), epochs=8, progress=False)

scores = nn.predict(net, digits.test.inputs, parameters=run.parameters, state=run.state)
assert scores.shape == (360, 10)
assert np.allclose(scores, net(run.parameters, digits.test.inputs, run.state), atol=1e-5)  # the same at once
small = nn.predict(
    net, digits.test, parameters=run.parameters, state=run.state, batch_size=64
)  # a Dataset; batches of 64
assert np.allclose(scores, small, atol=1e-5)
right = np.mean(scores.argmax(1) == digits.test.targets)
assert right > 0.85
print(f"accuracy {right:.3f} of {len(scores)} samples")
