"""Attention, position encodings, and the transformer block."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import pullback as pb
from pullback import Array
from pullback.errors import DTypeError, ShapeError, TraceError, counted
from pullback.ir.index import DimSymbol, as_index
from pullback.ir.types import bool_
from pullback.nn import init
from pullback.nn.activations import gelu
from pullback.nn.composition import residual, sequential
from pullback.nn.layer import layer
from pullback.nn.layers.causal import SHORTEST, causal_attention
from pullback.nn.layers.checks import check_count, check_one_of, check_setting
from pullback.nn.layers.dense import dense
from pullback.nn.layers.dropout import dropout as dropout_layer
from pullback.nn.layers.normalization import layer_norm
from pullback.nn.scope import Scope, check_axes, type_of
from pullback.source import user_position
from pullback.tracing.making import as_array, extent_of

__all__ = ["attention", "positional_encoding", "rotary_embedding", "transformer_block"]


def _takes(kind: str, num_heads: int, *, num_kv_heads: int | None = None, **_: Any) -> str:
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    check_count(kind, num_heads=num_heads, num_kv_heads=num_kv_heads)
    what = f"num_heads is {num_heads}, num_kv_heads {num_kv_heads}"
    check_setting(kind, num_heads % num_kv_heads == 0, what, "a `num_kv_heads` that divides `num_heads`")
    return "N L M"


@layer(partial(_takes, "attention"))
def attention(
    scope: Scope,
    x: Any,
    num_heads: int,
    *,
    is_causal: bool = False,
    num_kv_heads: int | None = None,
    rotary: bool = False,
    dropout: float = 0.0,
) -> Array:
    """Let every step attend to the steps of its own or another sequence (Vaswani et al. 2017).

    In each head it is softmax(q kᵀ / √D) v.

        q = query x, k = key z, v = value z       D = M / num_heads features for each head; z is x, or another sequence
        y = out (heads side by side)

    Args:
        scope: provides w and b of four dense layers: query, key, value and out. The first three,
            stacked, are in_proj_weight and in_proj_bias of PyTorch's MultiheadAttention.
        x: (N, L, M), or a dict: "query" is x, "key" (N, K, F) the other sequence, and "mask" bools that are true where
            a step may be attended to, (N, K) as for padding, or (N, L, K). Without "key", K is L and F is M. Within
            `nn.masked` its mask is that of the own sequence, if none is given.
        num_heads: the number of heads; it divides M.
        is_causal: whether step i attends only to the steps up to i.
        num_kv_heads: the number of heads of keys and values (Ainslie et al. 2023); by default `num_heads`. Each serves
            num_heads / num_kv_heads adjacent query heads.
        rotary: whether to rotate queries and keys by their positions (`rotary_embedding`).
        dropout: the dropout rate of the attention weights.
    Returns:
        (N, L, M). The heads of a step that may attend to nothing are 0.
    Raises:
        TraceError: [E163] a number of heads is below 1, or `num_kv_heads` does not divide `num_heads`. [E168] The dict
            has other names.
        ShapeError: [E162] `num_heads` does not divide M, or the sizes of the sequences and the mask differ.
        DTypeError: [E122] the mask is not of bools.
    Cost:
        N L M (2 M + 2 num_kv_heads D) multiply-adds for the products with parameters, 2 N L K M between steps. Memory
        for N L K num_heads weights. Causal attention of a sequence to itself has, on processors and from 192 steps on,
        blocks of 64 steps instead: half of the products, and no memory that grows with L². It is without dropout then.

    >>> from pullback import nn
    >>> nn.attention(4, is_causal=True, num_kv_heads=2).on("N L 32").type
    (x: f32[N, L, 32]) -> f32[N, L, 32]
      query  dense(32)  f32[N, L, 32]  w f32[32, 32], b f32[32]
      key    dense(16)  f32[N, L, 16]  w f32[16, 32], b f32[16]
      value  dense(16)  f32[N, L, 16]  w f32[16, 32], b f32[16]
      out    dense(32)  f32[N, L, 32]  w f32[32, 32], b f32[32]
    """
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    x, other, mask = _sequences(scope, x)
    n, steps, width = x.shape
    share = _features_of_a_head(scope, width, num_heads, rotary)
    queries, keys, values = (
        pb.reshape(scope.call(dense(count * share), z, name), (*z.shape[:2], count, share))
        for name, z, count in (("query", x, num_heads), ("key", other, num_kv_heads), ("value", other, num_kv_heads))
    )
    if rotary:
        queries, keys = rotary_embedding(queries), rotary_embedding(keys)
    y = _mean_of_values(scope, queries, keys, values, is_causal, mask, dropout)
    joined: Array = scope.call(dense(width), pb.reshape(y, (n, steps, width)), "out")
    return joined


def _sequences(scope: Scope, given: Any) -> tuple[Array, Array, Array | None]:
    """The sequence that attends, the one that is attended to, and the mask."""
    if not isinstance(given, Mapping):
        check_axes("attention", "N L M", given)
        return given, given, scope.mask
    if "query" not in given or not set(given) <= {"query", "key", "mask"}:
        raise TraceError("E168", f"attention takes one array, or a dict of 'query', 'key' and 'mask', and was given "
                         f"{type_of(dict(given))}", position=user_position(),
                         remedy='`{"query": x, "key": other, "mask": is_there}`')  # fmt: skip
    x = as_array(given["query"])
    other = as_array(given["key"]) if "key" in given else x
    for name, z in (("query", x), ("key", other)):
        check_axes(f"attention: {name}", "N L M", z)
    scope.unify(x.shape[0], other.shape[0], "the query and the key differ in how many sequences they have")
    if given.get("mask") is None:
        return x, other, None if "key" in given else scope.mask
    mask = as_array(given["mask"])
    if mask.settled is not bool_:
        raise DTypeError("E122", f"attention: the mask is {mask.type_text}, and bools are taken",
                         position=user_position(), remedy="`lengths[:, None] > np.arange(K)`")  # fmt: skip
    wanted = (x.shape[0], other.shape[1]) if mask.ndim == 2 else (*x.shape[:2], other.shape[1])
    scope.unify(mask.shape, wanted, "the mask has other sizes than the sequences")
    return x, other, mask


def _mean_of_values(
    scope: Scope, queries: Array, keys: Array, values: Array, is_causal: bool, mask: Array | None, dropout: float
) -> Array:
    """Softmax(q kᵀ / √D) v for queries (N, L, H, D), and keys and values of H heads or fewer.

    The exponentials are multiplied by the values first. The result is then divided by the sum of the exponentials.
    """
    n, steps, heads, share = queries.shape
    others, each = keys.shape[1], heads // keys.shape[2]
    numbers = all(isinstance(size, int) for size in (steps, others, heads, share))
    if is_causal and numbers and steps == others and steps >= SHORTEST and not (dropout and scope.training):
        return causal_attention(queries, keys, values, mask)

    def seen(n: Any, i: Any, j: Any, x: Any, otherwise: Any) -> Any:
        if mask is not None:
            x = pb.where(mask[n, j] if mask.ndim == 2 else mask[n, i, j], x, otherwise)
        return pb.where(j <= i, x, otherwise) if is_causal else x

    def score(n: Any, h: Any, i: Any, j: Any) -> Any:
        return pb.sum_over(share, lambda m: queries[n, i, h, m] * keys[n, j, h // each, m]) / share**0.5

    def largest(n: Any, h: Any, i: Any) -> Any:
        return pb.max_over(others, lambda j: seen(n, i, j, scores[n, h, i, j], -pb.inf))

    def weight(n: Any, h: Any, i: Any, j: Any) -> Any:
        return seen(n, i, j, pb.exp(scores[n, h, i, j] - top[n, h, i]), 0)

    def mean(n: Any, i: Any, h: Any, m: Any) -> Any:
        return pb.sum_over(others, lambda j: weights[n, h, i, j] * values[n, j, h // each, m]) / total[n, h, i]

    scores = pb.build((n, heads, steps, others), score)
    top = pb.stop_gradient(pb.build((n, heads, steps), largest))  # any shift gives the same result
    if mask is not None:  # a step that sees nothing
        top = pb.where(top == -pb.inf, 0, top)
    weights = pb.build((n, heads, steps, others), weight)
    total = pb.sum(weights, axis=-1)
    if mask is not None:
        total = pb.where(total == 0, 1, total)
    if dropout:
        weights = scope.call(dropout_layer(dropout), weights)
    y: Array = pb.build((n, steps, heads, share), mean)
    return y


def _features_of_a_head(scope: Scope, width: Any, heads: int, rotary: bool) -> Any:
    """The size of a head, width / heads; an open width becomes a multiple of `heads`."""
    extent, parts = extent_of(width, "attention"), 2 * heads if rotary else heads
    if isinstance(extent.single, DimSymbol):
        scope.unify(extent, parts * as_index(DimSymbol("D")), "the heads share the features")
    if extent_of(width // parts * parts, "attention") != extent:
        raise ShapeError(
            "E162",
            f"attention: {heads} heads do not share {width} features evenly" + (" in pairs" if rotary else ""),
            position=user_position(),
            remedy=f"a multiple of {parts} features",
        )
    return width // heads


@layer(partial(_takes, "transformer_block"), accepts="=")
def transformer_block(
    scope: Scope,
    x: Any,
    num_heads: int,
    *,
    dim_feedforward: int | None = None,
    is_causal: bool = False,
    num_kv_heads: int | None = None,
    rotary: bool = False,
    dropout: float = 0.0,
    activation: Any = gelu,
) -> Array:
    """Transformer block: attention, then two dense layers, each added to its input (Vaswani et al. 2017).

    Both normalize their input first (Xiong et al. 2020).

    Args:
        scope: provides the parameters, in look/body and think/body.
        x: (N, L, M).
        num_heads: the number of attention heads.
        dim_feedforward: the number of units of the first dense layer; 4 M by default.
        is_causal: whether a step attends only to itself and earlier steps.
        num_kv_heads: the number of heads of keys and values.
        rotary: whether to rotate queries and keys by their positions.
        dropout: the dropout rate of attention and of residual branches.
        activation: the activation between the dense layers.
    Returns:
        (N, L, M).

    >>> from pullback import nn
    >>> block = nn.transformer_block(4, is_causal=True)
    >>> (block >> block).on("N L 32").type.result
    'f32[N, L, 32]'
    """
    dropped = (dropout_layer(dropout),) if dropout else ()
    look = attention(num_heads, is_causal=is_causal, num_kv_heads=num_kv_heads, rotary=rotary, dropout=dropout)
    x = scope.call(residual(layer_norm(), look, *dropped), x, "look")
    width = x.shape[2]
    think = sequential(dense(4 * width if dim_feedforward is None else dim_feedforward), activation, dense(width))
    y: Array = scope.call(residual(layer_norm(), think, *dropped), x, "think")
    return y


def _positional_encoding_takes(kind: str = "sinusoidal", *, max_length: int | None = None) -> str:
    check_one_of("positional_encoding", "kind", kind, ("sinusoidal", "learned"))
    check_count("positional_encoding", max_length=1 if max_length is None else max_length)
    return "N L M"


@layer(_positional_encoding_takes, accepts="=")
def positional_encoding(scope: Scope, x: Any, kind: str = "sinusoidal", *, max_length: int | None = None) -> Array:
    """Add a position encoding to each step of a sequence.

        sinusoidal   sin(t / 10000^(2 i / M)) to feature 2 i of step t, the cosine of the same to 2 i + 1
                     (Vaswani et al. 2017)
        learned       w[t]

    Args:
        scope: provides the parameter w (max_length, M) of a learned encoding.
        x: (N, L, M).
        kind: "sinusoidal" or "learned".
        max_length: the largest number of steps of a learned encoding; by default the length of x.
    Returns:
        (N, L, M).
    Raises:
        TraceError: [E163] the kind is unknown. ShapeError: [E162] x has more steps than `max_length`.

    >>> from pullback import nn
    >>> nn.positional_encoding()({}, np.zeros((1, 2, 2)))[0].round(3).tolist()
    [[0.0, 1.0], [0.841, 0.54]]
    """
    _, steps, width = x.shape
    if kind == "sinusoidal":
        angles = _angles(steps, (width + 1) // 2, 2 / width)
        sin, cos = pb.sin(angles), pb.cos(angles)
        waves = pb.build((steps, width), lambda t, m: pb.where(m % 2 == 0, sin[t, m // 2], cos[t, m // 2]))
        y: Array = x + pb.astype(waves, x.dtype)
        return y
    w = scope.parameter("w", (steps if max_length is None else max_length, width), init.normal(0.02))
    if isinstance(steps, int) and max_length is not None and steps > max_length:
        raise ShapeError(
            "E162",
            f"positional_encoding: {counted(steps, 'step')} where {max_length} are learned",
            position=user_position(),
            remedy=f"`max_length={steps}`",
        )
    rows: Array = pb.build((steps, width), lambda t, m: w.at(t, m))  # an open number of steps may be larger
    return pb.add(x, rows)


def rotary_embedding(x: Array) -> Array:
    """Rotate queries or keys by their positions (rotary embedding, Su et al. 2021).

        (y[2 i], y[2 i + 1]) = (x[2 i], x[2 i + 1]) rotated by the angle t / 10000^(2 i / D)

    Products of queries and keys then depend on the distance between their positions.

    Args:
        x: (N, L, heads, D), step t of L; D even.
    Returns:
        An array of the shape of x.
    Raises:
        ShapeError: [E162] D is odd.

    >>> from pullback import nn
    >>> x = np.array([1.0, 0.0] * 2).reshape(1, 2, 1, 2)
    >>> pb.function(lambda x: nn.rotary_embedding(x))(x)[0, :, 0].round(3).tolist()
    [[1.0, 0.0], [0.54, 0.841]]
    """
    n, steps, heads, width = x.shape
    pairs = pb.reshape(x, (n, steps, heads, width // 2, 2))
    angles = _angles(steps, width // 2, 2 / width)
    cos, sin = (pb.astype(f(angles), x.dtype) for f in (pb.cos, pb.sin))

    def turned(n: Any, t: Any, h: Any, i: Any, k: Any) -> Any:
        return pairs[n, t, h, i, k] * cos[t, i] + (2 * k - 1) * pairs[n, t, h, i, 1 - k] * sin[t, i]

    y: Array = pb.reshape(pb.build(pairs.shape, turned), x.shape)
    return y


def _angles(steps: Any, count: Any, exponent: Any) -> Array:
    """Angles t / 10000^(i exponent), in f64 because a large t amplifies the rounding of a frequency."""
    t, i = pb.arange(steps, dtype=pb.float64), pb.arange(count, dtype=pb.float64)
    angles: Array = t[:, None] * pb.exp(-math.log(10000) * exponent * i)[None, :]
    return angles
