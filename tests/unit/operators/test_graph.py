"""Graphs: path weights against a sum over paths, and eliminations that keep them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.errors import DerivativeError
from pullback.operators import (
    ZERO,
    BlockMatrix,
    I,
    LeftMultiply,
    add_sink,
    blocks,
    cheapest_order,
    column,
    elementary_factors,
    eliminate,
    eliminate_edge,
    eliminate_vertex,
    elimination_cost,
    identity,
    inner_vertices,
    path_weights,
    solve,
    strictly_lower,
)


@st.composite
def graphs(draw: st.DrawFn) -> BlockMatrix:
    n = draw(st.integers(2, 7))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] < e[1])
    return strictly_lower(n, draw(st.dictionaries(ends, st.integers(1, 5), max_size=12)))


def paths(graph: BlockMatrix, source: int, target: int) -> int:
    return 1 if source == target else sum(w * paths(graph, source, j) for j, w in graph.rows[target] if j >= source)


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_path_weights_sum_over_paths(graph: BlockMatrix) -> None:
    p, n = path_weights(graph).to_dense(), graph.shape[0]
    assert p.tolist() == [[paths(graph, j, i) if j <= i else 0 for j in range(n)] for i in range(n)]
    result: Any = identity(n)
    for factor in elementary_factors(graph):
        result = result @ factor
    assert result.to_dense().tolist() == p.tolist()


@given(graphs(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_every_elimination_order_leaves_the_path_weights(graph: BlockMatrix, random: Any) -> None:
    inner = inner_vertices(graph)
    order = random.sample(inner, len(inner))
    left, p = eliminate(graph, order), path_weights(graph)
    assert all(e == p[at] for at, e in left.entries.items())
    outer = [v for v in range(graph.shape[0]) if v not in inner]
    assert all(left[i, j] == p[i, j] for i in outer for j in outer if j < i and p[i, j] is not ZERO)
    best = cheapest_order(graph)
    assert best.cost == elimination_cost(graph, best.vertices) <= elimination_cost(graph, order)


@given(graphs(), st.data())
@settings(max_examples=60, deadline=None)
def test_vertex_and_edge_elimination(graph: BlockMatrix, data: st.DataObject) -> None:
    p, n = path_weights(graph), graph.shape[0]
    vertex = data.draw(st.integers(0, n - 1))
    keep = [v for v in range(n) if v != vertex]
    assert path_weights(eliminate_vertex(graph, vertex)).take(keep, keep).entries == p.take(keep, keep).entries
    if graph.entries:
        target, source = data.draw(st.sampled_from(sorted(graph.entries)))
        others = [v for v in range(n) if v != source]
        moved = path_weights(eliminate_edge(graph, source, target))
        assert moved.take(range(n), others).entries == p.take(range(n), others).entries
        others = [v for v in range(n) if v != target]
        moved = path_weights(eliminate_edge(graph, source, target, into=False))
        assert moved.take(others, range(n)).entries == p.take(others, range(n)).entries


@given(graphs(), st.data())
@settings(max_examples=30, deadline=None)
def test_a_new_sink_adds_one_row(graph: BlockMatrix, data: st.DataObject) -> None:
    n = graph.shape[0]
    weights = data.draw(st.dictionaries(st.integers(0, n - 1), st.integers(1, 5)))
    p, grown = path_weights(graph), path_weights(add_sink(graph, weights))
    row = column([weights.get(i, 0) for i in range(n)]).T @ p
    assert grown.take(range(n), range(n)).entries == p.entries
    assert grown.take([n], range(n)).to_dense().tolist() == row.to_dense().tolist()


def test_operators_as_weights() -> None:
    rng = np.random.default_rng(3)
    a, b, c = (LeftMultiply(rng.standard_normal((2, 2)), name) for name in "abc")
    p = path_weights(strictly_lower(3, {(0, 1): a, (1, 2): b, (0, 2): c}))
    assert str(p[2, 0]) == "L[c] + L[b] L[a]" or str(p[2, 0]) == "L[b] L[a] + L[c]"
    x = rng.standard_normal(2)
    np.testing.assert_allclose(p[2, 0](x), c.array @ x + b.array @ a.array @ x)
    np.testing.assert_allclose(solve((I - strictly_lower(2, {(0, 1): a})).T, [ZERO, x])[0], a.array.T @ x)


def test_parallel_edges_add() -> None:
    assert strictly_lower(2, [(0, 1, 2), (0, 1, 3)])[1, 0] == 5


@pytest.mark.parametrize("edge", [(1, 1), (2, 1), (0, 3), (-1, 1)])
def test_edges_lead_forward(edge: tuple[int, int]) -> None:
    with pytest.raises(DerivativeError, match=f"E214.*node {edge[0]} to node {edge[1]}"):
        strictly_lower(3, {edge: 1.0})


def test_there_must_be_an_edge_to_eliminate() -> None:
    with pytest.raises(DerivativeError, match="E214"):
        eliminate_edge(blocks([[0, 0], [0, 0]]), 0, 1)
