"""Train on a folder of images with a subfolder for each class.

In PyTorch: `torchvision.datasets.ImageFolder`.
In Keras: `image_dataset_from_directory`.
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from pullback import data, nn

random = np.random.default_rng(0)
with tempfile.TemporaryDirectory() as folder:
    for name in ("blue", "green", "red"):  # images of one color with noise
        (Path(folder) / name).mkdir()
        for k in range(12):
            pixels = random.integers(0, 120, (8, 8, 3), np.uint8)
            pixels[..., ("red", "green", "blue").index(name)] += 90
            Image.fromarray(pixels).save(Path(folder) / name / f"{k}.png")
    images = data.load_images(folder)
    assert images.classes == ("blue", "green", "red")
    train, test = images.split(0.75, seed=0, stratified=True)
    net = nn.sequential(nn.conv(8, 3), nn.relu, nn.global_avg_pool(), nn.dense(3)).on("N 3 8 8")
    run = nn.fit(
        net, nn.cross_entropy, train.transformed(data.random_flip()), validation_data=test, optimizer=nn.adam(0.02),
        epochs=20, batch_size=9, metrics=[nn.metrics.accuracy], progress=False,
    )  # fmt: skip
assert run.history["accuracy"][-1] == 1
print(images, f"accuracy {run.history['accuracy'][-1]}", sep="\n")
