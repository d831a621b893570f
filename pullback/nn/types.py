"""The type of a network: inputs, results and parameters of layers, inferred by one trace."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

import pullback as pb
from pullback.calls.specs import spec_like
from pullback.errors import ShapeError, TraceError
from pullback.ir.dims import evaluate
from pullback.ir.types import dtype_of
from pullback.nn.inputs import Takes, annotation, map_dims, of_type, text_of
from pullback.nn.scope import Call, LayerPart, Replaced, Scope, Wanted
from pullback.notebook import Displayed
from pullback.source import user_position
from pullback.tables import html_table
from pullback.tracing import tree
from pullback.tracing.array import shape_text

__all__ = ["Network", "NetworkType", "find_type", "function_types"]

Tree = dict[str, Any]


@dataclass(frozen=True, repr=False)
class NetworkType(Displayed):
    """The type of a network: its input, and the result of each layer.

    Attributes:
        takes: the type of the input as text.
        result: the type of the result.
        inputs: the type of the input as a tree of texts.
        rows: name, layer, result type and parameters of every layer that is not composed of others.
    """

    takes: str
    result: str
    inputs: Takes
    rows: tuple[tuple[str, str, str, str], ...]
    calls: tuple[Call, ...]
    dtype: str

    def __repr__(self) -> str:
        lines = [f"(x: {self.takes}) -> {self.result}"]
        columns = [max((len(row[k]) for row in self.rows), default=0) for k in range(3)]
        lines += ["  " + "  ".join(c.ljust(n) for c, n in zip(row, [*columns, 0])).rstrip() for row in self.rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [("layer", "", "result", "parameters"), *self.rows]
        return html_table(rows, caption=f"`(x: {self.takes}) -> {self.result}`")

    def wanted(self, what: str) -> Iterator[tuple[tuple[str, ...], Wanted]]:
        """The requested arrays with their paths; `what` is "parameters" or "state". Shared arrays appear once."""
        seen = set()
        for call in self.calls:
            for array in getattr(call, what):
                path = (*call.path, array.name)
                if path not in seen:
                    seen.add(path)
                    yield path, array

    @property
    def carried(self) -> Tree:
        """The states that sequences go on from, a tree of texts (`with_states`)."""
        out: Tree = {}
        for call in self.calls:
            place = out
            for name in call.path if call.carried else ():
                place = place.setdefault(name, {})
            for array in call.carried:
                sizes = [str(e).replace(" ", "") for e in array.extents]
                place[array.name] = text_of(sizes, None)
        return out

    def results(self, **sizes: int) -> Any:
        """Arrays of zeros like the results for these sizes, without memory of their own; None if one is open."""
        whole = self.calls[0]
        try:
            arrays = [
                np.broadcast_to(dtype.numpy.type(0), tuple(evaluate(n, sizes) for n in extents))
                for dtype, extents in whole.arrays
            ]
        except KeyError:
            return None
        return tree.unflatten(whole.structure, arrays)

    def start(self, seed: int) -> tuple[Tree, Tree]:
        """The initial parameters and state (`Layer.init`)."""
        return self._made("parameters", seed), self._made("state", seed)

    def _made(self, what: str, seed: int) -> Tree:
        out: Tree = {}
        for path, wanted in self.wanted(what):
            shape = tuple(e.constant for e in wanted.extents if e.constant is not None)
            if len(shape) < len(wanted.extents):
                raise ShapeError(
                    "E164",
                    f"{'/'.join(path)} : {shape_text(wanted.extents)} depends on input sizes that are not given",
                    position=user_position(),
                    facts=[f"the network takes {self.takes}"],
                    remedy='give them: `net.on("N 784")` for rows, `net.on("N 1 28 28")` for images',
                )
            random = np.random.Generator(np.random.PCG64([seed, zlib.crc32("/".join(path).encode())]))
            place = out
            for name in path[:-1]:
                place = place.setdefault(name, {})
            dtype = np.dtype(wanted.dtype or self.dtype)
            place[path[-1]] = np.asarray(wanted.init(random, shape, dtype), dtype, order="C")
        return out


class Network(LayerPart, Protocol):
    """The interface of a network for descriptions, exports and training (`layer.Layer`)."""

    @property
    def takes(self) -> Takes:
        """The shape of the input, or of each input; None if any shape is accepted."""

    @property
    def integers(self) -> bool:
        """Whether the input holds integers."""

    @property
    def type(self) -> NetworkType:
        """The type, with a line for each layer."""

    def typed(self, dtype: DTypeLike = np.float32) -> NetworkType:
        """`type`, for an element type."""

    def on(self, takes: Takes) -> Network:
        """The network for inputs of given sizes."""

    def apply(self, parameters: Any, state: Any, x: Any, *, training: bool = False) -> tuple[Any, Any]:
        """The result for an input, and the next state."""

    def function(self, dtype: DTypeLike = np.float32) -> pb.Function:
        """Inference as a traced function of (parameters, state, x)."""

    def init(self, seed: int = 0, *, dtype: DTypeLike = np.float32) -> tuple[Tree, Tree]:
        """The initial parameters and state."""


def find_type(network: Network, dtype: str) -> NetworkType:
    """Infer the type of a network for an element type; dims of its input are unified as needed.

    Raises:
        TraceError: [E165] no layer determines its input shape.
    """
    if network.takes is None:
        raise TraceError(
            "E165",
            f"{network}: no layer says what shape it takes",
            position=user_position(),
            remedy='say it: `net.on("N 784")`',
        )
    takes = network.takes
    while True:
        try:
            return _traced(network, takes, dtype)
        except Replaced as found:
            takes = map_dims(takes, partial(_replaced, found.symbol, str(found.extent).replace(" ", "")))


def _replaced(symbol: str, extent: str, dims: Sequence[str]) -> list[str]:
    return [extent if d == symbol else d for d in dims]


def _traced(network: Network, takes: Takes, dtype: str) -> NetworkType:
    calls: list[Call] = []

    def trace(x: Any) -> Any:
        calls.clear()
        return Scope(calls=calls, dtype=dtype, training=True).run(network, x)  # training mode requests all arrays

    trace.__name__ = network.name or network.kind
    trace.__annotations__ = {"x": annotation(takes, dtype, network.integers)}
    pb.function(trace).check()
    whole = calls[0]
    rows = [_row(call, dtype) for call in calls if call is not whole and call.shown]
    inputs = of_type(takes, network.integers)
    return NetworkType(whole.given, whole.result, inputs, tuple(rows or [_row(whole, dtype)]), tuple(calls), dtype)


def _row(call: Call, network: str) -> tuple[str, str, str, str]:
    dtype = dtype_of(np.dtype(network))
    own = ", ".join(f"{w.name} {dtype}{shape_text(w.extents)}" for w in call.parameters)
    return call.name, str(call.layer), call.result, own


def function_types(network: Network, trees: tuple[Tree, Tree], dtype: DTypeLike) -> dict[str, Any]:
    """The annotations of a function of (parameters, state, x) for a network with arrays of these shapes."""
    takes = annotation(network.takes or "", dtype, network.integers)
    return {"parameters": spec_like(trees[0]), "state": spec_like(trees[1]), "x": takes}


@dataclass(frozen=True)
class Shaped:
    """An array annotation in jaxtyping's form."""

    dim_str: str
    dtype: str
    array_type: type = pb.Array

    @property
    def dtypes(self) -> list[str]:
        """The accepted element types."""
        return [self.dtype]
