"""Networks written by `onnx.save` and by PyTorch, run by onnxruntime in turns.

python -m benchmarks.onnx_saved [--rounds 200]

Both files of a network have the same layers and sizes, an open batch, and random weights. Each round runs both once, on
one thread. The table has the smallest times in milliseconds and their ratio.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import turns
from pullback import nn, onnx


def _block() -> Any:
    body = (nn.conv(16, 3, padding=1), nn.batch_norm(), nn.relu, nn.conv(16, 3, padding=1), nn.batch_norm())
    return nn.residual(*body) >> nn.relu


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "LeNet": (
        lambda: nn.sequential(
            nn.conv(6, 5, padding=2), nn.relu, nn.max_pool(2), nn.conv(16, 5), nn.relu, nn.max_pool(2), nn.flatten(),
            nn.dense(120), nn.relu, nn.dense(84), nn.relu, nn.dense(10),
        ), (1, 28, 28),
    ),
    "ResNet": (
        lambda: nn.sequential(nn.conv(16, 3, padding=1), nn.batch_norm(), nn.relu, *(_block() for _ in range(4)),
                              nn.global_avg_pool(), nn.dense(10)), (3, 32, 32),
    ),
    "LSTM": (lambda: nn.sequential(nn.lstm(128, return_sequences=False), nn.dense(10)), (32, 64)),
    "transformer": (lambda: nn.sequential(nn.transformer_block(4), nn.transformer_block(4), nn.dense(10)), (32, 64)),
}  # fmt: skip


def theirs(name: str) -> Any:
    """The network in PyTorch."""
    torch = importlib.import_module("torch")
    t = torch.nn

    class Residual(t.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            conv = [t.Conv2d(16, 16, 3, padding=1) for _ in range(2)]
            self.body = t.Sequential(conv[0], t.BatchNorm2d(16), t.ReLU(), conv[1], t.BatchNorm2d(16))

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.body(x))

    class Last(t.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.dense = t.LSTM(64, 128, batch_first=True), t.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.dense(self.lstm(x)[0][:, -1])

    def encoder() -> Any:
        one = t.TransformerEncoderLayer(64, 4, 256, batch_first=True, activation="gelu", norm_first=True)
        return t.Sequential(t.TransformerEncoder(one, 2, enable_nested_tensor=False), t.Linear(64, 10))

    made = {
        "LeNet": lambda: t.Sequential(
            t.Conv2d(1, 6, 5, padding=2), t.ReLU(), t.MaxPool2d(2), t.Conv2d(6, 16, 5), t.ReLU(), t.MaxPool2d(2),
            t.Flatten(), t.Linear(400, 120), t.ReLU(), t.Linear(120, 84), t.ReLU(), t.Linear(84, 10),
        ),
        "ResNet": lambda: t.Sequential(
            t.Conv2d(3, 16, 3, padding=1), t.BatchNorm2d(16), t.ReLU(), *(Residual() for _ in range(4)),
            t.AdaptiveAvgPool2d(1), t.Flatten(), t.Linear(16, 10),
        ),
        "LSTM": Last,
        "transformer": encoder,
    }  # fmt: skip
    return made[name]().eval()


def files(name: str, folder: Path) -> tuple[Path, Path, tuple[int, ...]]:
    """Both files of a network, and the sizes of a sample."""
    torch = importlib.import_module("torch")
    make, shape = NETWORKS[name]
    net = make().on(" ".join(["N", *map(str, shape)]))
    ours, other = folder / f"{name}_ours.onnx", folder / f"{name}_torch.onnx"
    onnx.save(net, ours, *net.init(seed=0))
    sizes = [{0: torch.export.Dim("batch")}]
    torch.onnx.export(theirs(name), (torch.zeros(3, *shape),), str(other), dynamo=True, dynamic_shapes=sizes,
                      input_names=["x"], verbose=False, external_data=False)  # fmt: skip
    return ours, other, shape


def session(path: Path) -> Any:
    """A session of onnxruntime on one thread."""
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each network and batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print("| network | batch | ours, ms | PyTorch's file, ms | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in NETWORKS:
            *paths, shape = files(name, Path(folder))
            sessions = [session(p) for p in paths]
            for batch in (1, 16):
                x = np.random.default_rng(0).normal(size=(batch, *shape)).astype(np.float32)
                calls = [lambda s=s, x=x: s.run(None, {"x": x}) for s in sessions]
                ours, other = (1000 * min(t) for t in turns(calls, options.rounds))
                print(f"| {name} | {batch} | {ours:.3f} | {other:.3f} | {ours / other:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
