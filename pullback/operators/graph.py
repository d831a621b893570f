"""Weighted graphs as strictly lower triangular matrices: path weights and their elimination.

Nodes are numbered so that every edge leads to a greater number. L[target, source] is the weight of an edge. The
weight of a path is the product of its edges, the last edge leftmost, as functions compose. The path weight from one
node to another is the sum over all paths. L^k holds those of length k, so

    P = I + L + L² + ... = (I - L)⁻¹        (eq. 2 of the paper, which keeps sources in rows: its matrix is Pᵀ)

Sections and equations: Edelman, Akyürek, Wang, Backpropagation through Back Substitution with a Backslash (2023).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pullback.errors import DerivativeError
from pullback.operators.blocks import BlockMatrix, as_matrix, identity
from pullback.operators.elements import plus, times
from pullback.operators.elimination import Elimination, Weights
from pullback.operators.operator import ZERO, I
from pullback.operators.triangular import solve
from pullback.records import dataclass


def strictly_lower(n: int, edges: Mapping[tuple[int, int], Any] | Iterable[tuple[int, int, Any]]) -> BlockMatrix:
    """The matrix L of a graph with nodes 0 to n - 1.

    Args:
        n: the number of nodes.
        edges: {(source, target): weight}, or (source, target, weight) one by one; parallel edges add.

    Raises:
        DerivativeError: [E214] an edge does not lead to a greater number below n.

    >>> print(strictly_lower(3, {(0, 1): 2.0, (1, 2): 3.0}))
    [  .    .  .]
    [2.0    .  .]
    [  .  3.0  .]
    """
    triples = [(*ends, weight) for ends, weight in edges.items()] if isinstance(edges, Mapping) else edges
    entries: dict[tuple[int, int], Any] = {}
    for source, target, weight in triples:
        if not 0 <= source < target < n:
            raise DerivativeError(
                "E214",
                f"the edge from node {source} to node {target} does not lead forward among {n} nodes",
                remedy="number the nodes from 0, every one after those it depends on",
            )
        entries[target, source] = plus(entries.get((target, source), ZERO), weight)
    return BlockMatrix((n, n), entries)


def path_weights(graph: Any) -> BlockMatrix:
    """The path weights P = (I - L)⁻¹: element (target, source) sums the weight products of all paths.

    For gradients prefer `solve((I - L).T, g)`, which needs one product per edge and not a column per node.

    >>> print(path_weights(strictly_lower(3, {(0, 1): 2.0, (1, 2): 3.0, (0, 2): 1.0})))
    [  I    .  .]
    [2.0    I  .]
    [7.0  3.0  I]
    """
    graph = as_matrix(graph)
    weights: BlockMatrix = solve(I - graph, identity(graph.shape[0]))
    return weights


def eliminate_vertex(graph: BlockMatrix, vertex: int) -> BlockMatrix:
    """Bypass a node: each pair of an incoming and an outgoing edge becomes an edge (section 3.1.3).

    In L this is the rank-one update by the node's column and row, which are then empty; the node keeps its number. Path
    weights among the other nodes do not change: (I - L)⁻¹ only loses the node's row and column.

    Cost:
        One product for each pair.
    """
    return eliminate(graph, [vertex])


@dataclass(frozen=True)
class EliminationOrder:
    """Inner nodes in the order of their elimination, and the multiplications it takes."""

    vertices: tuple[int, ...]
    cost: int


def inner_vertices(graph: BlockMatrix) -> list[int]:
    """The nodes with edges both into and out of them."""
    sources, targets = {j for _, j in graph.entries}, {i for i, _ in graph.entries}
    return sorted(sources & targets)


def eliminate(graph: BlockMatrix, vertices: Iterable[int]) -> BlockMatrix:
    """Eliminate nodes one by one. With no inner node left, edges are path weights from sources to sinks."""
    left: Elimination[int, Any] = Elimination(_ELEMENTS)
    for (i, j), e in graph.entries.items():
        left.insert(j, i, e)
    for vertex in vertices:
        left.eliminate(vertex)
    return BlockMatrix(graph.shape, {(i, j): e for i, edges in left.into.items() for j, e in edges.items()})


def elimination_cost(graph: BlockMatrix, vertices: Iterable[int], sizes: Sequence[int] | None = None) -> int:
    """The scalar multiplications of an elimination order.

    Args:
        graph: the matrix L.
        vertices: the order.
        sizes: the number of scalars in each node's value, by default 1; an edge is a matrix, target by source.
    """
    left = _shapes(graph, sizes)
    for vertex in vertices:
        left.eliminate(vertex)
    return left.cost


def cheapest_order(graph: BlockMatrix, sizes: Sequence[int] | None = None) -> EliminationOrder:
    """The order with fewest multiplications: exact up to 12 inner nodes, else greedy (`elimination_cost`)."""
    cost, order = _shapes(graph, sizes).cheapest_order(inner_vertices(graph))
    return EliminationOrder(order, cost)


def _shapes(graph: BlockMatrix, sizes: Sequence[int] | None) -> Elimination[int, tuple[int, int]]:
    """The graph with the shapes of its edges, as matrices, for weights."""
    shapes: Elimination[int, tuple[int, int]] = Elimination(_SHAPES)
    for i, j in graph.entries:
        shapes.insert(j, i, (1, 1) if sizes is None else (sizes[i], sizes[j]))
    return shapes


_ELEMENTS: Weights[Any] = Weights(times, plus, lambda later, earlier: 1)
_SHAPES: Weights[tuple[int, int]] = Weights(
    product=lambda later, earlier: (later[0], earlier[1]),
    total=lambda one, other: one,
    cost=lambda later, earlier: later[0] * later[1] * earlier[1],
)


def eliminate_edge(graph: BlockMatrix, source: int, target: int, *, into: bool = True) -> BlockMatrix:
    """Remove an edge and keep all path weights, except from or to the node that it is moved past.

    With `into`, the weight moves to the edges that enter `source`: these then lead to `target` as well (figure 3 of the
    paper), and path weights from every node but `source` stay. Otherwise it moves to the edges that leave `target`, and
    path weights to every node but `target` stay.

    Raises:
        DerivativeError: [E214] there is no such edge.

    >>> chain = strictly_lower(3, {(0, 1): 2.0, (1, 2): 3.0})
    >>> print(eliminate_edge(chain, 1, 2))
    [  .  .  .]
    [2.0  .  .]
    [6.0  .  .]
    """
    weight = graph[target, source]
    if weight is ZERO:
        raise DerivativeError("E214", f"there is no edge from node {source} to node {target}")
    entries = dict(graph.entries)
    del entries[target, source]
    if into:
        moved = {(target, node): times(weight, w) for node, w in graph.rows[source]}
    else:
        moved = {(node, source): times(w, weight) for (node, j), w in graph.entries.items() if j == target}
    for at, w in moved.items():
        entries[at] = plus(entries.get(at, ZERO), w)
    return BlockMatrix(graph.shape, entries)


def add_sink(graph: BlockMatrix, weights: Mapping[int, Any]) -> BlockMatrix:
    """Append a node with edges from the given nodes (section 3.1.4, eq. 4).

    With g the column of adjoint weights, the path weights grow by one row:  [P, 0; gᵀ P, 1].

    >>> print(add_sink(strictly_lower(2, {(0, 1): 2.0}), {1: 5.0}))
    [  .    .  .]
    [2.0    .  .]
    [  .  5.0  .]
    """
    n = graph.shape[0]
    edges = [(j, i, w) for (i, j), w in graph.entries.items()]
    return strictly_lower(n + 1, [*edges, *((node, n, w) for node, w in weights.items())])


def elementary_factors(graph: BlockMatrix) -> list[BlockMatrix]:
    """Factor P into n - 1 matrices, leftmost first: I + column k of L, for k from n - 2 down to 0.

    Each is the inverse of a factor of I - L, and stands for the edges that leave one node. Put between a row that picks
    sinks and a column that picks sources, their product can be bracketed in a Catalan number of ways (section 3.1.2);
    `chains` lists them.
    """
    n = graph.shape[0]
    columns: list[dict[tuple[int, int], Any]] = [{(i, i): I for i in range(n)} for _ in range(n)]
    for (i, j), weight in graph.entries.items():
        columns[j][i, j] = weight
    return [BlockMatrix((n, n), columns[k]) for k in range(n - 2, -1, -1)]
