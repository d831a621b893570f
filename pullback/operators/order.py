"""Elimination orders: every way to eliminate the inner nodes of a graph gives the same derivatives, at its own cost.

Eliminating inner nodes from the sources on is forward mode, from the sinks back is reverse mode; all other orders are
mixed or cross-country modes. Finding the cheapest is hard in general (Naumann 2008), and a search for small graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product as pairs

from pullback.operators.blocks import BlockMatrix
from pullback.operators.graph import eliminate_vertex

EXACT = 12
"""Up to so many inner nodes the cheapest order is searched for; beyond, each step takes the cheapest (Markowitz)."""


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
    """Eliminate nodes one by one. With all inner nodes gone, the edges left are the path weights, sources to sinks."""
    for vertex in vertices:
        graph = eliminate_vertex(graph, vertex)
    return graph


def elimination_cost(graph: BlockMatrix, vertices: Iterable[int], sizes: Sequence[int] | None = None) -> int:
    """The scalar multiplications of an elimination order.

    Args:
        graph: the matrix L.
        vertices: the order.
        sizes: the number of scalars in each node's value, by default 1; an edge is a matrix, target by source.
    """
    edges, cost = frozenset(graph.entries), 0
    for vertex in vertices:
        edges, step = _without(edges, vertex, sizes)
        cost += step
    return cost


def cheapest_order(graph: BlockMatrix, sizes: Sequence[int] | None = None) -> EliminationOrder:
    """The order with the fewest multiplications: exact up to 12 inner nodes, greedy beyond. See `elimination_cost`.

    What is left after eliminating a set of nodes does not depend on their order, so the search is over sets.
    """
    inner = inner_vertices(graph)
    start = frozenset(graph.entries)
    if len(inner) > EXACT:
        return _greedy(start, inner, sizes)
    best: dict[frozenset[int], tuple[int, tuple[int, ...], _Edges]] = {frozenset(): (0, (), start)}
    for _ in inner:
        wider: dict[frozenset[int], tuple[int, tuple[int, ...], _Edges]] = {}
        for gone, (cost, order, edges) in best.items():
            for vertex in inner:
                if vertex not in gone:
                    left, step = _without(edges, vertex, sizes)
                    found = (cost + step, (*order, vertex), left)
                    key = gone | {vertex}
                    if key not in wider or found[:2] < wider[key][:2]:
                        wider[key] = found
        best = wider
    ((cost, order, _),) = best.values()
    return EliminationOrder(order, cost)


_Edges = frozenset[tuple[int, int]]


def _without(edges: _Edges, vertex: int, sizes: Sequence[int] | None) -> tuple[_Edges, int]:
    """The edges after a node's elimination, and the multiplications that takes."""
    into = [j for i, j in edges if i == vertex]
    out = [i for i, j in edges if j == vertex]
    left = {at for at in edges if vertex not in at} | set(pairs(out, into))
    if sizes is None:
        return frozenset(left), len(into) * len(out)
    return frozenset(left), sizes[vertex] * sum(sizes[j] for j in into) * sum(sizes[i] for i in out)


def _greedy(edges: _Edges, inner: Sequence[int], sizes: Sequence[int] | None) -> EliminationOrder:
    order: list[int] = []
    cost, rest = 0, set(inner)
    while rest:
        step, vertex = min((_without(edges, vertex, sizes)[1], vertex) for vertex in rest)
        edges, _ = _without(edges, vertex, sizes)
        order.append(vertex)
        rest.remove(vertex)
        cost += step
    return EliminationOrder(tuple(order), cost)
