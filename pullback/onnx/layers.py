"""The nodes of layers: a table, a row for each layer that ONNX has an operator for.

    @row(nn.dense)
    def dense(g, s, x, p): ...

A row takes the writer of the graph, the layer's settings, its input, and its parameters and state by name. It returns
the names of the results in a tree like the layer's, or None for settings that the operator lacks; the statements that
the layer computes are written then, as for layers without a row. Rows whose operators runtimes have in single
precision only are for f32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from numpy import inf

import pullback as pb
from pullback import nn
from pullback.ir.index import Index
from pullback.ir.types import DType
from pullback.nn.layer import Layer
from pullback.nn.layers.windows import Windows, windows
from pullback.onnx.marks import function_of
from pullback.records import dataclass
from pullback.state import IMPORTED, registered

__all__ = ["ROWS", "Nodes", "Value", "nodes_of"]


@dataclass(frozen=True)
class Value:
    """An array of the graph: its name, sizes and element type."""

    name: str
    shape: tuple[Index, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)


class Nodes(Protocol):
    """The part of the writer that rows use."""

    def op(self, op: str, inputs: Any, **attributes: Any) -> str:
        """Add a node with one result; return its name."""

    def ops(self, op: str, inputs: Any, results: int, **attributes: Any) -> list[str]:
        """Add a node; return the names of its results."""

    def ints(self, *values: int) -> str:
        """Add a constant int64 vector; return its name."""

    def shape(self, extents: Any) -> str:
        """The name of a shape, as an int64 vector."""

    def flat_shape(self, extents: Any) -> str:
        """The name of a shape to give an array: -1 for its open size, if there is one."""

    def size(self, extent: Index) -> str:
        """The name of a size, as an int64 number."""

    def table(self, value: Any, axes: Any, dtype: DType) -> Any:
        """Add a constant array."""


Row = Callable[[Any, Mapping[str, Any], Any, Mapping[str, Any]], Any]
ROWS: Final[dict[Any, tuple[Row, bool]]] = registered({}, "one for each layer with a row", stays=IMPORTED)


def row(layer: Any, single: bool = False) -> Callable[[Row], Row]:
    """Register the nodes of a layer or function; with `single`, for f32 only."""

    def enter(write: Row) -> Row:
        for f in {layer, getattr(layer, "__wrapped__", layer)}:  # a layer is made of the inner function
            ROWS[f] = write, single
        return write

    return enter


def nodes_of(g: Nodes, layer: Layer, x: Any, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    """Write a layer by its row; return the tree of names, or None if the row does not fit."""
    write, single = ROWS[function_of(layer)]
    first = x
    while isinstance(first, tuple | Mapping):
        first = first[0] if isinstance(first, tuple) else next(iter(first.values()))
    if single and first.dtype is not pb.float32:
        return None
    return write(g, layer.settings, x, {**parameters, **state})


def _names(*values: Value | None) -> list[str]:
    names = [v.name if v is not None else "" for v in values]
    while names and not names[-1]:
        names.pop()
    return names


# Products -------------------------------------------------------------------------------------------------------


@row(nn.dense)
def dense(g: Nodes, s: Mapping[str, Any], x: Value, p: Mapping[str, Any]) -> Any:
    """`Gemm` of matrices, else `MatMul` and `Add`."""
    return _dense(g, x, p)


def _dense(g: Nodes, x: Value, p: Mapping[str, Any]) -> str:
    if x.rank == 2:
        return g.op("Gemm", _names(x, p["w"], p.get("b")), transB=1)
    y = g.op("MatMul", [x.name, g.op("Transpose", [p["w"].name], perm=[1, 0])])
    return g.op("Add", [y, p["b"].name]) if "b" in p else y


@row(nn.embedding)
def embedding(g: Nodes, s: Mapping[str, Any], x: Value, p: Mapping[str, Any]) -> Any:
    """`Gather` of rows."""
    return g.op("Gather", [p["w"].name, x.name], axis=0)


# Windows --------------------------------------------------------------------------------------------------------


def _windows(s: Mapping[str, Any], x: Value, stride: Any) -> tuple[Windows, dict[str, Any]] | None:
    """The windows of a layer, and the attributes that give them; None for channels last."""
    if s["layout"] != "NCHW":
        return None
    over = windows("onnx", s["kernel_size"], stride=stride, padding=s["padding"], dilation=s.get("dilation", 1),
                   ceil_mode=s.get("ceil_mode", False))  # fmt: skip
    if len(over.size) != x.rank - 2:
        return None
    found = {"kernel_shape": over.size, "strides": over.stride, "pads": (*over.before, *over.after)}
    return over, found if "dilation" not in s else {**found, "dilations": over.dilation}


@row(nn.conv, single=True)
def conv(g: Nodes, s: Mapping[str, Any], x: Value, p: Mapping[str, Any]) -> Any:
    """`Conv`."""
    found = _windows(s, x, s["stride"])
    return found and g.op("Conv", _names(x, p["w"], p.get("b")), group=s["groups"], **found[1])


@row(nn.max_pool)
def max_pool(g: Nodes, s: Mapping[str, Any], x: Value, p: Mapping[str, Any]) -> Any:
    """`MaxPool`."""
    found = _windows(s, x, s["stride"])
    if not found or (s["ceil_mode"] and _reaches_out(found[0])):
        return None
    return g.op("MaxPool", [x.name], ceil_mode=int(s["ceil_mode"]), **found[1])


@row(nn.avg_pool, single=True)
def avg_pool(g: Nodes, s: Mapping[str, Any], x: Value, p: Mapping[str, Any]) -> Any:
    """`AveragePool`; runtimes count differently in an incomplete last window."""
    found = _windows(s, x, s["stride"])
    if not found or s["ceil_mode"]:
        return None
    return g.op("AveragePool", [x.name], count_include_pad=int(s["count_include_pad"]), **found[1])


def _reaches_out(over: Windows) -> bool:
    """Whether a last window may start beyond the image, where runtimes differ from us."""
    return any(s > d * (k - 1) + 1 - a for s, d, k, a in zip(over.stride, over.dilation, over.size, over.after))


@row(nn.global_avg_pool, single=True)
def global_avg_pool(g: Nodes, s: Mapping[str, Any], x: Value, p: Mapping[str, Any]) -> Any:
    """`GlobalAveragePool` without its axes of size 1."""
    if s["layout"] != "NCHW" or x.rank < 3:
        return None
    return g.op("Flatten", [g.op("GlobalAveragePool", [x.name])], axis=1)


# Normalization --------------------------------------------------------------------------------------------------


@row(nn.batch_norm)
def batch_norm(g: Nodes, s: Mapping[str, Any], x: Value, p: Mapping[str, Any]) -> Any:
    """`BatchNormalization` by the running statistics."""
    if s["layout"] != "NCHW" or x.rank < 2 or not s["affine"]:
        return None
    return g.op("BatchNormalization", _names(x, p["scale"], p["shift"], p["mean"], p["variance"]), epsilon=s["eps"])


@row(nn.layer_norm)
def layer_norm(g: Nodes, s: Mapping[str, Any], x: Value, p: Mapping[str, Any]) -> Any:
    """`LayerNormalization` over the last axes."""
    if not s["elementwise_affine"]:
        return None
    return g.op("LayerNormalization", _names(x, p["scale"], p["shift"]), axis=-s["axes"], epsilon=s["eps"])


# Activations ----------------------------------------------------------------------------------------------------


def _activation(f: Any, op: str, single: bool = False, **attributes: Any) -> None:
    @row(f, single)
    def write(g: Nodes, s: Mapping[str, Any], x: Value, p: Mapping[str, Any]) -> Any:
        return g.op(op, [x.name], **attributes)


_activation(nn.relu, "Relu")
_activation(nn.tanh, "Tanh")
_activation(nn.sigmoid, "Sigmoid")
_activation(nn.gelu, "Gelu", single=True)
_activation(nn.gelu_tanh, "Gelu", single=True, approximate="tanh")
_activation(nn.softmax, "Softmax", axis=-1)
_activation(nn.log_softmax, "LogSoftmax", axis=-1)


# Shapes -----------------------------------------------------------------------------------------------------------


@row(nn.flatten)
def flatten(g: Nodes, s: Mapping[str, Any], x: Value, p: Mapping[str, Any]) -> Any:
    """`Flatten`."""
    return g.op("Flatten", [x.name], axis=1)


@row(nn.permute)
def permute(g: Nodes, s: Mapping[str, Any], x: Value, p: Mapping[str, Any]) -> Any:
    """`Transpose`."""
    return g.op("Transpose", [x.name], perm=[a % x.rank for a in s["axes"]])


@row(nn.concat)
def concat(g: Nodes, s: Mapping[str, Any], x: Any, p: Mapping[str, Any]) -> Any:
    """`Concat`."""
    parts = [x[name] for name in sorted(x)] if isinstance(x, dict) else list(x)
    return g.op("Concat", _names(*parts), axis=s["axis"])


# Recurrent layers -------------------------------------------------------------------------------------------------


def _recurrent(g: Nodes, op: str, order: tuple[int, ...], s: Mapping[str, Any], given: Any, p: Mapping[str, Any],
               **attributes: Any) -> Any:  # fmt: skip
    """`LSTM` or `GRU` in one direction, with the gates in ONNX's order."""
    if s["num_layers"] > 1 or s["bidirectional"]:
        return None  # its parts are such layers
    x, state = given if isinstance(given, tuple) else (given, None)
    names = ("h", "cell")[: 2 if op == "LSTM" else 1]
    width = p["u"].shape[1].constant
    if width is None or (state is not None and any(state.get(n) is None for n in names)):
        return None
    rows = g.ints(*(k * width + j for k in order for j in range(width)))

    def gates(name: str) -> str:
        return g.op("Unsqueeze", [g.op("Gather", [p[name].name, rows], axis=0), g.ints(0)])

    b = g.op("Concat", [gates("b"), gates("c")], axis=1)
    starts = ["", *(g.op("Unsqueeze", [state[n].name, g.ints(0)]) for n in names)] if state else []
    turned = g.op("Transpose", [x.name], perm=[1, 0, 2])
    found = g.ops(op, [turned, gates("w"), gates("u"), b, *starts], 1 + len(names), hidden_size=width,
                  direction="reverse" if s["reverse"] else "forward", **attributes)  # fmt: skip
    last = {n: g.op("Squeeze", [v, g.ints(0)]) for n, v in zip(names, found[1:])}
    y = last["h"]
    if s["return_sequences"]:
        y = g.op("Transpose", [g.op("Squeeze", [found[0], g.ints(1)])], perm=[1, 0, 2])
    return (y, last) if isinstance(given, tuple) else y


@row(nn.lstm, single=True)
def lstm(g: Nodes, s: Mapping[str, Any], x: Any, p: Mapping[str, Any]) -> Any:
    """`LSTM`, whose gates are i, o, f, g."""
    return _recurrent(g, "LSTM", (0, 3, 1, 2), s, x, p)


@row(nn.gru, single=True)
def gru(g: Nodes, s: Mapping[str, Any], x: Any, p: Mapping[str, Any]) -> Any:
    """`GRU`, whose gates are z, r, n."""
    return _recurrent(g, "GRU", (1, 0, 2), s, x, p, linear_before_reset=1)


# Attention --------------------------------------------------------------------------------------------------------


@row(nn.attention)
def attention(g: Nodes, s: Mapping[str, Any], x: Any, p: Mapping[str, Any]) -> Any:
    """Two products of matrices with a `Softmax` between; not for masks, shared heads or rotations."""
    x, other = (x["query"], x.get("key", x["query"])) if isinstance(x, Mapping) and "mask" not in x else (x, x)
    heads, width = s["num_heads"], p["out"]["w"].shape[0].constant
    if isinstance(x, Mapping) or s["rotary"] or (s["num_kv_heads"] or heads) != heads or width is None:
        return None
    apart = g.ints(0, 0, heads, width // heads)

    def part(z: Value, name: str, order: list[int]) -> str:
        return g.op("Transpose", [g.op("Reshape", [_dense(g, z, p[name]), apart])], perm=order)

    queries, keys = part(x, "query", [0, 2, 1, 3]), part(other, "key", [0, 2, 3, 1])
    share = g.table((width // heads) ** -0.5, (), x.dtype).name
    scores = g.op("MatMul", [g.op("Mul", [queries, share]), keys])
    if s["is_causal"]:
        steps = [g.op("Range", [g.table(0, (), pb.int64).name, g.size(z.shape[1]), g.table(1, (), pb.int64).name])
                 for z in (x, other)]  # fmt: skip
        seen = g.op("GreaterOrEqual", [g.op("Unsqueeze", [steps[0], g.ints(1)]), steps[1]])
        scores = g.op("Where", [seen, scores, g.table(-inf, (), x.dtype).name])
    values = part(other, "value", [0, 2, 1, 3])
    mean = g.op("MatMul", [g.op("Softmax", [scores], axis=-1), values])
    joined = g.op("Reshape", [g.op("Transpose", [mean], perm=[0, 2, 1, 3]), g.ints(0, 0, width)])
    return _dense(g, Value(joined, x.shape, x.dtype), p["out"])
