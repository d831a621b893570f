"""Elimination: forward, reverse and mixed orders are found where they are cheapest; cuts are the narrowest."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from pullback.operators import cheapest_order, elimination_cost, inner_vertices, strictly_lower
from pullback.operators.elimination import narrowest_cut


def chain(n: int) -> dict[tuple[int, int], int]:
    return {(i, i + 1): 2 for i in range(n - 1)}


def test_inner_vertices() -> None:
    assert inner_vertices(strictly_lower(4, chain(4))) == [1, 2]
    assert inner_vertices(strictly_lower(3, {})) == []


def test_many_inputs_and_one_output_ask_for_reverse_mode() -> None:
    graph = strictly_lower(5, chain(5))
    many_in, many_out = [100, 10, 10, 10, 1], [1, 10, 10, 10, 100]
    assert cheapest_order(graph, many_in).vertices == (3, 2, 1)
    assert cheapest_order(graph, many_out).vertices == (1, 2, 3)
    assert elimination_cost(graph, (3, 2, 1), many_in) == 10 * 10 + 10 * 10 + 10 * 100


def test_a_waist_asks_for_both_ends_first() -> None:
    """Jacobians 50 by 20, 20 by 1, 1 by 20, 20 by 50: multiply toward the waist, and through it last."""
    graph = strictly_lower(5, chain(5))
    best = cheapest_order(graph, [50, 20, 1, 20, 50])
    assert set(best.vertices[:2]) == {1, 3}
    assert best.cost == 50 * 20 + 20 * 50 + 50 * 50


def test_long_chains_are_ordered_greedily() -> None:
    graph = strictly_lower(40, chain(40))
    best = cheapest_order(graph)
    assert sorted(best.vertices) == list(range(1, 39))
    assert best.cost == 38


def test_the_narrowest_cut_is_the_smallest_set_that_bars_the_way() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(3, 8))
        readers = {i: [j for j in range(i + 1, n) if rng.random() < 0.4] for i in range(n)}
        size = {i: int(rng.integers(1, 6)) for i in range(n)}
        start, end = [0, 1], [n - 1]
        cut = narrowest_cut(readers, start, end, size)
        sets = [some for count in range(n + 1) for some in combinations(range(n), count)]
        least = min(sum(size[v] for v in some) for some in sets if not reaches(readers, start, end, some))
        assert not reaches(readers, start, end, cut) and sum(size[v] for v in cut) == least


def reaches(readers: dict[int, list[int]], start: list[int], end: list[int], barred: Iterable[int]) -> bool:
    found, pending = set(barred), [v for v in start if v not in set(barred)]
    while pending:
        v = pending.pop()
        if v in end:
            return True
        found.add(v)
        pending += [z for z in readers[v] if z not in found]
    return False
