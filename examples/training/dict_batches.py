"""Train on batches of your own that are pairs of dicts, from a class that yields them.

In PyTorch: a `Dataset` that returns dicts, with `default_collate`.
In Keras: a `tf.data.Dataset` of dicts.
"""

import numpy as np

from pullback import nn


class Batches:
    """Batches of inputs and targets; each epoch begins anew."""

    def __iter__(self):
        random = np.random.default_rng(0)
        for _ in range(20):
            x = {"left": random.normal(size=(16, 3)), "right": random.normal(size=(16, 3))}
            x = {name: a.astype(np.float32) for name, a in x.items()}
            yield x, {"sum": x["left"] + x["right"], "difference": x["left"] - x["right"]}


net = nn.sequential(nn.concat(), nn.heads(sum=nn.dense(3), difference=nn.dense(3))).on({"left": "N 3", "right": "N 3"})
run = nn.fit(
    net, {"sum": nn.mse_loss, "difference": nn.mse_loss}, Batches(), validation_data=Batches(), optimizer=nn.adam(0.05),
    epochs=20, progress=False,
)  # fmt: skip
assert run.steps == 400
assert run.history["sum_loss"][-1] < 1e-3
assert run.history["difference_loss"][-1] < 1e-3
y = net(run.parameters, {"left": np.ones((1, 3), np.float32), "right": np.full((1, 3), 2, np.float32)})
assert np.allclose(y["sum"], 3, atol=0.1)
print({name: np.round(a[0], 2).tolist() for name, a in y.items()})
