# ruff: noqa: E402
"""Saved networks in onnxruntime: the values of the network itself, at two batch sizes and in both precisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX files need the extra onnx")
runtime = pytest.importorskip("onnxruntime", reason="a peer")

from pullback.onnx import save
from tests.unit.onnx.saved import CASES, arrays, inputs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_networks(name: str, dtype: Any, tmp_path: Path) -> None:
    case, file = CASES[name], tmp_path / "net.onnx"
    parameters, state = arrays(case, dtype)
    save(case.net, file, parameters, state)
    if dtype is np.float64 and any(n.op_type == "Erf" for n in onnx.load(file).graph.node):
        pytest.skip("onnxruntime has Erf in single precision only")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    bound = 1e-5 if dtype is np.float32 else 1e-10
    for x in inputs(case, dtype):
        wanted = case.net.function(dtype).interpret(parameters, state, x)
        (found,) = session.run(None, {session.get_inputs()[0].name: x})
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)
