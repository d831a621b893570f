"""Tables filled in order: alignments, paths, sequences and choices from the textbook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.textbook.harness import Algorithm, check

RNG = np.random.default_rng(4)


def needleman_wunsch(score: Any, gap: Any) -> Any:
    """Best global alignment: rows by a fold, elements of a row by a fold inside."""
    m, n = score.shape
    top = pb.build(n + 1, lambda j: -gap * j)

    def row(before: Any, i: Any) -> Any:
        def element(now: Any, j: Any) -> Any:
            best = pb.maximum(before[j] + score[i, j], pb.maximum(before[j + 1] - gap, now[j] - gap))
            return pb.build(n + 1, lambda k: pb.where(k == j + 1, best, now[k]))

        start = pb.build(n + 1, lambda k: pb.where(k == 0, -gap * (i + 1), 0.0))
        return pb.fold(n, start, element)

    return pb.fold(m, top, row)[n]


def plain_needleman_wunsch(score: Any, gap: Any) -> Any:
    m, n = score.shape
    h = np.zeros((m + 1, n + 1), score.dtype)
    h[0], h[:, 0] = -gap * np.arange(n + 1), -gap * np.arange(m + 1)
    for i in range(m):
        for j in range(n):
            h[i + 1, j + 1] = max(h[i, j] + score[i, j], h[i, j + 1] - gap, h[i + 1, j] - gap)
    return h[m, n]


def smith_waterman(score: Any, gap: Any) -> Any:
    """Best local alignment, the table as one state."""
    m, n = score.shape

    def element(h: Any, t: Any) -> Any:
        i, j = t // n, t % n
        best = pb.maximum(0.0, pb.maximum(h[i, j] + score[i, j], pb.maximum(h[i, j + 1], h[i + 1, j]) - gap))
        return pb.build((m + 1, n + 1), lambda a, b: pb.where((a == i + 1) & (b == j + 1), best, h[a, b]))

    return pb.max(pb.fold(m * n, pb.zeros((m + 1, n + 1)), element))


def plain_smith_waterman(score: Any, gap: Any) -> Any:
    m, n = score.shape
    h = np.zeros((m + 1, n + 1), score.dtype)
    for i in range(m):
        for j in range(n):
            h[i + 1, j + 1] = max(0, h[i, j] + score[i, j], h[i, j + 1] - gap, h[i + 1, j] - gap)
    return h.max()


def edit_distance(a: Any, b: Any, costs: Any) -> Any:
    """Weighted: insertion, deletion, substitution. Codes are integers; along antidiagonals."""
    m, n = a.shape[0], b.shape[0]
    far = 1e3

    def diagonal(state: Any, d: Any) -> Any:
        older, old = state

        def element(i: Any) -> Any:
            j = d - i
            same = pb.where(a.at(i - 1) == b.at(j - 1), 0.0, costs[2])
            inside = pb.minimum(older.at(i - 1) + same, pb.minimum(old.at(i - 1) + costs[1], old[i] + costs[0]))
            edge = pb.where(i == 0, costs[0] * d, costs[1] * d)
            return pb.where((j < 0) | (j > n), far, pb.where((i == 0) | (j == 0), edge, inside))

        return old, pb.build(m + 1, element)

    start = pb.build(m + 1, lambda i: pb.where(i == 0, 0.0, far))
    first = start * 0.0 + far
    return pb.fold(m + n, (first, start), lambda s, d: diagonal(s, d + 1))[1][m]


def plain_edit_distance(a: Any, b: Any, costs: Any) -> Any:
    d = np.add.outer(costs[1] * np.arange(len(a) + 1), costs[0] * np.arange(len(b) + 1))
    for i, p in enumerate(a):
        for j, q in enumerate(b):
            change = costs[2] if p != q else 0
            d[i + 1, j + 1] = min(d[i, j] + change, d[i, j + 1] + costs[1], d[i + 1, j] + costs[0])
    return d[-1, -1]


def common_subsequence(a: Any, b: Any, weights: Any) -> Any:
    """The heaviest, by the weights of the letters."""
    n = b.shape[0]

    def row(before: Any, i: Any) -> Any:
        def letter(left: Any, j: Any) -> Any:
            match = before.at(j - 1) + weights[a[i]]
            new = pb.where(a[i] == b[j], match, pb.maximum(before[j], left))
            return new, new

        return pb.scan(n, 0.0, letter)[1]

    return pb.fold(a.shape[0], pb.zeros(n), row)[n - 1]


def plain_common_subsequence(a: Any, b: Any, weights: Any) -> Any:
    l = np.zeros((len(a) + 1, len(b) + 1), weights.dtype)
    for i, p in enumerate(a):
        for j, q in enumerate(b):
            l[i + 1, j + 1] = l[i, j] + weights[p] if p == q else max(l[i, j + 1], l[i + 1, j])
    return l[-1, -1]


def knapsack(weights: Any, values: Any) -> Any:
    room = 40

    def item(best: Any, i: Any) -> Any:
        return pb.build(room + 1, lambda r: pb.where(
            r >= weights[i], pb.maximum(best[r], best.at(r - weights[i]) + values[i]), best[r]))

    return pb.fold(weights.shape[0], pb.zeros(room + 1), item)


def plain_knapsack(weights: Any, values: Any) -> Any:
    best = np.zeros(41, values.dtype)
    for w, v in zip(weights, values, strict=True):
        for r in range(40, w - 1, -1):
            best[r] = max(best[r], best[r - w] + v)
    return best


def time_warping(x: Any, y: Any) -> Any:
    n = y.shape[0]
    far = 1e6

    def row(before: Any, i: Any) -> Any:
        def element(left: Any, j: Any) -> Any:
            corner = pb.where(j == 0, pb.where(i == 0, 0.0, far), before.at(j - 1))
            best = pb.minimum(pb.minimum(before[j], left), corner)
            new = (x[i] - y[j]) ** 2 + best
            return new, new

        return pb.scan(n, far, element)[1]

    return pb.fold(x.shape[0], pb.full(n, far), row)[n - 1]


def plain_time_warping(x: Any, y: Any) -> Any:
    d = np.full((len(x) + 1, len(y) + 1), np.longdouble(1e6))
    d[0, 0] = 0
    for i in range(len(x)):
        for j in range(len(y)):
            d[i + 1, j + 1] = (x[i] - y[j]) ** 2 + min(d[i, j], d[i, j + 1], d[i + 1, j])
    return d[-1, -1]


def matrix_chain(sizes: Any) -> Any:
    """The least cost of a product of matrices, by length of the part."""
    n = sizes.shape[0] - 1

    def length(m: Any, l: Any) -> Any:
        def part(i: Any, j: Any) -> Any:
            split = lambda k: m[i, k] + m.at(k + 1, j) + sizes[i] * sizes[k + 1] * sizes[j + 1]
            return pb.min_over(n, lambda k: pb.where((k >= i) & (k < j), split(k), 1e9))

        return pb.build((n, n), lambda i, j: pb.where(j == i + l + 1, part(i, j), m[i, j]))

    return pb.fold(n - 1, pb.zeros((n, n)), length)[0, n - 1]


def plain_matrix_chain(sizes: Any) -> Any:
    n = len(sizes) - 1
    m = {(i, i): 0 * sizes[0] for i in range(n)}
    for l in range(1, n):
        for i in range(n - l):
            j = i + l
            m[i, j] = min(m[i, k] + m[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j))
    return m[0, n - 1]


def viterbi(start: Any, move: Any, emit: Any, seen: Any) -> Any:
    """The best score, and the best path by following where each came from."""
    states, length = start.shape[0], seen.shape[0]

    def step(score: Any, t: Any) -> Any:
        come = lambda j: pb.argmax_over(states, lambda i: score[i] + move[i, j])
        best = lambda j: pb.max_over(states, lambda i: score[i] + move[i, j])
        return pb.build(states, lambda j: best(j) + emit[j, seen[t + 1]]), pb.build(states, come)

    score, came = pb.scan(length - 1, pb.build(states, lambda j: start[j] + emit[j, seen[0]]), step)
    last = pb.argmax(score)

    def back(state: Any, t: Any) -> Any:
        before = came[length - 2 - t, state]
        return before, before

    return pb.max(score), pb.scan(length - 1, last, back)[1], last


def plain_viterbi(start: Any, move: Any, emit: Any, seen: Any) -> Any:
    score, came = start + emit[:, seen[0]], []
    for o in seen[1:]:
        table = score[:, None] + move
        came.append(table.argmax(0))
        score = table.max(0) + emit[:, o]
    last = int(score.argmax())
    path, state = [], last
    for c in came[::-1]:
        state = int(c[state])
        path.append(state)
    return score.max(), np.array(path), np.int64(last)


def forward_algorithm(start: Any, move: Any, emit: Any, seen: Any) -> Any:
    """The likelihood of a hidden Markov model, scaled at each step."""
    n = start.shape[0]

    def scaled(a: Any) -> Any:
        total = pb.sum(a)
        return a / total, pb.log(total)

    def step(state: Any, t: Any) -> Any:
        alpha, total = state
        new = pb.build(n, lambda j: emit[j, seen[t + 1]] * pb.sum_over(n, lambda i: alpha[i] * move[i, j]))
        alpha, more = scaled(new)
        return alpha, total + more

    first = scaled(pb.build(n, lambda j: start[j] * emit[j, seen[0]]))
    return pb.fold(seen.shape[0] - 1, first, step)[1]


def plain_forward_algorithm(start: Any, move: Any, emit: Any, seen: Any) -> Any:
    alpha = start * emit[:, seen[0]]
    for o in seen[1:]:
        alpha = (alpha @ move) * emit[:, o]
    return np.log(alpha.sum())


def connectionist_loss(scores: Any, labels: Any) -> Any:
    """Connectionist temporal classification: all alignments with blanks between the labels, in logarithms."""
    steps, symbols = scores.shape
    wide = 2 * labels.shape[0] + 1
    low = -1e4
    total = pb.build(steps, lambda t: pb.log(pb.sum_over(symbols, lambda c: pb.exp(scores[t, c]))))
    log_p = pb.build((steps, symbols), lambda t, k: scores[t, k] - total[t])
    label = pb.build(wide, lambda s: pb.where(s % 2 == 1, labels.at(s // 2), 0))

    def add(a: Any, b: Any) -> Any:
        top = pb.maximum(a, b)
        return top + pb.log(pb.exp(a - top) + pb.exp(b - top))

    def step(alpha: Any, t: Any) -> Any:
        def element(s: Any) -> Any:
            stay = add(alpha[s], pb.where(s >= 1, alpha.at(s - 1), low))
            jump = pb.where((s >= 2) & (label[s] != 0) & (label[s] != label.at(s - 2)), alpha.at(s - 2), low)
            return add(stay, jump) + log_p[t + 1, label[s]]

        return pb.build(wide, element)

    first = pb.build(wide, lambda s: pb.where(s < 2, log_p[0, label[s]], low))
    alpha = pb.fold(steps - 1, first, step)
    return -add(alpha[wide - 1], alpha[wide - 2])


def plain_connectionist_loss(scores: Any, labels: Any) -> Any:
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    label = [0]
    for k in labels:
        label += [int(k), 0]
    alpha = np.zeros(len(label), scores.dtype)
    alpha[:2] = p[0, label[:2]]
    for row in p[1:]:
        new = np.zeros_like(alpha)
        for s, k in enumerate(label):
            total = alpha[s] + (alpha[s - 1] if s else 0)
            if s >= 2 and k and k != label[s - 2]:
                total += alpha[s - 2]
            new[s] = total * row[k]
        alpha = new
    return -np.log(alpha[-1] + alpha[-2])


def increasing_subsequence(x: Any, weights: Any) -> Any:
    """The heaviest increasing one."""
    n = x.shape[0]

    def element(best: Any, i: Any) -> Any:
        before = pb.max_over(n, lambda j: pb.where((j < i) & (x[j] < x[i]), best[j], 0.0))
        return pb.build(n, lambda k: pb.where(k == i, weights[i] + before, best[k]))

    return pb.max(pb.fold(n, pb.zeros(n), element))


def plain_increasing_subsequence(x: Any, weights: Any) -> Any:
    best = []
    for i in range(len(x)):
        best.append(weights[i] + max((best[j] for j in range(i) if x[j] < x[i]), default=0))
    return max(best)


def beam_products(start: Any, move: Any) -> Any:
    """The two best products of probabilities along a path, kept at every step."""
    steps, n, _ = move.shape

    def step(state: Any, t: Any) -> Any:
        first, second = state
        best = pb.build(n, lambda j: pb.max_over(n, lambda i: first[i] * move[t, i, j]))
        place = pb.build(n, lambda j: pb.argmax_over(n, lambda i: first[i] * move[t, i, j]))
        other = lambda i, j: pb.where(place[j] == i, second[i], first[i]) * move[t, i, j]
        return best, pb.build(n, lambda j: pb.max_over(n, lambda i: other(i, j)))

    return pb.fold(steps, (start, pb.zeros_like(start)), step)


def plain_beam_products(start: Any, move: Any) -> Any:
    n = len(start)
    pairs = [(s, 0 * s) for s in start]
    for m in move:
        found = []
        for j in range(n):
            every = sorted((p * m[i, j] for i in range(n) for p in pairs[i]), reverse=True)
            found.append((every[0], every[1]))
        pairs = found
    return np.array([p for p, _ in pairs]), np.array([p for _, p in pairs])


@pytest.mark.slow
def test_alignments() -> None:
    a, b = RNG.integers(0, 4, 33), RNG.integers(0, 4, 7)
    score = RNG.uniform(-1, 1, (7, 35))
    check(
        Algorithm(needleman_wunsch, plain_needleman_wunsch, (score, 0.3)),
        Algorithm(smith_waterman, plain_smith_waterman, (RNG.uniform(-1, 1, (6, 7)), 0.3)),
        Algorithm(edit_distance, plain_edit_distance, (a, b, np.array([1.0, 1.1, 1.5]))),
        Algorithm(common_subsequence, plain_common_subsequence, (b, a, np.array([1.0, 0.9, 1.2, 0.8]))),
        Algorithm(time_warping, plain_time_warping, (RNG.uniform(-1, 1, 9), RNG.uniform(-1, 1, 37))),
    )


@pytest.mark.slow
def test_models_of_sequences() -> None:
    start, move, emit = RNG.uniform(0.1, 1, 5), RNG.uniform(0.1, 1, (5, 5)), RNG.uniform(0.1, 1, (5, 6))
    seen = RNG.integers(0, 6, 37)
    check(
        Algorithm(viterbi, plain_viterbi, (np.log(start), np.log(move), np.log(emit), seen)),
        Algorithm(forward_algorithm, plain_forward_algorithm, (start, move / 5, emit / 6, seen)),
        Algorithm(connectionist_loss, plain_connectionist_loss, (RNG.uniform(-1, 1, (9, 5)), np.array([2, 2, 4]))),
        Algorithm(beam_products, plain_beam_products, (start, RNG.uniform(0.5, 1, (4, 5, 5)))),
    )


@pytest.mark.slow
def test_choices() -> None:
    check(
        Algorithm(knapsack, plain_knapsack, (RNG.integers(2, 9, 11), RNG.uniform(0.5, 2, 11))),
        Algorithm(matrix_chain, plain_matrix_chain, (RNG.uniform(1, 5, 9),)),
        Algorithm(increasing_subsequence, plain_increasing_subsequence, (RNG.uniform(size=37), RNG.uniform(1, 2, 37))),
    )
