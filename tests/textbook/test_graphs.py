"""Shortest paths, ranks and flows on graphs from the textbook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.textbook.harness import Algorithm, check

RNG = np.random.default_rng(5)


def floyd_warshall(w: Any) -> Any:
    n = w.shape[0]
    return pb.fold(n, w, lambda d, k: pb.build((n, n), lambda i, j: pb.minimum(d[i, j], d[i, k] + d[k, j])))


def plain_floyd_warshall(w: Any) -> Any:
    d = w.copy()
    for k in range(len(w)):
        d = np.minimum(d, d[:, k, None] + d[None, k])
    return d


def bellman_ford(source: Any, target: Any, weights: Any) -> Any:
    """Edge by edge: a distance changes where its edge leads."""
    nodes, edges = 12, weights.shape[0]

    def relax(d: Any, e: Any) -> Any:
        better = pb.minimum(d[target[e]], d[source[e]] + weights[e])
        return pb.build(nodes, lambda k: pb.where(k == target[e], better, d[k]))

    start = pb.build(nodes, lambda k: pb.where(k == 0, 0.0, 100.0))
    return pb.fold(4, start, lambda d, _: pb.fold(edges, d, relax))


def plain_bellman_ford(source: Any, target: Any, weights: Any) -> Any:
    d = np.full(12, np.longdouble(100))
    d[0] = 0
    for _ in range(4):
        for s, t, w in zip(source, target, weights, strict=True):
            d[t] = min(d[t], d[s] + w)
    return d


def dijkstra(w: Any) -> Any:
    """The nearest node that is not done, by argmin, in each step."""
    n = w.shape[0]

    def step(state: Any, _: Any) -> Any:
        d, done = state
        u = pb.argmin_over(n, lambda k: pb.where(done[k], 1e9, d[k]))
        new = pb.build(n, lambda k: pb.where(done[k], d[k], pb.minimum(d[k], d[u] + w[u, k])))
        return new, pb.build(n, lambda k: done[k] | (u == k))

    start = pb.build(n, lambda k: pb.where(k == 0, 0.0, 1e6)), pb.build(n, lambda k: pb.any_over(1, lambda _: k < 0))
    return pb.fold(n, start, step)[0]


def plain_dijkstra(w: Any) -> Any:
    return plain_floyd_warshall(w)[0] * (np.arange(len(w)) > 0)


def spanning_tree(w: Any) -> Any:
    """The weight of the least one, by Prim."""
    n = w.shape[0]

    def step(state: Any, _: Any) -> Any:
        reach, inside, total = state
        u = pb.argmin_over(n, lambda k: pb.where(inside[k] > 0, 1e9, reach[k]))
        new = pb.build(n, lambda k: pb.minimum(reach[k], w[u, k]))
        return new, pb.build(n, lambda k: pb.where(u == k, 1, inside[k])), total + reach[u]

    start = pb.build(n, lambda k: w[0, k]), pb.build(n, lambda k: pb.where(k == 0, 1, 0)), 0.0
    return pb.fold(n - 1, start, step)[2]


def plain_spanning_tree(w: Any) -> Any:
    inside, total = {0}, 0
    while len(inside) < len(w):
        outside = [k for k in range(len(w)) if k not in inside]
        weight, k = min((min(w[i, k] for i in inside), k) for k in outside)
        total = total + weight
        inside.add(k)
    return total


def page_rank(a: Any, damping: Any) -> Any:
    n = a.shape[0]
    out = pb.build(n, lambda j: pb.sum_over(n, lambda i: a[i, j]))
    new = lambda r, i: (1.0 - damping) / n + damping * pb.sum_over(n, lambda j: a[i, j] * r[j] / out[j])
    return pb.fold(15, pb.full(n, 1.0) / n, lambda r, _: pb.build(n, lambda i: new(r, i)))


def plain_page_rank(a: Any, damping: Any) -> Any:
    n = len(a)
    r = np.ones(n, a.dtype) / n
    for _ in range(15):
        r = (1 - damping) / n + damping * (a / a.sum(0)) @ r
    return r


def sinkhorn(cost: Any, p: Any, q: Any, sharpness: Any) -> Any:
    """A regular transport plan's cost, rows and columns scaled in turn."""
    m, n = cost.shape
    k = pb.exp(-sharpness * cost)

    def step(state: Any, _: Any) -> Any:
        _, v = state
        u = pb.build(m, lambda i: p[i] / pb.sum_over(n, lambda j: k[i, j] * v[j]))
        return u, pb.build(n, lambda j: q[j] / pb.sum_over(m, lambda i: k[i, j] * u[i]))

    u, v = pb.fold(12, (pb.ones(m), pb.ones(n)), step)
    return pb.sum_over((m, n), lambda i, j: u[i] * k[i, j] * v[j] * cost[i, j])


def plain_sinkhorn(cost: Any, p: Any, q: Any, sharpness: Any) -> Any:
    k, v = np.exp(-sharpness * cost), np.ones_like(q)
    for _ in range(12):
        u = p / (k @ v)
        v = q / (u @ k)
    return np.sum(u[:, None] * k * v * cost)


def label_propagation(a: Any, labels: Any) -> Any:
    """The first five nodes keep what they are; each other takes the mean of its neighbors."""
    n = a.shape[0]
    mean = lambda f, i: pb.sum_over(n, lambda j: a[i, j] * f[j]) / pb.sum_over(n, lambda j: a[i, j])
    step = lambda f, _: pb.build(n, lambda i: pb.where(i < 5, labels.at(i), mean(f, i)))
    return pb.fold(6, pb.zeros(n), step)


def plain_label_propagation(a: Any, labels: Any) -> Any:
    f = np.zeros(len(a), a.dtype)
    for _ in range(6):
        f = a @ f / a.sum(1)
        f[:5] = labels
    return f


def edges() -> tuple[Any, ...]:
    source = np.append(np.arange(11), RNG.integers(0, 12, 30))
    return source, np.append(np.arange(1, 12), RNG.integers(0, 12, 30)), RNG.uniform(0.5, 2, 41)


def distances(n: int) -> Any:
    w = RNG.uniform(1, 5, (n, n))
    return (w + w.T) * (1 - np.eye(n))


@pytest.mark.slow
def test_paths() -> None:
    check(
        Algorithm(floyd_warshall, plain_floyd_warshall, (RNG.uniform(0.5, 2, (33, 33)) ** 2,)),
        Algorithm(bellman_ford, plain_bellman_ford, edges()),
        Algorithm(dijkstra, plain_dijkstra, (RNG.uniform(0.5, 5, (11, 11)),)),
        Algorithm(spanning_tree, plain_spanning_tree, (distances(9),)),
    )


@pytest.mark.slow
def test_fixed_points() -> None:
    p, q = RNG.uniform(0.5, 1, 7), RNG.uniform(0.5, 1, 37)
    check(
        Algorithm(page_rank, plain_page_rank, (RNG.uniform(0.1, 1, (37, 37)), 0.85)),
        Algorithm(sinkhorn, plain_sinkhorn, (RNG.uniform(0, 1, (7, 37)), p / p.sum(), q / q.sum(), 3.0)),
        Algorithm(label_propagation, plain_label_propagation, (RNG.uniform(0.1, 1, (35, 35)), RNG.uniform(-1, 1, 5))),
    )
