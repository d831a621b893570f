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
body = nn.sequential(nn.dense(32), nn.relu).named("body")
options = {"optimizer": nn.adam(5e-3), "progress": False}

first = nn.fit(nn.sequential(body, nn.dense(10)), nn.cross_entropy, (x, labels), epochs=10, **options)  # on ten digits
with tempfile.TemporaryDirectory() as folder:
    nn.save_parameters(Path(folder) / "body.safetensors", first.parameters["body"])
    trained = nn.load_parameters(Path(folder) / "body.safetensors")

few = slice(0, 60), slice(60, None)  # a new task with few samples: odd or even
odd = labels % 2
net = nn.sequential(body.starting_from(trained).named("body"), nn.dense(2)).on("N 196")
tuned = nn.fit(
    net, nn.cross_entropy, (x[few[0]], odd[few[0]]), **{**options, "optimizer": nn.freeze("body/*") >> nn.adam(0.01)},
    epochs=60,
)  # fmt: skip
fresh = nn.fit(nn.sequential(body, nn.dense(2)), nn.cross_entropy, (x[few[0]], odd[few[0]]), epochs=60, **options)
right = {
    name: np.mean(net(r.parameters, x[few[1]]).argmax(1) == odd[few[1]])
    for name, r in (("tuned", tuned), ("fresh", fresh))
}
assert np.array_equal(tuned.parameters["body"]["dense1"]["w"], first.parameters["body"]["dense1"]["w"])
assert right["tuned"] > right["fresh"]
print({name: f"{value:.3f}" for name, value in right.items()})
