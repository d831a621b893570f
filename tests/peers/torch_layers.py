"""What PyTorch makes of the cases in `tests.unit.nn.layer_cases`.

python -m tests.peers.torch_layers        writes tests/unit/nn/torch_layers.json anew
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.unit.nn.layer_cases import CASES, inputs, names, sketches

PLACE = Path(__file__).parents[1] / "unit" / "nn" / "torch_layers.json"


def numbers_of_torch(name: str, dtype: Any = np.float64) -> dict[str, np.ndarray[Any, Any]]:
    """The result of a case, its gradients and the state after it, under the names that `numbers` gives them."""
    import torch  # type: ignore[import-not-found]

    parameters, state, x, g = inputs(name, dtype)
    tensors = {k: torch.tensor(v, requires_grad=True) for k, v in parameters.items()}
    kept = {k: torch.tensor(v) for k, v in state.items()}
    image = torch.tensor(x, requires_grad=True)
    y = CASES[name].theirs(torch.nn.functional, image, {**tensors, **kept})
    gradients = torch.autograd.grad(y, [image, *tensors.values()], torch.tensor(g))
    found = {"y": y.detach(), **dict(zip(["x", *tensors], gradients)), **{f"next {k}": v for k, v in kept.items()}}
    return {k: v.numpy() for k, v in found.items()}


def main() -> None:
    """Write the stored numbers."""
    lines = [f"{json.dumps(name)}: {json.dumps(sketches(numbers_of_torch(name)))}" for name in names()]
    PLACE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
