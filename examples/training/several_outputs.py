"""Train a network of two results, a label and a box, with a loss for each and weights between them.

In PyTorch: `loss = ce(label) + 0.1 * mse(box)`.
In Keras: `compile(loss={…}, loss_weights={…})`.
"""

import numpy as np

from pullback import nn

random = np.random.default_rng(0)
x = random.normal(size=(300, 6)).astype(np.float32)
targets = {"label": x[:, :3].argmax(1), "box": x[:, 3:5] * 2}

net = nn.sequential(nn.dense(32), nn.relu, nn.heads(label=nn.dense(3), box=nn.dense(2))).on("N 6")
losses = {"label": nn.cross_entropy, "box": lambda y, t: 0.1 * nn.mse_loss(y, t)}
run = nn.fit(
    net, losses, (x, targets), validation_data=(x, targets), optimizer=nn.adam(0.01), epochs=30,
    metrics={"label": nn.metrics.accuracy}, progress=False,
)  # fmt: skip
last = run.history.rows[-1]
assert np.isclose(last["validation_loss"], last["label_loss"] + last["box_loss"], rtol=1e-4)
assert last["label_accuracy"] > 0.95
assert last["box_loss"] < 0.05
print(f"label: accuracy {last['label_accuracy']:.3f}; box: weighted loss {last['box_loss']:.4f}")
