"""Repeat a training bit for bit by its seed, with dropout and random augmentation, on any number of threads.

In PyTorch: `manual_seed` and `use_deterministic_algorithms(True)`.
In Keras: `set_random_seed`, `enable_op_determinism`.
"""

import numpy as np

from pullback import data, nn

digits = data.load_digits().train
train = data.Dataset(digits.inputs[:300, None], digits.targets[:300]).transformed(data.random_erasing(0.5))
net = nn.sequential(nn.flatten(), nn.dense(32), nn.relu, nn.dropout(0.3), nn.dense(10)).on("N 1 28 28")


def weights(seed: int, threads: int) -> np.ndarray:
    run = nn.fit(
        net, nn.cross_entropy, train, optimizer=nn.adam(1e-3), epochs=2, seed=seed, threads=threads, progress=False
    )
    return run.parameters["dense1"]["w"]


first, second, threads, other = weights(0, 1), weights(0, 1), weights(0, 2), weights(1, 1)
assert np.array_equal(first, second)
assert np.array_equal(first, threads)  # sums have one order, whoever adds
assert not np.array_equal(first, other)
print("equal bits in two runs and on two threads; another seed differs by", np.abs(first - other).max())
