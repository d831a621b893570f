"""Adapt a trained network to new data by low-rank adapters beside frozen weights, then merge them.

In PyTorch: `peft.get_peft_model(model, LoraConfig(r=2))`.
In Keras: `layer.enable_lora(2)`.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(400, 10)).astype(np.float32)
net = nn.sequential(nn.dense(48), nn.tanh, nn.dense(4)).on("N 10")
old = nn.fit(net, nn.cross_entropy, (x, x[:, :4].argmax(1)), optimizer=nn.adam(0.01), epochs=30, progress=False)

changed = x[:, [1, 0, 2, 3]].argmax(1)  # in the new task, two classes are exchanged
adapted = nn.lora(net.starting_from(old.parameters), rank=2)
run = nn.fit(adapted, nn.cross_entropy, (x, changed), optimizer=nn.adam(0.02), epochs=30, progress=False)
trained = sum(a.size for layer in run.parameters.values() for pair in layer.values() for a in pair.values())
merged, state = adapted.merge(run.parameters, run.state)

assert trained < 0.4 * sum(a.size for layer in old.parameters.values() for a in layer.values())
assert np.allclose(net(merged, x, state), adapted(run.parameters, x, run.state), atol=1e-3)
right = [np.mean(net(p, x).argmax(1) == changed) for p in (old.parameters, merged)]
assert right[0] < 0.7 < 0.9 < right[1]
print(f"{trained} trained numbers; accuracy on the new task {right[0]:.2f} before, {right[1]:.2f} after")
