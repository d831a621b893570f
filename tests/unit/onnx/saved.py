"""Networks for tests of `onnx.save`: each with the operators that its file must have, and input shapes to run it at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

from pullback import nn
from tests.peers.test_array_calls import is_older


class Case(NamedTuple):
    """A network, input shapes of two batch sizes, the operators of its layers, and those that must not be left."""

    net: Any
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    operators: tuple[str, ...] = ()
    without: tuple[str, ...] = ("Einsum", "Gather")
    integers: int = 0


def _both(*sizes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (1, *sizes), (3, *sizes)


LENET = nn.sequential(nn.conv(6, 5, padding=2), nn.relu, nn.max_pool(2), nn.conv(16, 5), nn.relu, nn.avg_pool(2),
                      nn.flatten(), nn.dense(20), nn.relu, nn.dense(10), nn.softmax)  # fmt: skip
RESNET = nn.sequential(nn.conv(8, 3, padding=1), nn.batch_norm(), nn.relu, nn.residual(
    nn.conv(8, 3, padding=1, groups=2, dilation=1), nn.batch_norm(), nn.relu, nn.conv(8, 3, padding="same")),
    nn.global_avg_pool(), nn.dense(3))  # fmt: skip
CASES = {
    "LeNet": Case(LENET.on("N 1 16 16"), _both(1, 16, 16),
                  ("Conv", "Relu", "MaxPool", "AveragePool", "Gemm", "Softmax")),
    "ResNet": Case(RESNET.on("N 3 10 10"), _both(3, 10, 10), ("Conv", "BatchNormalization", "GlobalAveragePool")),
    "conv1": Case(nn.sequential(nn.conv(4, (3,), stride=2), nn.tanh, nn.global_max_pool()).on("N 2 9"), _both(2, 9),
                  ("Conv", "Tanh", "ReduceMax")),
    "ceil": Case(nn.sequential(nn.dense(8), nn.max_pool(3, 2, 1, ceil_mode=True)).on("N 2 8 8"), _both(2, 8, 8),
                 ("MaxPool",)),
    "LSTM": Case(nn.sequential(nn.lstm(5), nn.lstm(4, reverse=True, return_sequences=False), nn.dense(2)).on("N L 3"),
                 ((1, 4, 3), (2, 6, 3)), ("LSTM",), ("Einsum", "Scan")),
    "GRU": Case(nn.gru(4, num_layers=2, bidirectional=True).on("N L 3"), ((1, 4, 3), (2, 6, 3)), ("GRU",), ("Scan",)),
    "transformer": Case(nn.sequential(nn.transformer_block(2, is_causal=True), nn.transformer_block(2)).on("N L 8"),
                        ((1, 4, 8), (2, 6, 8)), ("LayerNormalization", "Gelu", "Softmax", "MatMul")),
    "embedding": Case(nn.sequential(nn.embedding(9, 4), nn.attention(2), nn.log_softmax).on("N L"), ((1, 4), (2, 6)),
                      ("Gather", "LogSoftmax"), ("Einsum",), 9),
    "rows that do not fit": Case(
        nn.sequential(nn.conv(4, 3, layout="NHWC"), nn.max_pool(2, layout="NHWC"), nn.batch_norm(affine=False,
                      layout="NHWC"), nn.leaky_relu(0.1), nn.flatten(), nn.dense(3)).on("N 8 8 3"),
        _both(8, 8, 3), without=("Conv",)),
    "layers without rows": Case(
        nn.sequential(nn.branches(nn.conv(3, 1), nn.max_pool(3, 1, 1)), nn.conv_transpose(3, 2, stride=2),
                      nn.instance_norm(), nn.group_norm(3), nn.silu).on("N 2 6 6"), _both(2, 6, 6), without=()),
    "rotary": Case(nn.sequential(nn.attention(2, num_kv_heads=1, rotary=True), nn.rms_norm()).on("N L 8"),
                   ((1, 4, 8), (2, 6, 8)), without=()),
}  # fmt: skip


def settings() -> dict[str, Case]:
    """Each layer of windows with all kinds of settings, and other layers with settings that are not the default."""
    windows = [
        {"stride": stride, "padding": padding, **more}
        for stride in (1, (2, 3))
        for padding in (0, 1, (1, 0), ((1, 0), (0, 1)))
        for more in ({}, {"dilation": (1, 2)}, {"count_include_pad": True}, {"count_include_pad": False}, {"groups": 2})
    ]
    makers = {
        "Conv": (lambda **k: nn.conv(4, (3, 2), **k), {"dilation", "groups"}),
        "MaxPool": (lambda **k: nn.max_pool((3, 2), **k), {"dilation"}),
        "AveragePool": (lambda **k: nn.avg_pool((3, 2), **k), {"count_include_pad"}),
    }
    found = {
        f"{operator} {own}": Case(make(**own).on("N 2 7 9"), _both(2, 7, 9), (operator,))
        for operator, (make, known) in makers.items()
        for own in windows
        if own.keys() - {"stride", "padding"} <= known
    }
    others = {
        "BatchNormalization": (nn.batch_norm(eps=0.5), "N 2 3 3", _both(2, 3, 3)),
        "LayerNormalization": (nn.layer_norm(2, eps=0.5), "N 2 3", _both(2, 3)),
        "LSTM": (nn.lstm(3, reverse=True), "N L 2", ((1, 3, 2), (2, 4, 2))),
        "GRU": (nn.gru(3, reverse=True), "N L 2", ((1, 3, 2), (2, 4, 2))),
        "Transpose": (nn.permute(0, 2, 3, 1), "N 2 3 4", _both(2, 3, 4)),
        "MatMul": (nn.dense(3, bias=False), "N L 2", ((1, 3, 2), (2, 4, 2))),
        "Gemm": (nn.dense(3, bias=False), "N 2", _both(2)),
    }
    return found | {name: Case(net.on(takes), shapes, (name,)) for name, (net, takes, shapes) in others.items()}


def arrays(case: Case, dtype: Any) -> tuple[Any, Any]:
    """Parameters and a state of positive random numbers."""
    rng = np.random.default_rng(0)
    parameters, state = case.net.init(seed=0, dtype=dtype)

    def drawn(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {name: drawn(value) for name, value in tree.items()}
        return rng.uniform(0.5, 1.5, tree.shape).astype(tree.dtype)

    return parameters, drawn(state)


def inputs(case: Case, dtype: Any) -> list[Any]:
    """An input of each shape."""
    rng = np.random.default_rng(1)
    return [rng.integers(0, case.integers, s) if case.integers else rng.normal(size=s).astype(dtype)
            for s in case.shapes]  # fmt: skip


def evaluated(file: Path, given: Sequence[Any]) -> list[Any] | None:
    """The results of onnx's own evaluator; None for operators that it did not know whole before 1.23.

    It lacked the last outputs of LSTM and GRU, and names from outside in the bodies of loops and branches.
    """
    from onnx.reference import ReferenceEvaluator

    if is_older("onnx", (1, 23)):
        written = {node.op_type for node in onnx.load(file).graph.node}
        if not written.isdisjoint({"LSTM", "GRU", "RNN", "Loop", "Scan", "If"}):
            return None
    evaluator = ReferenceEvaluator(str(file))
    found: list[Any] = evaluator.run(None, dict(zip(evaluator.input_names, given, strict=True)))
    return found
