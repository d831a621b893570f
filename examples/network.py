"""Two spirals told apart: a network with a layer of its own, trained, resumed, exported as C.

python examples/network.py
"""

import tempfile
from pathlib import Path

import numpy as np

import pullback as pb
from pullback import nn


@nn.layer("N M")
def waves(scope, x, count):
    """Sines of weighted sums, whose frequencies are learned: y[n, k] = sin(Σ m: w[k, m] x[n, m] + b[k])."""
    (N, M) = x.shape
    w, b = scope.parameter("w", (count, M), nn.init.normal(2.0)), scope.parameter("b", (count,), nn.init.zeros())
    return pb.build((N, count), lambda n, k: pb.sin(pb.sum_over(M, lambda m: w[k, m] * x[n, m]) + b[k]))


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on two spirals, and which one each is on."""
    random = np.random.default_rng(seed)
    labels, angle = np.arange(count) % 2, random.uniform(0.5, 3 * np.pi, count)
    at = angle + np.pi * labels
    points = np.stack([np.cos(at), np.sin(at)], axis=1) * angle[:, None] / 5 + random.normal(0, 0.02, (count, 2))
    return points.astype(np.float32), labels


net = nn.sequential(waves(32), nn.dense(32), nn.relu, nn.dense(2)).named("spirals").on("N 2")


def main() -> None:
    print(net.describe(batch_size=50))
    with tempfile.TemporaryDirectory() as folder:
        for epochs in (3, 10):  # the second call goes on where the first one ended
            run = nn.fit(
                net, nn.cross_entropy, spirals(1000, seed=0), optimizer=nn.clip_by_global_norm(1.0) >> nn.adam(1e-2),
                epochs=epochs, batch_size=50, validation_data=spirals(200, seed=1),
                metrics=[nn.metrics.accuracy], save=folder, progress=False,
            )  # fmt: skip
            print(f"epoch {epochs}  accuracy {run.history['accuracy'][-1]:.3f}")
        made = net.export(Path(folder) / "c", run.parameters, weights="const")
        print("C:", ", ".join(Path(file).name for file in made["files"]))


if __name__ == "__main__":
    main()
