"""The graph of a function as a picture: arrays as nodes, the operators of local derivatives on the edges."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from pullback.api.edge_operators import Wanted, operator_of
from pullback.explanation.layered import Arrow, Node, draw
from pullback.ir.names import Names
from pullback.ir.program import Program
from pullback.operators.operator import Operator
from pullback.pictures import Picture
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.normal_form import normalise

__all__ = ["drawn", "graph_of", "one_vertex_each", "total"]

MOST = 1000  # statements of a program whose graph is drawn


def graph_of(program: Program) -> Picture | None:
    """The graph of a program for all points; None where it is large, or has no floating-point arguments.

    The operators have their names, which do not depend on numbers.
    """
    from pullback.ad.eliminate import Graph

    prepared = one_vertex_each(program)
    wrt = [k for k, r in enumerate(prepared.inputs) if r.dtype.is_floating]
    if len(prepared.body.statements) > MOST or not wrt:
        return None
    made = Graph(prepared, wrt)
    nodes = (*made.sources, *made.vertices)
    position = {r: k for k, r in enumerate(nodes)}
    wanted = Wanted()
    found = [(position[x], position[v], [operator_of(e, wanted) for e in terms])
             for v in made.vertices for x, terms in made.into.get(v, {}).items()]  # fmt: skip
    zeros = [np.broadcast_to(np.float64(0), [d.constant or 2 for d in r.shape]) for r in wanted.refs]
    edges = [(j, i, str(total([make(zeros) for make in terms]))) for j, i, terms in found]
    names = Names()
    shapes = [f"{r.dtype.name}[{', '.join(map(str, r.shape))}]" if r.shape else r.dtype.name for r in nodes]
    outputs = [position[r] for r in prepared.outputs if r in position]
    return drawn(program.name, [names.fresh(r.name) for r in nodes], shapes, edges, len(wrt), outputs)


def drawn(
    name: str,
    names: Sequence[str],
    shapes: Sequence[str],
    edges: Sequence[tuple[int, int, str]],
    sources: int,
    outputs: Collection[int],
) -> Picture:
    """The picture of a graph.

    Args:
        name: the function's.
        names, shapes: of the nodes, of which the first `sources` are arguments.
        edges: from which node to which, with the operator.
        outputs: which nodes are results.
    """
    nodes = [Node(name, shape, "argument" if k < sources else "result" if k in outputs else "array")
             for k, (name, shape) in enumerate(zip(names, shapes, strict=True))]  # fmt: skip
    title = f"Graph of {name}: how each array changes with those before it"
    return draw(title, nodes, [Arrow(*e) for e in edges])


def one_vertex_each(program: Program) -> Program:
    """The program with one statement for each thing that it computes."""
    return eliminate_dead(eliminate_common(normalise(program)))


def total(terms: Sequence[Operator]) -> Operator:
    """The sum of operators."""
    found = terms[0]
    for t in terms[1:]:
        found = found + t
    return found
