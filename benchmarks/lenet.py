"""LeNet on MNIST by Pullback and by PyTorch: equal start, batches and update rule.

    PULLBACK_DATA=FOLDER python -m benchmarks.lenet

FOLDER holds `mnist/`, of whose training images the first 10,000 are taken. Printed is the share of the test images that
each tells right after every epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback import data, nn
from pullback.data.loader import Samples
from pullback.nn.metrics import accuracy
from pullback.tracing import tree

IMAGES, EPOCHS, BATCH, SEED = 10_000, 10, 64, 0
RATE, MOMENTUM = 0.02, 0.9


def sets() -> tuple[tuple[NDArray[Any], NDArray[Any]], ...]:
    """The training set and the test set, images with their one channel."""
    found = data.load("mnist")
    parts = (part.batch(slice(0, count)) for part, count in ((found.train, IMAGES), (found.test, None)))
    return tuple((np.ascontiguousarray(x.reshape(-1, 1, 28, 28)), targets) for x, targets in parts)


def by_pullback(network: Any, start: Any, train: Any, test: Any) -> list[float]:
    """The share that is right after each epoch, in percent."""
    run = nn.fit(
        network,
        nn.cross_entropy,
        train,
        parameters=start,
        optimizer=nn.sgd(RATE, momentum=MOMENTUM),
        epochs=EPOCHS,
        batch_size=BATCH,
        seed=SEED,
        validation_data=test,
        metrics=(accuracy,),
        progress=False,
    )
    return [100 * share for share in run.history["accuracy"]]


def by_torch(start: Any, train: Any, test: Any) -> Iterator[float]:
    """The same, LeNet written by hand."""
    torch = import_module("torch")
    f = torch.nn.functional
    p = tree.map_leaves(lambda a: torch.from_numpy(np.array(a)).requires_grad_(), start)

    def network(x: Any) -> Any:
        for name in ("conv1", "conv2"):
            x = f.max_pool2d(f.conv2d(x, p[name]["w"], p[name]["b"]), 2)
        x = f.relu(f.linear(x.flatten(1), p["dense1"]["w"], p["dense1"]["b"]))
        return f.linear(x, p["dense2"]["w"], p["dense2"]["b"])

    batches = Samples(train, BATCH, seed=SEED)
    descent = torch.optim.SGD(tree.flatten(p)[0], lr=RATE, momentum=MOMENTUM)
    images, targets = map(torch.from_numpy, test)
    for epoch in range(EPOCHS):
        for k in range(batches.steps or 0):
            x, labels = (torch.from_numpy(a[0]) for a in batches.stacked(epoch, k, 1))
            descent.zero_grad()
            f.cross_entropy(network(x), labels).backward()
            descent.step()
        with torch.no_grad():
            yield 100 * float((network(images).argmax(1) == targets).float().mean())


def main() -> None:
    """Train both, and print a line for each epoch."""
    train, test = sets()
    network = nn.models.lenet().on("N 1 28 28")
    start, _ = network.init(seed=SEED)
    ours, theirs = by_pullback(network, start, train, test), list(by_torch(start, train, test))
    print("epoch  pullback  torch  apart")
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        print(f"{k + 1:5} {a:9.2f} {b:6.2f} {a - b:6.2f}")


if __name__ == "__main__":
    main()
