"""Drawing of a function's graph: arrays as nodes, local derivative operators on edges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from pullback.explanation.edge_operators import Numbers, Wanted, operator_of
from pullback.explanation.layered import Arrow, Node, draw
from pullback.ir import nodes as ir
from pullback.ir.names import Names
from pullback.operators.operator import Operator
from pullback.pictures import Picture
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.normal_form import normalize

__all__ = ["drawn", "graph_of", "local_derivatives", "one_vertex_each", "total"]

MOST = 1000  # most statements of a program whose graph is drawn


def graph_of(program: ir.Program) -> Picture | None:
    """Draw the graph of a program; None if it is large, or has no floating-point arguments.

    Operators are shown by their names, which do not depend on the arguments' values.
    """
    prepared = one_vertex_each(program)
    if len(prepared.body.statements) > MOST or not any(r.dtype.is_floating for r in prepared.inputs):
        return None
    local = local_derivatives(prepared)
    zeros = [np.broadcast_to(np.float64(0), [d.constant or 2 for d in r.shape]) for r in local.wanted.refs]
    edges = [(j, i, str(total([make(zeros) for make in terms]))) for j, i, terms in local.edges]
    names = Names()
    shapes = [f"{r.dtype.name}[{', '.join(map(str, r.shape))}]" if r.shape else r.dtype.name for r in local.nodes]
    return drawn(program.name, [names.fresh(r.name) for r in local.nodes], shapes, edges, local.sources, local.outputs)


@dataclass(frozen=True)
class LocalDerivatives:
    """The floating arrays of a program, and their local derivatives.

    Attributes:
        nodes: the arrays, the first `sources` of them arguments.
        outputs: the positions of results.
        edges: for each source and target, functions that make the operators to add up.
        statements: additional statements that compute `wanted`, the arrays of the operators.
    """

    nodes: tuple[ir.Ref, ...]
    sources: int
    outputs: tuple[int, ...]
    edges: list[tuple[int, int, list[Callable[[Numbers], Operator]]]]
    wanted: Wanted
    statements: tuple[ir.Statement, ...]


def local_derivatives(program: ir.Program) -> LocalDerivatives:
    """The local derivatives of a program with one statement per computed array."""
    from pullback.ad.eliminate import graph_of

    wrt = [k for k, r in enumerate(program.inputs) if r.dtype.is_floating]
    made = graph_of(program, wrt)
    inner = [o for s in program.body.statements for o in s.outs if o in made.active]
    nodes = (*made.sources, *inner)
    position = {r: k for k, r in enumerate(nodes)}
    wanted = Wanted()
    edges = [
        (position[x], position[v], [operator_of(e, wanted) for e in terms])
        for v in inner
        for x, terms in made.edges.into.get(v, {}).items()
    ]
    outputs = tuple(position[r] for r in program.outputs if r in position)
    return LocalDerivatives(nodes, len(wrt), outputs, edges, wanted, tuple(made.statements))


def drawn(
    name: str,
    names: Sequence[str],
    shapes: Sequence[str],
    edges: Sequence[tuple[int, int, str]],
    sources: int,
    outputs: Collection[int],
) -> Picture:
    """Draw the picture of a graph.

    Args:
        name: the function's name.
        names, shapes: the name and shape of each node; the first `sources` nodes are arguments.
        edges: operators by source and target.
        outputs: the nodes that are results.
    """
    nodes = [Node(name, shape, "argument" if k < sources else "result" if k in outputs else "array")
             for k, (name, shape) in enumerate(zip(names, shapes, strict=True))]  # fmt: skip
    title = f"Graph of {name}: how each array changes with those before it"
    return draw(title, nodes, [Arrow(*e) for e in edges])


def one_vertex_each(program: ir.Program) -> ir.Program:
    """The program with one statement for each computed array."""
    return eliminate_dead(eliminate_common(normalize(program)))


def total(terms: Sequence[Operator]) -> Operator:
    """The sum of operators."""
    found = terms[0]
    for t in terms[1:]:
        found = found + t
    return found
