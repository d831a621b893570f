"""Attention, and other operators on sequences with a state."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback.onnx.operators.common import build, constant, dtype_named, floating, number
from pullback.onnx.operators.table import WrongNode, operator
from pullback.onnx.operators.windows import conv


def _heads(x: Any, count: int | None) -> Any:
    """Give (N, L, H D) the axes N H L D."""
    if x.ndim == 4:
        return x
    if x.ndim != 3 or not count or number(x.shape[2]) % count:
        raise WrongNode(f"{count} heads of an array with {x.ndim} axes")
    n, steps, width = x.shape
    return pb.permute_dims(pb.reshape(x, (n, steps, count, width // count)), (0, 2, 1, 3))


def _joined(x: Any) -> Any:
    """The inverse of `_heads`."""
    n, heads, steps, share = x.shape
    return pb.reshape(pb.permute_dims(x, (0, 2, 1, 3)), (n, steps, heads * share))


def _bias(mask: Any, others: int, dtype: Any) -> Any:
    """A mask as a summand, with the keys that it lacks left out."""
    if mask.dtype == pb.bool:
        mask = pb.where(mask, pb.asarray(0.0, dtype=dtype), -pb.inf)
    missing = others - number(mask.shape[-1])
    return pb.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=-pb.inf) if missing > 0 else mask


@operator("Attention")
def attention(Q: Any, K: Any, V: Any, attn_mask: Any = None, past_key: Any = None, past_value: Any = None,
              nonpad_kv_seqlen: Any = None, *, is_causal: int = 0, kv_num_heads: int | None = None,
              left_window_size: int = -1, q_num_heads: int | None = None, qk_matmul_output_mode: int = 0,
              right_window_size: int = -1, scale: float | None = None, softcap: float = 0.0,
              softmax_precision: int | None = None, outputs: int = 1) -> Any:  # fmt: skip
    """softmax(q kᵀ scale + bias) v, with caches of keys and values; queries that may see nothing give 0."""
    q, k, v = _heads(Q, q_num_heads), _heads(K, kv_num_heads), _heads(V, kv_num_heads)
    before: Any = 0
    if past_key is not None and past_value is not None:
        before = number(past_key.shape[2])
        k, v = pb.concat([past_key, k], axis=2), pb.concat([past_value, v], axis=2)
    present = k, v
    heads, share = number(q.shape[1]), number(q.shape[3])
    if heads % number(k.shape[1]):
        raise WrongNode(f"{heads} heads of queries, {k.shape[1]} of keys")
    each = heads // number(k.shape[1])
    k, v = (pb.repeat(z, each, axis=1) if each > 1 else z for z in (k, v))
    scores = q @ pb.matrix_transpose(k) * (share**-0.5 if scale is None else scale)
    shown = {0: scores}
    scores = softcap * pb.tanh(scores / softcap) if softcap else scores
    shown[1] = scores

    bias = _seen(scores, nonpad_kv_seqlen, before, is_causal, left_window_size, right_window_size)
    if attn_mask is not None:
        mask = _bias(attn_mask, number(k.shape[2]), scores.dtype)
        bias = mask if bias is None else mask + bias
    shown[2] = scores = scores if bias is None else scores + bias
    kind = None if softmax_precision is None else dtype_named(softmax_precision)
    weights = _weights(scores if kind is None else pb.astype(scores, kind))
    if bias is not None:
        nothing = pb.max(bias, axis=-1, keepdims=True) == -pb.inf
        weights = pb.where(nothing, 0.0, weights)
    shown[3] = weights = pb.astype(weights, q.dtype)
    if qk_matmul_output_mode not in shown:
        raise WrongNode(f"qk_matmul_output_mode={qk_matmul_output_mode}: 0 to 3")
    y = pb.astype(weights @ v, Q.dtype)
    y = _joined(y) if Q.ndim == 3 else y
    return (y, *present, pb.astype(shown[qk_matmul_output_mode], Q.dtype))[:outputs]


def _seen(scores: Any, lengths: Any, before: Any, causal: int, left: int, right: int) -> Any:
    """0 where a query may see a key, -inf elsewhere; None if it may see all."""
    steps, others = number(scores.shape[2]), number(scores.shape[3])
    allowed: Any = None
    if causal or left >= 0 or right >= 0:
        away: Any = constant(np.arange(steps)[:, None] - np.arange(others))  # of the query behind the key
        if lengths is None:
            away = constant(away + before)
        else:
            away = pb.reshape(pb.astype(lengths, pb.int64) - steps, (-1, 1, 1, 1)) + away
        tests = [away >= 0] * bool(causal) + [away <= left] * (left >= 0) + [away >= -right] * (right >= 0)
        allowed = tests[0]
        for test in tests[1:]:
            allowed = allowed & test
    if lengths is not None:
        there = pb.reshape(pb.astype(lengths, pb.int64), (-1, 1, 1, 1)) > constant(np.arange(others))
        allowed = there if allowed is None else allowed & there
    return None if allowed is None else pb.where(allowed, pb.asarray(0.0, dtype=scores.dtype), -pb.inf)


def _weights(scores: Any) -> Any:
    """The softmax over keys; 0 for rows of -inf."""
    top = pb.max(scores, axis=-1, keepdims=True)
    shares = pb.exp(scores - pb.where(top == -pb.inf, 0.0, top))
    total = pb.sum(shares, axis=-1, keepdims=True)
    return shares / pb.where(total == 0, 1.0, total)


@operator("LinearAttention")
def linear_attention(query: Any, key: Any, value: Any, past_state: Any = None, decay: Any = None, beta: Any = None, *,
                     chunk_size: int = 0, kv_num_heads: int, q_num_heads: int, scale: float = 0.0,
                     update_rule: str = "gated_delta", outputs: int = 1) -> Any:  # fmt: skip
    """Attention by a state S of each head: S ← e^decay S + k (β (v - Sᵀ k))ᵀ, y = scale Sᵀ q."""
    rules = {"linear": (0, 0), "gated": (1, 0), "delta": (0, 1), "gated_delta": (1, 1)}
    if rules.get(update_rule) != (decay is not None, beta is not None):
        raise WrongNode(f"update_rule={update_rule!r} with these inputs")
    if q_num_heads % kv_num_heads:
        raise WrongNode(f"{q_num_heads} heads of queries, {kv_num_heads} of keys")
    q, k, v = (floating(_heads(x, h)) for x, h in ((query, q_num_heads), (key, kv_num_heads), (value, kv_num_heads)))
    n, _, steps, share = q.shape
    shape = (n, kv_num_heads, share, v.shape[3])
    first = pb.zeros(shape, dtype=q.dtype) if past_state is None else floating(past_state)
    fades = None if decay is None else pb.exp(floating(_heads(decay, kv_num_heads)))
    rates = None if beta is None else floating(_heads(beta, number(beta.shape[2])))
    by = scale or number(share) ** -0.5
    each = q_num_heads // kv_num_heads

    def advance(state: Any, t: Any) -> Any:
        own_k, own_v = k[:, :, t], v[:, :, t]
        if fades is not None:
            state = state * pb.expand_dims(fades[:, :, t], -1)
        if rates is not None:
            own_v = rates[:, :, t] * (own_v - pb.sum(state * pb.expand_dims(own_k, -1), axis=2))
        state = state + pb.expand_dims(own_k, -1) * pb.expand_dims(own_v, 2)
        read = pb.repeat(state, each, axis=1) if each > 1 else state
        return state, by * pb.sum(read * pb.expand_dims(q[:, :, t], -1), axis=2)

    last, rows = pb.scan(steps, first, advance)
    y = pb.reshape(pb.permute_dims(rows, (1, 0, 2, 3)), (n, steps, q_num_heads * number(v.shape[3])))
    kept = query.dtype if past_state is None else past_state.dtype
    return (pb.astype(y, query.dtype), pb.astype(last, kept))[:outputs]


@operator("CausalConvWithState")
def causal_conv(x: Any, weight: Any, bias: Any = None, past_state: Any = None, *, activation: str = "none",
                outputs: int = 1) -> Any:  # fmt: skip
    """Convolution of each channel with itself and the steps before; the last steps are the next state."""
    if activation not in ("none", "silu", "swish"):
        raise WrongNode(f"activation={activation!r}: none, silu or swish")
    n, channels, _ = x.shape
    before = number(weight.shape[2]) - 1
    start = pb.zeros((n, channels, before), dtype=x.dtype) if past_state is None else past_state
    whole = pb.concat([start, x], axis=2) if before else x
    y = conv(whole, weight, bias, group=number(channels))
    y = y if activation == "none" else pb.astype(floating(y) * pb.logistic(floating(y)), x.dtype)
    return (y, whole[:, :, number(whole.shape[2]) - before :])[:outputs]


@operator("TensorScatter")
def tensor_scatter(past_cache: Any, update: Any, write_indices: Any = None, *, axis: int = -2,
                   mode: str = "linear") -> Any:  # fmt: skip
    """Write a block of steps into a cache, for each sample at its own position."""
    if mode not in ("linear", "circular"):
        raise WrongNode(f"mode={mode!r}: linear or circular")
    axis %= past_cache.ndim
    whole, count = number(past_cache.shape[axis]), number(update.shape[axis])
    starts = pb.zeros((past_cache.shape[0],), dtype=pb.int64) if write_indices is None else write_indices
    starts = pb.astype(starts, pb.int64)

    def element(*i: Any) -> Any:
        place = i[axis] - starts[i[0]]
        place = pb.where(place < 0, place + whole, place) if mode == "circular" else place
        inside = (place >= 0) & (place < count)
        at = list(i)
        at[axis] = pb.where(inside, place, 0)
        return pb.where(inside, update[tuple(at)], past_cache[i])

    return build(past_cache.shape, element)
