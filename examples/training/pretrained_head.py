"""Begin with trained weights from a file, put a new last layer on them, and train it alone.

In PyTorch: `resnet18(weights=…)` and a new `model.fc`.
In Keras: `include_top=False` and `trainable = False`.
"""

import tempfile
from pathlib import Path

import numpy as np

from pullback import data, nn

digits = data.load_digits()
x, labels = digits.train.inputs[:, ::2, ::2].reshape(-1, 196), digits.train.targets.astype(np.int64)
body = nn.sequential(nn.dense(64), nn.relu).named("body")
adam = {"optimizer": nn.adam(5e-3), "progress": False}

first = nn.fit(nn.sequential(body, nn.dense(10)), nn.cross_entropy, (x[:1000], labels[:1000]), epochs=20, **adam)
with tempfile.TemporaryDirectory() as folder:
    nn.save_parameters(Path(folder) / "body.safetensors", first.parameters["body"])
    trained = nn.load_parameters(Path(folder) / "body.safetensors")

few, test = slice(1000, 1030), slice(1030, None)  # a new task on other images: 30 with labels, in another order
reverse = 9 - labels
nets = {
    "tuned": nn.sequential(body.starting_from(trained).named("body"), nn.dense(10)).on("N 196"),
    "fresh": nn.sequential(body, nn.dense(10)).on("N 196"),
}
frozen = {"optimizer": nn.freeze("body/*") >> nn.adam(0.05), "progress": False}
right = {}
for name, options in (("tuned", frozen), ("fresh", adam)):
    run = nn.fit(nets[name], nn.cross_entropy, (x[few], reverse[few]), epochs=60, seed=1, **options)
    right[name] = np.mean(nn.predict(nets[name], x[test], parameters=run.parameters).argmax(1) == reverse[test])
    kept = np.array_equal(run.parameters["body"]["dense1"]["w"], trained["dense1"]["w"])
    assert kept == (name == "tuned")
assert right["tuned"] > right["fresh"] + 0.03
print({name: f"{value:.3f}" for name, value in right.items()})
