"""Small models for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def value(name: str, *shape: Any, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], arrays: dict[str, Any] | None = None,
          version: int = 17) -> Any:  # fmt: skip
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in (arrays or {}).items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])


def network(batch: Any = "batch") -> Any:
    """A convolution, normalization, a pool, a reshape by sizes that are computed, and a linear layer."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    arrays = {
        "conv.weight": draw(4, 1, 3, 3), "conv.bias": draw(4), "scale": draw(4), "shift": draw(4), "mean": draw(4),
        "var": np.abs(draw(4)) + 1, "fc.weight": draw(3, 36), "fc.bias": draw(3), "zero": np.array([0]),
        "minus": np.array([-1]),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["a"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "var"], ["b"], "norm"),
        helper.make_node("Relu", ["b"], ["c"], "relu"),
        helper.make_node("MaxPool", ["c"], ["d"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Shape", ["d"], ["shape"], "shape"),
        helper.make_node("Gather", ["shape", "zero"], ["first"], "first"),
        helper.make_node("Concat", ["first", "minus"], ["wanted"], "wanted", axis=0),
        helper.make_node("Reshape", ["d", "wanted"], ["e"], "flat"),
        helper.make_node("Gemm", ["e", "fc.weight", "fc.bias"], ["f"], "fc", transB=1),
        helper.make_node("Softmax", ["f"], ["y"], "softmax", axis=1),
    ]
    return model(nodes, [value("x", batch, 1, 6, 6)], [value("y", batch, 3)], arrays)
