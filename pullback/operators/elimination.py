"""Elimination of vertices, for edges of any kind.

Eliminating a vertex v replaces every pair of an edge into it and one out of it by an edge past it, and adds parallel
edges:

    L[z, x]  <-  L[z, x] + L[z, v] L[v, x]                for all x before and z after v

which is a step of Gaussian elimination on I - L (eq. 2 and section 3.1.3 of Edelman, Akyürek, Wang 2023; Griewank and
Walther, chapter 9). Between sources and sinks the path weights remain, in any order. From the sources on it is forward
mode, from the sinks back reverse mode; all other orders are mixed. Finding the cheapest order is hard in general
(Naumann 2008). Few vertices are searched exhaustively. For more, the greedy order (Markowitz), forward order and
reverse order are tried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Generic, TypeVar

from pullback.records import dataclass

V = TypeVar("V", bound=Hashable)
W = TypeVar("W")

EXACT = 12
"""The largest number of vertices for which the search for the cheapest order is exact."""
TRIED = 64
"""The largest number of vertices for which forward and reverse order are tried besides the greedy order."""


@dataclass(frozen=True)
class Weights(Generic[W]):
    """The edge weight operations that elimination needs.

    Attributes:
        product: the weight of the path along two edges, the later one first; None if it is zero.
        total: the weight of parallel edges; None if they cancel.
        cost: the operations of a product.
        settled: brings a weight into the form that products take, once before all products of a vertex.
    """

    product: Callable[[W, W], W | None]
    total: Callable[[W, W], W | None]
    cost: Callable[[W, W], int]
    settled: Callable[[W], W] = lambda weight: weight


class Elimination(Generic[V, W]):
    """A graph during elimination.

    Attributes:
        into: the edges by their target, then by their source.
        readers: the targets of each source, in order.
        cost: the operations of all products so far.
    """

    def __init__(self, weights: Weights[W]) -> None:
        self.weights = weights
        self.into: dict[V, dict[V, W]] = {}
        self.readers: dict[V, dict[V, None]] = {}
        self.cost = 0

    def copy(self, weights: Weights[W] | None = None) -> Elimination[V, W]:
        """A copy of the graph, for experiments."""
        other = Elimination[V, W](weights or self.weights)
        other.into = {z: dict(edges) for z, edges in self.into.items()}
        other.readers = {x: dict(found) for x, found in self.readers.items()}
        other.cost = self.cost
        return other

    def insert(self, source: V, target: V, weight: W | None) -> None:
        """Add an edge, in parallel to an existing one; a weight of None adds nothing."""
        edges = self.into.setdefault(target, {})
        if weight is not None and source in edges:
            weight = self.weights.total(self.remove(source, target), weight)
        if weight is not None:
            edges[source] = weight
            self.readers.setdefault(source, {})[target] = None

    def remove(self, source: V, target: V) -> W:
        """Remove an edge."""
        del self.readers[source][target]
        return self.into[target].pop(source)

    def eliminate(self, v: V) -> list[V]:
        """Eliminate a vertex; return its neighbors."""
        self.cost += self.price(v)
        into, readers = dict(self.into.get(v, {})), list(self.readers.get(v, {}))
        earlier = {x: self.weights.settled(e) if readers else e for x, e in into.items()}
        for x in into:
            self.remove(x, v)
        for z in readers:
            removed = self.remove(v, z)
            later = self.weights.settled(removed) if into else removed
            for x, e in earlier.items():
                self.insert(x, z, self.weights.product(later, e))
        return [*into, *readers]

    def price(self, v: V) -> int:
        """The operations that eliminating a vertex takes."""
        later = [self.into[z][v] for z in self.readers.get(v, ())]
        return sum(self.weights.cost(f, e) for f in later for e in self.into.get(v, {}).values())

    def eliminate_cheapest(self, vertices: Sequence[V]) -> list[V]:
        """Eliminate the cheapest vertex at each step, the last among equals; return the order."""
        position = {v: k for k, v in enumerate(vertices)}
        cost = {v: self.price(v) for v in vertices}
        heap = [(c, -position[v]) for v, c in cost.items()]
        heapify(heap)
        order = []
        while heap:
            c, k = heappop(heap)
            v = vertices[-k]
            if cost.get(v) != c:
                continue
            del cost[v]
            order.append(v)
            for neighbor in self.eliminate(v):
                if neighbor in cost:
                    cost[neighbor] = self.price(neighbor)
                    heappush(heap, (cost[neighbor], -position[neighbor]))
        return order

    def cheapest_order(self, vertices: Sequence[V], exact: int = EXACT) -> tuple[int, tuple[V, ...]]:
        """The order with the fewest operations, and their number: exact for few vertices, else heuristic.

        The graph after eliminating a set of vertices does not depend on their order, so the search is over sets.
        """
        if len(vertices) > exact:
            return min(self._tried(vertices), key=lambda found: found[0])
        best: dict[frozenset[V], tuple[int, tuple[V, ...], Elimination[V, W]]] = {frozenset(): (self.cost, (), self)}
        for _ in vertices:
            wider: dict[frozenset[V], tuple[int, tuple[V, ...], Elimination[V, W]]] = {}
            for gone, (cost, order, graph) in best.items():
                for v in vertices:
                    key = gone | {v}
                    total = cost + (0 if v in gone else graph.price(v))
                    if v not in gone and (key not in wider or total < wider[key][0]):
                        wider[key] = total, (*order, v), graph
            best = {}
            for key, (total, order, graph) in wider.items():
                left = graph.copy()
                left.eliminate(order[-1])
                best[key] = total, order, left
        ((cost, order, _),) = best.values()
        return cost - self.cost, order

    def _tried(self, vertices: Sequence[V]) -> Iterator[tuple[int, tuple[V, ...]]]:
        """Heuristic orders: greedy, forward and reverse, of which one direction is best for uniform chains."""
        trial = self.copy()
        order = trial.eliminate_cheapest(vertices)
        yield trial.cost - self.cost, tuple(order)
        for given in (vertices, vertices[::-1]) if len(vertices) <= TRIED else ():
            trial = self.copy()
            for v in given:
                trial.eliminate(v)
            yield trial.cost - self.cost, tuple(given)


def narrowest_cut(
    readers: Mapping[V, Iterable[V]], start: Collection[V], end: Collection[V], size: Mapping[V, int]
) -> list[V]:
    """The vertices of least total size that cut all paths from `start` to `end`, nearest to `start`.

    By maximal flow, along shortest paths (Edmonds and Karp 1972); each vertex is an edge with its size as capacity.
    """
    room: dict[tuple[V, bool], dict[tuple[V, bool], float]] = {(v, left): {} for v in size for left in (False, True)}

    def connect(a: tuple[V, bool], b: tuple[V, bool], width: float) -> None:
        room[a][b] = width
        room[b].setdefault(a, 0)

    for x in size:
        connect((x, False), (x, True), size[x])
        for z in readers.get(x, ()):
            if z in size:
                connect((x, True), (z, False), inf)
    while True:
        before: dict[tuple[V, bool], tuple[V, bool] | None] = {(v, False): None for v in start if v in size}
        queue = deque(before)
        while queue:
            a = queue.popleft()
            for b in (b for b, width in room[a].items() if width > 0 and b not in before):
                before[b] = a
                queue.append(b)
        step = next(((v, True) for v in end if (v, True) in before), None)
        if step is None:
            return [v for v in size if (v, False) in before and (v, True) not in before]
        path = []
        while (previous := before[step]) is not None:
            path.append((previous, step))
            step = previous
        least = min(room[a][b] for a, b in path)
        for a, b in path:
            room[a][b] -= least
            room[b][a] += least
