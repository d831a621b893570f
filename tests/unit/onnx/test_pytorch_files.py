# ruff: noqa: E402
"""Files that PyTorch exports with an open batch: the results of PyTorch, at several batch sizes."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX files need the extra onnx")
torch = pytest.importorskip("torch", reason="a peer")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs it")

from pullback.onnx import load
from tests.unit.onnx.torch_models import MODELS


def exported(model: Any, x: Any, file: Path, dynamo: bool) -> None:
    """Export a model by one of PyTorch's exporters, with an open batch."""
    sizes: Any = {"dynamic_shapes": [{0: torch.export.Dim("batch")}], "verbose": False, "external_data": False}
    named: Any = {"dynamic_axes": {"x": {0: "batch"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), str(file), dynamo=dynamo, input_names=["x"], **(sizes if dynamo else named))


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_a_model(name: str, dynamo: bool, tmp_path: Path) -> None:
    logging.getLogger("torch").setLevel(logging.ERROR)
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model = make().eval()
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(part.running_mean)
            torch.nn.init.uniform_(part.running_var, 0.5, 2)

    def drawn(batch: int) -> Any:
        return torch.randint(0, 50, (batch, *shape)) if name == "words" else torch.randn(batch, *shape)

    exported(model, drawn(3), tmp_path / "model.onnx", dynamo)
    f, parameters = load(tmp_path / "model.onnx")
    for batch in (1, 4):
        x = drawn(batch)
        with torch.no_grad():
            wanted = model(x)
        found = f.interpret(parameters, x.numpy())
        for a, b in zip(found if isinstance(found, tuple) else (found,),
                        wanted if isinstance(wanted, tuple) else (wanted,), strict=True):  # fmt: skip
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=1e-5)
