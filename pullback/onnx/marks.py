"""Layers of a network in its traced program: calls that know their layer, for nodes of ONNX.

While a function is traced inside `marking`, each layer that has a row becomes a call. Its body is what the layer
computes, and its operands are the layer's input and arrays. So a writer may take the row or the body, and all passes
treat it as any other call.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from pullback.ir import nodes as ir
from pullback.nn.layer import Layer
from pullback.nn.scope import AROUND, Scope
from pullback.records import dataclass
from pullback.state import setting
from pullback.tracing import tree
from pullback.tracing.array import Array
from pullback.tracing.making import as_array, from_ref, ref_of
from pullback.tracing.tracer import current

__all__ = ["Mark", "Marked", "function_of", "marking"]


@dataclass(frozen=True, eq=False)
class Mark:
    """The call of a layer: trees of its input, parameters, state and results, as operand numbers."""

    layer: Layer
    x: Any
    parameters: Any
    state: Any
    result: Any


@dataclass(frozen=True, eq=False)
class Marked(ir.Call):
    """A call of a layer."""

    mark: Mark | None = None


def function_of(layer: Layer) -> Any:
    """The function that a layer was made of, such as that of `nn.conv`, or `nn.relu` itself."""
    return getattr(layer.forward, "__wrapped__", None)


def marking(rows: Container[Any]) -> setting:
    """Mark the layers whose functions are among `rows`, in functions that are traced inside."""
    return setting(AROUND, run=lambda scope, layer, x: _run(rows, scope, layer, x))


def _run(rows: Container[Any], scope: Scope, layer: Any, x: Any) -> Any:
    """Run a layer as a marked call where it has a row and nothing lifts it."""
    tracer = current()
    inner = tracer.parent is not None or any(s.lifted for s in tracer.scopes)
    if inner or scope.training or scope.carries or function_of(layer) not in rows:
        return layer.forward(scope, x)
    given, structure = tree.flatten((x, *scope.arrays))
    if not all(isinstance(leaf, Array) or hasattr(leaf, "shape") for leaf in given):
        return layer.forward(scope, x)
    handles = [as_array(leaf, "argument") for leaf in given]
    operands = [ref_of(h, h.name or "x") for h in handles]
    tree_x, parameters, state = tree.unflatten(structure, range(len(given)))
    x = tree.map_leaves(lambda k: from_ref(operands[k]), tree_x)
    return _emit(
        lambda: layer.forward(scope, x), operands, lambda result: Mark(layer, tree_x, parameters, state, result)
    )


def _emit(run: Callable[[], Any], operands: list[ir.Ref], mark: Callable[[Any], Mark]) -> Any:
    """Emit the statements of a layer as one call."""
    tracer = current()
    with tracer.block() as scope:
        leaves, structure = tree.flatten(run())
        results = [ref_of(as_array(leaf, "layer"), name) for leaf, name in zip(leaves, tree.leaf_names(structure, "y"))]
        owed = tracer.settle_block(results)
        body = ir.Block(tuple(scope.statements), tuple(results))
    outs = [ir.Ref(r.name, r.dtype, r.shape, r.bounds) for r in results]
    params = [ir.Ref(r.name, r.dtype, r.shape, r.bounds) for r in operands]
    made = mark(tree.unflatten(structure, range(len(outs))))
    tracer.emit(Marked(tuple(outs), tuple(operands), tuple(params), body, mark=made), owed)
    return tree.unflatten(structure, [from_ref(r) for r in outs])
