"""Models of torchvision and timm, filled by name: their names and shapes, and the scores of one, are stored.

`python -m tests.unit.nn.torch_peers.pretrained` stores them again.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

STORED = Path(__file__).parent / "pretrained.json"
OURS = {
    "resnet18": "resnet18", "resnet34": "resnet34", "resnet50": "resnet50", "vgg11": "vgg11", "vgg16": "vgg16",
    "alexnet": "alexnet_owt", "googlenet": "googlenet_bn", "mobilenet_v2": "mobilenet_v2", "timm.resnet18": "resnet18",
    "timm.vgg11": "vgg11", "timm.mobilenetv2_100": "mobilenet_v2",
}  # fmt: skip
"""Our networks for their models."""

SCORED = "resnet18"
COUNTER = "num_batches_tracked"
Values = np.ndarray[Any, Any]


def filled(name: str, shape: tuple[int, ...]) -> Values:
    """An array by its name, the same on every machine: small weights, variances near 1."""
    k = np.arange(1, int(np.prod(shape)) + 1, dtype=np.float64)
    values = np.sin(0.37 * k * k + zlib.crc32(name.encode()) % 1000).reshape(shape)
    if name.endswith("running_var"):
        return 1 + 0.5 * values
    return np.sqrt(2 / np.prod(shape[1:])) * values if len(shape) > 1 else 0.2 * values + name.endswith("bn1.weight")


def image(size: int, dtype: Any = np.float64) -> Values:
    """An image as the input of all."""
    k = np.arange(1, 3 * size * size + 1, dtype=np.float64)
    return np.sin(0.37 * k * k).reshape(1, 3, size, size).astype(dtype)


def stored() -> dict[str, Any]:
    """Names and shapes of all models, and the scores of one."""
    found: dict[str, Any] = json.loads(STORED.read_text())
    return found


def model(name: str) -> Any:
    """Their model in evaluation mode, filled by name."""
    import torch

    made = constructed(name)
    for key, tensor in made.state_dict().items():
        if not key.endswith(COUNTER):
            tensor.copy_(torch.from_numpy(filled(key, tuple(tensor.shape))))
    return made.eval()


def constructed(name: str) -> Any:
    """Their model as it begins."""
    if name.startswith("timm."):
        import timm

        return timm.create_model(name.removeprefix("timm."))
    import torchvision

    settings = {"init_weights": False} if name == "googlenet" else {}
    return getattr(torchvision.models, name)(**settings)


def scores(made: Any, x: Values) -> Values:
    """The scores of their model."""
    import torch

    with torch.no_grad():
        y: Values = made.to(torch.from_numpy(x).dtype)(torch.from_numpy(x)).numpy()
    return y


def main() -> None:
    """Store names, shapes and scores."""
    import torch

    lines = []
    for name in OURS:
        with torch.device("meta"):
            made = constructed(name)
        shapes = {k: list(v.shape) for k, v in made.state_dict().items() if not k.endswith(COUNTER)}
        lines.append(f"{json.dumps(name)}: {json.dumps(shapes, separators=(',', ':'))}")
        if name == SCORED:
            found = scores(model(name).double(), image(32))[0, ::100]
            lines.append(f'"scores": {json.dumps(found.tolist())}')
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
