"""Normalization operators and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback as pb
from pullback.onnx.operators.common import axis_of, build, floating, number
from pullback.onnx.operators.table import WrongNode, operator


def _per_channel(v: Any, x: Any) -> Any:
    """Reshape a vector with an element per channel to broadcast over an image."""
    return pb.reshape(v, (1, -1, *(1,) * (x.ndim - 2)))


@operator("BatchNormalization")
def batch_normalized(x: Any, scale: Any, b: Any, mean: Any, var: Any, *, epsilon: float = 1e-5, momentum: float = 0.9,
                     spatial: int = 1, training_mode: int = 0, is_test: int = 1, outputs: int = 1) -> Any:  # fmt: skip
    """Normalize channels by given means and variances; in training by those of the batch, also returned."""
    if not spatial:
        raise WrongNode("spatial=0, which is of versions before 9")
    if training_mode:
        axes = (0, *range(2, x.ndim))
        own, spread = pb.mean(x, axis=axes), pb.var(x, axis=axes)
        running = tuple(old * momentum + new * (1 - momentum) for old, new in ((mean, own), (var, spread)))
        return (_normalized(x, own, spread, scale, b, epsilon), *running)
    if outputs > 1:
        raise WrongNode("more than one result, which is of training")
    return _normalized(x, mean, var, scale, b, epsilon)


def _normalized(x: Any, mean: Any, var: Any, scale: Any, b: Any, epsilon: float) -> Any:
    factor = scale / pb.sqrt(var + epsilon)
    shift = b - mean * factor
    y = pb.astype(x, factor.dtype) * _per_channel(factor, x) + _per_channel(shift, x)
    return pb.astype(y, x.dtype)


def _standard(x: Any, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any, Any]:
    """Normalize over axes to mean 0 and variance 1; return also the means and inverse standard deviations."""
    mean = pb.mean(x, axis=axes, keepdims=True)
    away = x - mean
    inverse = 1 / pb.sqrt(pb.mean(away * away, axis=axes, keepdims=True) + epsilon)
    return away * inverse, mean, inverse


@operator("InstanceNormalization")
def instance_normalized(x: Any, scale: Any, b: Any, *, epsilon: float = 1e-5) -> Any:
    """Normalize each channel of each image separately."""
    y, _, _ = _standard(x, tuple(range(2, x.ndim)), epsilon)
    return y * _per_channel(scale, x) + _per_channel(b, x)


@operator("LayerNormalization")
def layer_normalized(x: Any, scale: Any, b: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
                     outputs: int = 1) -> Any:  # fmt: skip
    """Normalize over all axes from `axis` on; return also means and inverse standard deviations."""
    wide = floating(x) if stash_type == 1 else x  # runtimes keep float64
    y, mean, inverse = _standard(wide, tuple(range(axis_of(axis, x.ndim), x.ndim)), epsilon)
    y = pb.astype(y, x.dtype) * scale
    y = y if b is None else y + b
    return (y, mean, inverse)[:outputs]


@operator("RMSNormalization")
def rms_normalized(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """Normalize the mean square over all axes from `axis` on to 1."""
    wide = floating(x) if stash_type == 1 else x  # runtimes keep float64
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    y = wide / pb.sqrt(pb.mean(wide * wide, axis=axes, keepdims=True) + epsilon)
    return pb.astype(y, x.dtype) * scale


@operator("GroupNormalization")
def group_normalized(x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1,
                     version: int) -> Any:  # fmt: skip
    """Normalize groups of channels; before version 21 scale and bias have one element per group."""
    n, c, space = x.shape[0], number(x.shape[1]), tuple(x.shape[2:])
    if num_groups < 1 or c % num_groups:
        raise WrongNode(f"{num_groups} groups of {c} channels")
    groups = pb.reshape(x, (n, num_groups, c // num_groups, *space))
    y, _, _ = _standard(groups, tuple(range(2, groups.ndim)), epsilon)
    if version < 21:
        return pb.reshape(y * _per_channel(scale, groups) + _per_channel(bias, groups), x.shape)
    return pb.reshape(y, x.shape) * _per_channel(scale, x) + _per_channel(bias, x)


@operator("MeanVarianceNormalization")
def mean_variance_normalized(x: Any, *, axes: Any = (0, 2, 3)) -> Any:
    """Normalize over axes to mean 0 and variance 1."""
    own = tuple(axis_of(a, x.ndim) for a in axes)
    away = x - pb.mean(x, axis=own, keepdims=True)
    return away / (pb.sqrt(pb.mean(away * away, axis=own, keepdims=True)) + 1e-9)


@operator("LRN")
def local_response(x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    """Return `x / (bias + α / size Σ x²)^β`, the sum over neighboring channels."""
    before = (size - 1) // 2
    squares = x * x

    def element(n: Any, c: Any, *i: Any) -> Any:
        return pb.sum_over(size, lambda k: squares.at(n, c + k - before, *i, fill=0.0))

    sums = build(x.shape, element)
    return x / (bias + alpha / size * sums) ** beta


# Losses -----------------------------------------------------------------------------------------------------------


def _reduced(loss: Any, weights: Any, reduction: str) -> Any:
    forms: dict[str, Callable[[], Any]] = {
        "none": lambda: loss,
        "sum": lambda: pb.sum(loss),
        "mean": lambda: pb.sum(loss) / pb.sum(weights),
    }
    if reduction not in forms:
        raise WrongNode(f"reduction={reduction!r}: " + ", ".join(forms))
    return forms[reduction]()


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(x: Any, target: Any, weight: Any = None, *, reduction: str = "mean",
                            ignore_index: int | None = None) -> Any:  # fmt: skip
    """The negative entry at each target's class, weighted by class."""
    label = pb.astype(target, pb.int64)
    counts = label != ignore_index if ignore_index is not None else pb.ones(label.shape, dtype=pb.bool)
    safe = pb.where(counts, label, 0)
    own = pb.ones((x.shape[1],), dtype=x.dtype) if weight is None else weight
    weights = build(label.shape, lambda *i: pb.where(counts[i], own[safe[i]], 0.0))
    loss = build(label.shape, lambda n, *i: -x[(n, safe[(n, *i)], *i)] * weights[(n, *i)])
    return _reduced(loss, weights, reduction)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(scores: Any, labels: Any, weights: Any = None, *, reduction: str = "mean",
                          ignore_index: int | None = None, outputs: int = 1) -> Any:  # fmt: skip
    """The negative log-likelihood of a softmax of scores; the log-softmax is a second result."""
    logarithms = scores - pb.logsumexp(scores, axis=1, keepdims=True)
    loss = negative_log_likelihood(logarithms, labels, weights, reduction=reduction, ignore_index=ignore_index)
    return loss if outputs == 1 else (loss, logarithms)
