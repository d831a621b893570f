"""See the shapes, operations, memory and time of a network: before training, and as a profile of a step.

In PyTorch: torchinfo and `torch.profiler`.
In Keras: `model.summary()` and the TensorBoard profiler.
"""

import numpy as np

import pullback as pb
from pullback import nn

net = nn.sequential(nn.conv(8, 3), nn.relu, nn.max_pool(2), nn.flatten(), nn.dense(10)).on("N 1 14 14")
described = str(net.describe(32, loss=nn.cross_entropy, optimizer=nn.adam(1e-3)))
assert "f32[32, 8, 12, 12]" in described  # the result of the convolution
assert "training" in described

x = np.random.default_rng(0).normal(size=(32, 1, 14, 14)).astype(np.float32)
labels = np.arange(32) % 10
parameters, state = net.init(seed=0)
run = nn.fit(net, nn.cross_entropy, (x, labels), optimizer=nn.adam(1e-3), epochs=2, progress=False)
assert all(0 < size < 10**6 for size in run.arena_bytes.values())  # working memory of the compiled calls
assert {"training_seconds", "compiling_seconds"} <= set(run.history.names)

gradient = pb.grad(lambda p, x, t: nn.cross_entropy(net(p, x), t))
found = gradient.profile(parameters, x, labels)  # a row for each statement
assert "operations" in str(found)
print(described, str(found).splitlines()[0], f"working memory {run.arena_bytes}", sep="\n")
