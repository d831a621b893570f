"""Add up the gradients of several batches for each update, as for batches that do not fit into memory.

In PyTorch: `optimizer.step()` after every fourth `backward()`.
In Keras: `Adam(gradient_accumulation_steps=4)`.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(256, 4)).astype(np.float32)
y = x @ random.normal(size=(4, 2)).astype(np.float32)
net = nn.dense(2).on("N 4")


def train(optimizer: nn.Optimizer, batch_size: int) -> nn.Run:
    return nn.fit(net, nn.mse_loss, (x, y), optimizer=optimizer, epochs=5, batch_size=batch_size, progress=False)


small = train(nn.accumulate_gradients(4, nn.adam(0.05)), batch_size=16)
large = train(nn.adam(0.05), batch_size=64)  # the same samples in the same order
assert small.steps == 4 * large.steps
assert np.allclose(small.parameters["w"], large.parameters["w"], atol=1e-5)
print(f"{small.steps} batches of 16 and {large.steps} of 64 give the same weights")
