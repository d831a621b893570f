"""Sorting, searching, counting and cells from the textbook: integers, and numbers whose order data decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.textbook.harness import Algorithm, check

RNG = np.random.default_rng(6)


def bubble_sort(x: Any) -> Any:
    n = x.shape[0]

    def compare(x: Any, j: Any) -> Any:
        low, high = pb.minimum(x[j], x[j + 1]), pb.maximum(x[j], x[j + 1])
        return pb.build(n, lambda k: pb.where(k == j, low, pb.where(k == j + 1, high, x[k])))

    return pb.fold(n - 1, x, lambda x, _: pb.fold(n - 1, x, compare))


def odd_even_sort(x: Any) -> Any:
    """Neighbors exchanged in pairs, first those that begin even, then those that begin odd."""
    n = x.shape[0]

    def step(x: Any, t: Any) -> Any:
        def element(i: Any) -> Any:
            left = (i + t) % 2 == 0
            lower = pb.where(i + 1 < n, pb.minimum(x[i], x.at(i + 1)), x[i])
            upper = pb.where(i > 0, pb.maximum(x[i], x.at(i - 1)), x[i])
            return pb.where(left, lower, upper)

        return pb.build(n, element)

    return pb.fold(n, x, step)


def insertion_sort(x: Any) -> Any:
    """Each element goes behind those that are not greater, which a while loop counts."""
    n = x.shape[0]

    def insert(x: Any, i: Any) -> Any:
        new = x[i]
        place = pb.while_loop(lambda j: (j > 0) & (x.at(j - 1) > new), lambda j: j - 1, i + 0, max_trips=n)
        return pb.build(n, lambda k: pb.where((k > place) & (k <= i), x.at(k - 1), pb.where(place == k, new, x[k])))

    return pb.fold(n, x, insert)


def bitonic_sort(x: Any) -> Any:
    n = 64
    for size in (2, 4, 8, 16, 32, 64):
        gap = size // 2
        while gap:

            def element(i: Any, x: Any = x, size: int = size, gap: int = gap) -> Any:
                first = i % (2 * gap) < gap
                other = x.at(pb.where(first, i + gap, i - gap))
                rising = i % (2 * size) < size
                return pb.where(first == rising, pb.minimum(x[i], other), pb.maximum(x[i], other))

            x = pb.build(n, element)
            gap //= 2
    return x


def rank_sort(x: Any) -> Any:
    """Where each goes is how many are before it; put there by a scatter."""
    n = x.shape[0]
    before = lambda i, j: pb.where((x[j] < x[i]) | ((x[j] == x[i]) & (j < i)), 1, 0)
    rank = pb.build(n, lambda i: pb.sum_over(n, lambda j: before(i, j)))
    return pb.build(n, lambda k: pb.sum_over(n, lambda i: pb.where(rank[i] == k, x[i], 0.0)))


def counting_sort(keys: Any, values: Any) -> Any:
    """Counts, their sums before each key, then each value in the next place of its key."""
    n, kinds = keys.shape[0], 7
    counts = pb.build(kinds, lambda k: pb.sum_over(n, lambda i: pb.where(keys[i] == k, 1, 0)))
    starts = pb.scan(kinds, 0, lambda total, k: (total + counts[k], total))[1]

    def put(state: Any, i: Any) -> Any:
        out, free = state
        place = free[keys[i]]
        moved = pb.build(n, lambda k: pb.where(place == k, values[i], out[k]))
        return moved, pb.build(kinds, lambda k: free[k] + pb.where(keys[i] == k, 1, 0))

    return pb.fold(n, (pb.zeros(n), starts), put)[0], counts


def plain_counting_sort(keys: Any, values: Any) -> Any:
    return values[np.argsort(keys, kind="stable")], np.bincount(keys, minlength=7)


def binary_search(table: Any, wanted: Any) -> Any:
    """For each wanted number where it belongs, and what is found between its neighbors."""
    n = table.shape[0]

    def find(q: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            low, high = state
            middle = (low + high) // 2
            right = table[pb.clip(middle, 0, n - 1)] < q
            more = low < high
            return pb.where(more & right, middle + 1, low), pb.where(more & ~right, middle, high)

        return pb.fold(7, (0, n), step)[0]

    return pb.build(wanted.shape[0], lambda k: table[pb.clip(find(wanted[k]), 0, n - 1)] - wanted[k])


def plain_binary_search(table: Any, wanted: Any) -> Any:
    return table[np.clip(np.searchsorted(table, wanted), 0, len(table) - 1)] - wanted


def histogram(x: Any, weights: Any) -> Any:
    bins = 8
    place = lambda i: pb.clip(pb.floor(x[i] * bins).astype(pb.int64), 0, bins - 1)
    add = lambda h, i: pb.build(bins, lambda b: h[b] + pb.where(place(i) == b, weights[i], 0.0))
    return pb.fold(x.shape[0], pb.zeros(bins), add)


def plain_histogram(x: Any, weights: Any) -> Any:
    h = np.zeros(8, weights.dtype)
    for v, w in zip(x, weights, strict=True):
        h[min(int(v * 8), 7)] += w
    return h


def run_lengths(x: Any) -> Any:
    """How long each run is where it ends, and the sum of squares of the lengths."""
    n = x.shape[0]

    def step(length: Any, i: Any) -> Any:
        new = pb.where((i > 0) & (x[i] == x.at(i - 1)), length + 1, 1)
        return new, new

    lengths = pb.scan(n, 0, step)[1]
    ends = pb.build(n, lambda i: pb.where((i == n - 1) | (x[i] != x.at(i + 1)), lengths[i], 0))
    return ends, pb.sum(ends * ends)


def plain_run_lengths(x: Any) -> Any:
    ends, length = np.zeros(len(x), np.int64), 0
    for i in range(len(x)):
        length += 1
        if i + 1 == len(x) or x[i + 1] != x[i]:
            ends[i], length = length, 0
    return ends, np.sum(ends**2)


def game_of_life(cells: Any) -> Any:
    """Ten generations on a torus."""
    m, n = cells.shape

    def generation(c: Any, _: Any) -> Any:
        near = lambda i, j: pb.sum_over((3, 3), lambda a, b: c[(i + a + m - 1) % m, (j + b + n - 1) % n]) - c[i, j]
        alive = lambda i, j: (near(i, j) == 3) | ((near(i, j) == 2) & (c[i, j] == 1))
        return pb.build((m, n), lambda i, j: pb.where(alive(i, j), 1, 0))

    return pb.fold(10, cells, generation)


def plain_game_of_life(cells: Any) -> Any:
    for _ in range(10):
        around = sum(np.roll(cells, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - cells
        cells = ((around == 3) | ((around == 2) & (cells == 1))).astype(np.int64)
    return cells


def elementary_automaton(cells: Any) -> Any:
    """Rule 30, all generations."""
    n = cells.shape[0]
    step = lambda c, _: (pb.build(n, lambda i: c.at(i - 1) ^ (c[i] | c.at(i + 1))), c)
    return pb.scan(20, cells, step)[1]


def plain_elementary_automaton(cells: Any) -> Any:
    rows = []
    for _ in range(20):
        rows.append(cells)
        wide = np.pad(cells, 1)
        cells = wide[:-2] ^ (wide[1:-1] | wide[2:])
    return np.array(rows)


def monte_carlo(seed: Any, radius: Any) -> Any:
    """A quarter circle, by a congruential generator of 32 bits; and a smooth integral by the same numbers."""

    def draw(s: Any) -> Any:
        return s * pb.asarray(1664525, dtype=pb.uint32) + pb.asarray(1013904223, dtype=pb.uint32)

    def step(state: Any, _: Any) -> Any:
        s, hits, total = state
        a = draw(s)
        b = draw(a)
        x, y = a.astype(pb.float64) / 2.0**32, b.astype(pb.float64) / 2.0**32
        return b, hits + pb.where(x * x + y * y < 1.0, 1, 0), total + pb.exp(-radius * x * y)

    s, hits, total = pb.fold(1000, (seed, 0, 0.0), step)
    return s, hits, total / 1000.0


def plain_monte_carlo(seed: Any, radius: Any) -> Any:
    s, hits, total = int(seed), 0, 0
    for _ in range(1000):
        a = (s * 1664525 + 1013904223) % 2**32
        s = (a * 1664525 + 1013904223) % 2**32
        x, y = np.longdouble(a) / 2**32, np.longdouble(s) / 2**32
        hits += x * x + y * y < 1
        total = total + np.exp(-radius * x * y)
    return np.uint32(s), np.int64(hits), total / 1000


def greatest_divisor(a: Any, b: Any) -> Any:
    """Euclid for each pair."""

    def one(p: Any, q: Any) -> Any:
        return pb.while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (p, q))[0]

    return pb.vmap(pb.function(one))(a, b)


def sieve(n: Any) -> Any:
    """How many primes there are up to each number below 50."""
    size = 50

    def strike(prime: Any, p: Any) -> Any:
        multiple = lambda k: (k >= (p + 2) * (p + 2)) & (k % (p + 2) == 0) & (prime.at(p + 2) == 1)
        return pb.build(size, lambda k: pb.where(multiple(k), 0, prime[k]))

    prime = pb.fold(6, pb.build(size, lambda k: pb.where(k >= 2, 1, 0)), strike)
    return pb.scan(size, n, lambda total, k: (total + prime[k], total + prime[k]))[1]


def plain_sieve(n: Any) -> Any:
    return np.cumsum([k > 1 and all(k % d for d in range(2, k)) for k in range(50)]) + n


@pytest.mark.slow
def test_sorting() -> None:
    x = RNG.uniform(-1, 1, 37)
    check(
        Algorithm(bubble_sort, np.sort, (RNG.uniform(-1, 1, 33),)),
        Algorithm(odd_even_sort, np.sort, (x,)),
        Algorithm(insertion_sort, np.sort, (x[:11],)),
        Algorithm(rank_sort, np.sort, (x,)),
        Algorithm(counting_sort, plain_counting_sort, (RNG.integers(0, 7, 37), x)),
    )


@pytest.mark.slow
def test_networks_and_searches() -> None:
    check(
        Algorithm(bitonic_sort, np.sort, (RNG.uniform(-1, 1, 64),)),
        Algorithm(binary_search, plain_binary_search, (np.sort(RNG.uniform(size=41)), RNG.uniform(size=37))),
        Algorithm(histogram, plain_histogram, (RNG.uniform(0, 1, 37), RNG.uniform(size=37))),
        Algorithm(monte_carlo, plain_monte_carlo, (np.uint32(42), 0.7)),
    )


def test_cells_and_integers() -> None:
    pairs = RNG.integers(1, 1000, (2, 37))
    check(
        Algorithm(run_lengths, plain_run_lengths, (RNG.integers(0, 2, 37),)),
        Algorithm(game_of_life, plain_game_of_life, (RNG.integers(0, 2, (9, 37)),)),
        Algorithm(elementary_automaton, plain_elementary_automaton, (RNG.integers(0, 2, 37),)),
        Algorithm(greatest_divisor, np.gcd, (pairs[0], pairs[1])),
        Algorithm(sieve, plain_sieve, (np.int64(0),)),
        Algorithm(lambda x: x * 2.0, lambda x: x * 2, (np.ones(3),)),
    )
