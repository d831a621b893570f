"""Causal attention in blocks of steps: without an array of all weights, nor blocks above the diagonal.

With scores s = q kᵀ / √D, weights p = exp(s - t) and their sums z = Σⱼ p, it is y = p v / z, for any shift t of a row.
In blocks (Milakov and Gimelshein 2018; Dao et al. 2022), a row's largest score t, its z and its p v are known so far.
Where a block has a larger score t′, what was summed is multiplied by exp(t - t′).

The derivative keeps l = t + log z of each row, and computes the weights of a block again: p / z = exp(s - l).
With cotangents ȳ and l̄, and δᵢ = Σₘ ȳᵢₘ yᵢₘ - l̄ᵢ, w = p / z:

    v̄ⱼ = Σᵢ wᵢⱼ ȳᵢ        s̄ᵢⱼ = wᵢⱼ (Σₘ ȳᵢₘ vⱼₘ - δᵢ)        q̄ᵢ = Σⱼ s̄ᵢⱼ kⱼ / √D        k̄ⱼ = Σᵢ s̄ᵢⱼ qᵢ / √D

For y = w v has w̄ᵢⱼ = Σₘ ȳᵢₘ vⱼₘ. A softmax has s̄ᵢⱼ = wᵢⱼ (w̄ᵢⱼ - Σⱼ wᵢⱼ w̄ᵢⱼ), where the sum is Σₘ ȳᵢₘ yᵢₘ. And
∂lᵢ/∂sᵢⱼ is wᵢⱼ.

Queries have the axes (N, L, H, G, D), keys and values (N, L, H, D): each serves the G queries of its group. The last
block has what is left of the sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pullback as pb
from pullback import Array
from pullback.tracing.branches import alternatives
from pullback.tracing.custom import emit_call

__all__ = ["SHORTEST", "causal_attention"]

SIZE: Final = 64  # steps of a block: its products are fast, and its arrays stay in the second cache
# Of c² blocks of weights c (c + 1) / 2 are computed: two thirds with three blocks. The derivative computes them again,
# five products instead of four. So three blocks take 5/6 of the multiply-adds, and two 15/16, which does not pay.
SHORTEST: Final = 3 * SIZE


def causal_attention(queries: Array, keys: Array, values: Array, mask: Array | None) -> Array:
    """Softmax(q kᵀ / √D) v, where a step attends to itself and to earlier steps that the mask has.

    Args:
        queries: (N, L, H G, D); L, H, G and D are numbers.
        keys, values: (N, L, H, D).
        mask: bools (N, L) or (N, L, L), or None. Rows that attend to nothing are 0.
    """
    n, steps, heads, share = queries.shape
    groups = keys.shape[2]

    def attend(q: Array, k: Array, v: Array, *mask: Array) -> Any:
        whole, blocks = (partial(_attend, size=size, mask=mask) for size in (steps, SIZE))
        return alternatives(whole, blocks, q, k, v)

    def back(primals: tuple[Array, ...], out: tuple[Array, Array], cotangents: tuple[Array, Array]) -> Any:
        q, k, v, *mask = primals
        y, logs = out
        y_bar, logs_bar = cotangents
        delta = pb.sum(y_bar * y, axis=-1) - logs_bar
        whole, blocks = (partial(_back, size=size, mask=mask) for size in (steps, SIZE))
        return *alternatives(whole, blocks, q, k, v, logs, y_bar, delta), *(None for _ in mask)

    queries = pb.reshape(queries, (n, steps, groups, heads // groups, share))
    operands = (queries, keys, values) if mask is None else (queries, keys, values, mask)
    y, _ = emit_call("attention", attend, operands, vjp=back)
    found: Array = pb.reshape(y, (n, steps, heads, share))
    return found


@dataclass(frozen=True)
class _Block:
    """The steps of a sequence from `start` on."""

    start: Any
    size: int

    @property
    def rows(self) -> tuple[slice, slice]:
        """The key of an array (N, L, ...) for these steps."""
        return slice(None), slice(self.start, self.start + self.size)


Before = Callable[[Any, Callable[[Any, _Block], Any]], Any]  # the state after a step for each block before one


def _rows(steps: int, size: int, state: Any, row: Callable[[Any, _Block, Before], Any]) -> Any:
    """The state after a row of each block of the queries."""
    if steps == size:
        return row(state, _Block(0, size), lambda state, step: state)
    count, rest = divmod(steps, size)

    def block(i: Any) -> _Block:
        return _Block(i * size, size)

    def full(state: Any, i: Any) -> Any:
        def before(state: Any, step: Any) -> Any:
            def one(state: Any, j: Any) -> Any:
                return pb.cond(j < i, lambda *state: step(state, block(j)), lambda *state: state, *state)

            return pb.fold(count - 1, state, one)

        return row(state, block(i), before)

    state = pb.fold(count, state, full)
    if rest:
        state = row(state, _Block(count * size, rest), lambda state, step: pb.fold(
            count, state, lambda state, j: step(state, block(j))))  # fmt: skip
    return state


class _Scores:
    """The scores of queries q and keys k.

    Attributes:
        each: the axes (N, H, G).
        share: D.
    """

    def __init__(self, q: Array, k: Array, mask: Sequence[Array]) -> None:
        n, self.steps, heads, each, self.share = q.shape
        self.each = n, heads, each
        self.q, self.k = q, k
        self.mask = mask[0] if mask else None

    def of(self, i: _Block, j: _Block) -> Array:
        """The scores (N, H, G, steps of i, steps of j)."""

        def score(n: Any, h: Any, g: Any, r: Any, c: Any) -> Any:
            products = pb.sum_over(self.share, lambda m: self.q[n, i.start + r, h, g, m] * self.k[n, j.start + c, h, m])
            return products / self.share**0.5

        scores: Array = pb.build((*self.each, i.size, j.size), score)
        return scores

    def seen(self, n: Any, i: _Block, r: Any, j: _Block, c: Any, x: Any, otherwise: Any) -> Any:
        """Keep x where step r of block i attends to step c of block j, the same block or one before it."""
        if self.mask is not None:
            a, b = i.start + r, j.start + c
            x = pb.where(self.mask[n, b] if self.mask.ndim == 2 else self.mask[n, a, b], x, otherwise)
        return pb.where(c <= r, x, otherwise) if i is j else x


def _attend(q: Array, k: Array, v: Array, *, size: int, mask: Sequence[Array]) -> tuple[Array, Array]:
    """The result, and the logarithms l of the sums of exponentials, (N, L, H, G)."""
    scores = _Scores(q, k, mask)

    def weights(i: _Block, j: _Block, largest: Array | None) -> tuple[Array, Array]:
        s = scores.of(i, j)

        def top(n: Any, h: Any, g: Any, r: Any) -> Any:
            here = pb.max_over(j.size, lambda c: scores.seen(n, i, r, j, c, s[n, h, g, r, c], -pb.inf))
            return here if largest is None else pb.maximum(largest[n, h, g, r], here)

        def weight(n: Any, h: Any, g: Any, r: Any, c: Any) -> Any:
            return scores.seen(n, i, r, j, c, pb.exp(s[n, h, g, r, c] - shift[n, h, g, r]), 0)

        tops = pb.build((*scores.each, i.size), top)
        shift = _finite(tops)
        return tops, pb.build(s.shape, weight)

    def means(i: _Block, f: Callable[..., Any]) -> Array:
        n, heads, each = scores.each
        made: Array = pb.build((n, i.size, heads, each, scores.share), f)
        return made

    def of_values(w: Array, j: _Block) -> Callable[..., Any]:
        return lambda n, r, h, g, m: pb.sum_over(j.size, lambda c: w[n, h, g, r, c] * v[n, j.start + c, h, m])

    def row(state: Any, i: _Block, before: Before) -> Any:
        def step(state: Any, j: _Block) -> Any:
            largest, total, y = state
            tops, w = weights(i, j, largest)
            fade, more = pb.exp(largest - _finite(tops)), of_values(w, j)
            y = means(i, lambda n, r, h, g, m: y[n, r, h, g, m] * fade[n, h, g, r] + more(n, r, h, g, m))
            return tops, total * fade + pb.sum(w, axis=-1), y

        tops, w = weights(i, i, None)
        tops, total, y = before((tops, pb.sum(w, axis=-1), means(i, of_values(w, i))), step)
        if mask:
            total = pb.where(total == 0, 1, total)
        results, logs = state
        y = means(i, lambda n, r, h, g, m: y[n, r, h, g, m] / total[n, h, g, r])
        own = pb.permute_dims(_finite(tops) + pb.log(total), (0, 3, 1, 2))
        return results.at[i.rows].add(y), logs.at[i.rows].add(own)

    state = pb.zeros(q.shape, dtype=q.dtype), pb.zeros(q.shape[:-1], dtype=q.dtype)
    found: tuple[Array, Array] = _rows(scores.steps, size, state, row)
    return found


def _finite(tops: Array) -> Array:
    """Shifts for exponentials: 0 for rows that have seen nothing, or only scores of -inf."""
    return pb.where(tops == -pb.inf, 0, tops)


def _back(
    q: Array, k: Array, v: Array, logs: Array, y_bar: Array, delta: Array, *, size: int, mask: Sequence[Array]
) -> tuple[Array, Array, Array]:
    """The cotangents of q, k and v."""
    scores = _Scores(q, k, mask)
    n, heads, each = scores.each

    def weights(i: _Block, j: _Block) -> tuple[Array, Array]:
        """The weights w of two blocks, and the cotangents of the scores, over √D."""
        s = scores.of(i, j)

        def weight(n: Any, h: Any, g: Any, r: Any, c: Any) -> Any:
            return scores.seen(n, i, r, j, c, pb.exp(s[n, h, g, r, c] - logs[n, i.start + r, h, g]), 0)

        def score_bar(n: Any, h: Any, g: Any, r: Any, c: Any) -> Any:
            a, b = i.start + r, j.start + c
            w_bar = pb.sum_over(scores.share, lambda m: y_bar[n, a, h, g, m] * v[n, b, h, m])
            return w[n, h, g, r, c] * (w_bar - delta[n, a, h, g]) / scores.share**0.5

        w = pb.build(s.shape, weight)
        return w, pb.build(s.shape, score_bar)

    def step(state: Any, i: _Block, j: _Block) -> Any:
        """Add what two blocks give."""

        def over_queries(x: Array, y: Array) -> Array:
            made: Array = pb.build((n, j.size, heads, scores.share), lambda n, c, h, m: pb.sum_over(
                (each, i.size), lambda g, r: x[n, h, g, r, c] * y[n, i.start + r, h, g, m]))  # fmt: skip
            return made

        q_bar, k_bar, v_bar = state
        w, s_bar = weights(i, j)
        q_bar = pb.build(q_bar.shape, lambda n, r, h, g, m: q_bar[n, r, h, g, m] + pb.sum_over(
            j.size, lambda c: s_bar[n, h, g, r, c] * k[n, j.start + c, h, m]))  # fmt: skip
        return q_bar, k_bar.at[j.rows].add(over_queries(s_bar, q)), v_bar.at[j.rows].add(over_queries(w, y_bar))

    def row(state: Any, i: _Block, before: Before) -> Any:
        q_bar, *others = state
        own = pb.zeros((n, i.size, heads, each, scores.share), dtype=q.dtype)
        own, *others = before(step((own, *others), i, i), lambda state, j: step(state, i, j))
        return q_bar.at[i.rows].add(own), *others

    state = tuple(pb.zeros(x.shape, dtype=x.dtype) for x in (q, k, v))
    found: tuple[Array, Array, Array] = _rows(scores.steps, size, state, row)
    return found
