"""Networks on graphs: edges are pairs of node numbers, and sums by segment gather messages.

Graphs of several sizes are one graph without edges between them: their nodes in one array, and the number of its graph
for each node.
"""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import Array
from pullback.nn.activations import relu
from pullback.nn.layer import layer
from pullback.nn.layers.dense import dense
from pullback.nn.scope import Scope

__all__ = ["graph_network", "segment_sum"]


def segment_sum(x: Array, segments: Array, count: Any) -> Array:
    """Sums of the rows of each segment: y[s] = Σ x[e] over all e with segments[e] = s.

    Args:
        x: (E, ...).
        segments: (E,), the segment of each row, from 0 to count - 1 and in any order.
        count: the number of segments; one without rows has the sum 0.
    Returns:
        (count, ...).
    Cost:
        One addition for each element of x.

    >>> from pullback import nn
    >>> f = pb.function(lambda x, segments: nn.models.segment_sum(x, segments, 3))
    >>> f(np.array([1.0, 2.0, 4.0, 8.0]), np.array([0, 2, 0, 2])).tolist()
    [5.0, 0.0, 10.0]
    """
    nothing: Any = pb.zeros((count, *x.shape[1:]), dtype=x.dtype)
    y: Array = nothing.at[segments].add(x)
    return y


@layer({"nodes": "N M", "edges": "i64[E, 2]"})
def graph_network(scope: Scope, graph: Any, out_features: int, *, hidden_size: int = 32, num_layers: int = 2) -> Array:
    """Graph network: nodes see the means of their neighbors (GraphSAGE, Hamilton et al. 2017).

        h ← relu(own h + others mean of h[source] over the edges that end here)

    Args:
        scope: provides the parameters of own1, others1, …, and out.
        graph: a dict of "nodes", the features (N, M), and "edges", pairs (source, target) of node numbers (E, 2). An
            edge goes one way; two edges go both ways.
        out_features: the number of results for each node.
        hidden_size: the number of features between the layers.
        num_layers: the number of layers: how many edges away a node sees.
    Returns:
        (N, out_features).

    >>> from pullback import nn
    >>> nn.models.graph_network(3).type.result
    'f32[N, 3]'
    """
    h, source, target = graph["nodes"], graph["edges"][:, 0], graph["edges"][:, 1]
    nodes, edges = h.shape[0], source.shape[0]
    degree = segment_sum(pb.ones((edges,), dtype=h.dtype), target, nodes)
    for k in range(1, num_layers + 1):
        mean = segment_sum(h[source], target, nodes) / pb.maximum(degree, 1)[:, None]
        own, others = dense(hidden_size), dense(hidden_size, bias=False)
        h = relu(scope.call(own, h, f"own{k}") + scope.call(others, mean, f"others{k}"))
    y: Array = scope.call(dense(out_features), h, "out")
    return y
