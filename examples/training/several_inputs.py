"""Train a network of two inputs, an image and a row of numbers, given by name.

In PyTorch: `forward(self, image, numbers)`.
In Keras: `Model(inputs=[image, numbers], …)`.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = {
    "image": random.normal(size=(400, 1, 8, 8)).astype(np.float32),
    "numbers": random.normal(size=(400, 3)).astype(np.float32),
}
labels = (x["image"].mean(axis=(1, 2, 3)) * 8 + x["numbers"][:, 0] > 0).astype(np.int64)  # both inputs matter

net = nn.sequential(
    nn.parallel(image=nn.flatten() >> nn.dense(8), numbers=nn.dense(8)), nn.concat(), nn.relu, nn.dense(2)
).on({"image": "N 1 8 8", "numbers": "N 3"})
train, test = ({name: a[part] for name, a in x.items()} for part in (slice(300), slice(300, None)))
run = nn.fit(
    net, nn.cross_entropy, (train, labels[:300]), validation_data=(test, labels[300:]), optimizer=nn.adam(0.01),
    epochs=25, metrics=[nn.metrics.accuracy], progress=False,
)  # fmt: skip
assert run.history["accuracy"][-1] > 0.75
assert net(run.parameters, test).shape == (100, 2)
print(f"accuracy {run.history['accuracy'][-1]:.3f}")
