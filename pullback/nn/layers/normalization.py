"""Normalization: subtract the mean, divide by the standard deviation, then scale and shift."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import Array
from pullback.nn import init
from pullback.nn.layer import layer
from pullback.nn.layers.windows import PLACES, Layout, image, join, named, numbers, setting, share_of_group, split
from pullback.nn.scope import Scope

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm"]


def _check(kind: str, eps: float, **shares: float) -> None:
    if not eps >= 0:
        raise setting(kind, f"eps is {eps!r}", "a small positive number, such as 1e-5")
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise setting(kind, f"{name} is {share!r}", "a number from 0 to 1")


def _moments(x: Any, axes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """`x` minus its mean along the axes, the mean, and the variance.

    The variance is computed from the differences, so it stays accurate if the mean is large.
    """
    mean = pb.mean(x, axis=axes)
    centered = x - pb.expand_dims(mean, axes)
    return centered, mean, pb.mean(centered * centered, axis=axes)


def _affine(scope: Scope, y: Any, shape: Any, axes: tuple[int, ...], affine: bool) -> Array:
    """Scale and shift `y` by parameters that are constant along the axes, if these are learned."""
    if affine:
        y = y * pb.expand_dims(scope.parameter("scale", shape, init.ones()), axes)
        y = y + pb.expand_dims(scope.parameter("shift", shape, init.zeros()), axes)
    normalized: Array = y
    return normalized


def _beside_channels(layout: str, x: Any) -> tuple[int, ...]:
    """All axes of an image except the channel axis."""
    channels = 1 if layout == "NCHW" else x.ndim - 1
    return tuple(k for k in range(x.ndim) if k != channels)


def _batch_takes(momentum: float = 0.1, eps: float = 1e-5, *, affine: bool = True, layout: Layout = "NCHW") -> str:
    _check("batch_norm", eps, momentum=momentum)
    return image("batch_norm", layout, 2)


@layer(_batch_takes, accepts="N C ...")
def batch_norm(
    scope: Scope, x: Any, momentum: float = 0.1, eps: float = 1e-5, *, affine: bool = True, layout: Layout = "NCHW"
) -> Array:
    """Normalize each channel by its mean and variance over batch and space (Ioffe and Szegedy 2015).

        y = scale (x - mean) / √(variance + ε) + shift

    In training the statistics are those of the batch, and running statistics move toward them: m ← (1 - momentum) m +
    momentum · mean. The running variance uses the unbiased variance of the batch. Inference uses the running
    statistics.

    Args:
        scope: provides the parameters scale and shift, and the states mean and variance, each (C,).
        x: (N, C, *space) or (N, *space, C), with zero or more spatial axes.
        momentum: the weight of a batch in the running statistics.
        eps: added to the variance.
        affine: whether to learn scale and shift.
        layout: "NCHW" or "NHWC".
    Returns:
        An array of the shape of x.
    Raises:
        TraceError: [E163] the momentum is not within 0 and 1, or `eps` is negative.

    >>> from pullback import nn
    >>> parameters, state = nn.batch_norm().on("N 3 8 8").init()
    >>> parameters["scale"].tolist(), state["variance"].tolist()
    ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    """
    batch, channels, space = split(layout, x.shape)
    axes = _beside_channels(layout, x)
    mean, variance = scope.state("mean", (channels,)), scope.state("variance", (channels,), init.ones())
    if scope.training:
        count = batch
        for extent in space:
            count = count * extent
        centered, found, spread = _moments(x, axes)
        unbiased = spread * count / pb.maximum(count - 1, 1)
        scope.update("mean", (1 - momentum) * mean + momentum * found)
        scope.update("variance", (1 - momentum) * variance + momentum * unbiased)
    else:
        centered, spread = x - pb.expand_dims(mean, axes), variance
    factor = 1 / pb.sqrt(spread + eps)
    if not affine:
        plain: Array = centered * pb.expand_dims(factor, axes)
        return plain
    scale, shift = scope.parameter("scale", (channels,), init.ones()), scope.parameter("shift", (channels,))
    y: Array = centered * pb.expand_dims(factor * scale, axes) + pb.expand_dims(shift, axes)
    return y


def _layer_takes(axes: int = 1, eps: float = 1e-5, *, elementwise_affine: bool = True) -> str | None:
    _check("layer_norm", eps)
    (count,) = numbers("layer_norm", "axes", axes, 1, least=1)
    return "N M" if count == 1 else None


@layer(_layer_takes, accepts="... M")
def layer_norm(scope: Scope, x: Any, axes: int = 1, eps: float = 1e-5, *, elementwise_affine: bool = True) -> Array:
    """Normalize every row by its mean and standard deviation (Ba et al. 2016).

        y = scale (x - mean) / √(variance + ε) + shift

    Args:
        scope: provides the parameters scale and shift, of the shape of the last axes.
        x: (…, M).
        axes: the number of trailing axes that form a row.
        eps: added to the variance.
        elementwise_affine: whether to learn scale and shift.
    Returns:
        An array of the shape of x.
    Raises:
        TraceError: [E163] `axes` is below 1, or `eps` is negative.

    >>> from pullback import nn
    >>> nn.layer_norm(elementwise_affine=False, eps=0.0)({}, np.array([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """
    last = tuple(range(x.ndim - axes, x.ndim))

    def normalized(x: Any) -> Any:
        centered, _, spread = _moments(x, last)
        y = centered * pb.expand_dims(1 / pb.sqrt(spread + eps), last)
        return _affine(scope, y, x.shape[-axes:], (), elementwise_affine)

    y: Array = pb.checkpoint(normalized)(x)  # keeps the input only: recomputing the rest costs less
    return y


def _rms_takes(eps: float = 1e-6, *, elementwise_affine: bool = True) -> str:
    _check("rms_norm", eps)
    return "N M"


@layer(_rms_takes, accepts="... M")
def rms_norm(scope: Scope, x: Any, eps: float = 1e-6, *, elementwise_affine: bool = True) -> Array:
    """Divide every row by its root mean square (Zhang and Sennrich 2019): scale x / √(mean x² + ε).

    Args:
        scope: provides the parameter scale (M,).
        x: (…, M).
        eps: added to the mean square.
        elementwise_affine: whether to learn a scale.
    Returns:
        An array of the shape of x.
    Raises:
        TraceError: [E163] `eps` is negative.

    >>> from pullback import nn
    >>> nn.rms_norm(elementwise_affine=False, eps=0.0)({}, np.array([[2.0, 2.0]])).tolist()
    [[1.0, 1.0]]
    """
    factor = 1 / pb.sqrt(pb.mean(x * x, axis=-1) + eps)
    y: Array = x * factor[..., None]
    return y * scope.parameter("scale", x.shape[-1:], init.ones()) if elementwise_affine else y


def _group_takes(num_groups: int, eps: float = 1e-5, *, affine: bool = True, layout: Layout = "NCHW") -> str:
    _check("group_norm", eps)
    numbers("group_norm", "num_groups", num_groups, 1, least=1)
    return image("group_norm", layout, 2, channels="C" if num_groups == 1 else f"{num_groups}*C")


@layer(_group_takes, accepts="N C ...")
def group_norm(
    scope: Scope, x: Any, num_groups: int, eps: float = 1e-5, *, affine: bool = True, layout: Layout = "NCHW"
) -> Array:
    """Normalize groups of channels of every image by mean and standard deviation (Wu and He 2018).

    Args:
        scope: provides the parameters scale and shift, each (C,).
        x: (N, C, *space), or (N, *space, C) for "NHWC".
        num_groups: the number of groups, each of C / num_groups adjacent channels.
        eps: added to the variance.
        affine: whether to learn scale and shift.
        layout: "NCHW" or "NHWC".
    Returns:
        An array of the shape of x.
    Raises:
        TraceError: [E163] settings are out of range. ShapeError: [E167] the groups do not divide the channels.

    >>> from pullback import nn
    >>> x = np.array([1.0, 3.0, 5.0, 9.0]).reshape(1, 4, 1, 1)
    >>> nn.group_norm(2, affine=False, eps=0.0)({}, x).ravel().tolist()
    [-1.0, 1.0, -1.0, 1.0]
    """
    batch, channels, space = split(layout, x.shape)
    own = share_of_group(channels, num_groups, "group_norm")
    parts = (batch, num_groups, own, *space) if layout == "NCHW" else (batch, *space, num_groups, own)
    group = 1 if layout == "NCHW" else x.ndim - 1
    axes = tuple(k for k in range(1, x.ndim + 1) if k != group)
    centered, _, spread = _moments(pb.reshape(x, parts), axes)
    factor = pb.expand_dims(1 / pb.sqrt(spread + eps), axes)
    if affine:  # scaled while groups are separate, so that there is one factor per channel, not per element
        beside = tuple(k for k in range(x.ndim + 1) if k not in (group, group + 1))
        scale, shift = scope.parameter("scale", (channels,), init.ones()), scope.parameter("shift", (channels,))
        scale, shift = (pb.expand_dims(pb.reshape(a, (num_groups, own)), beside) for a in (scale, shift))
        y = centered * (factor * scale) + shift
    else:
        y = centered * factor
    normalized: Array = pb.reshape(y, x.shape)
    return normalized


def _instance_takes(eps: float = 1e-5, *, affine: bool = True, layout: Layout = "NCHW") -> str:
    _check("instance_norm", eps)
    return image("instance_norm", layout, 2)


@layer(_instance_takes, accepts="N C ...")
def instance_norm(
    scope: Scope, x: Any, eps: float = 1e-5, *, affine: bool = True, layout: Layout = "NCHW"
) -> Array:
    """Normalize every channel of every image by mean and standard deviation (Ulyanov et al. 2016).

    Args:
        scope: provides the parameters scale and shift, each (C,).
        x: (N, C, *space), or (N, *space, C) for "NHWC".
        eps: added to the variance.
        affine: whether to learn scale and shift.
        layout: "NCHW" or "NHWC".
    Returns:
        An array of the shape of x.
    Raises:
        TraceError: [E163] `eps` is negative, or the layout is unknown.

    >>> from pullback import nn
    >>> nn.instance_norm(affine=False, eps=0.0)({}, np.array([[[[1.0, 3.0]], [[5.0, 9.0]]]])).tolist()
    [[[[-1.0, 1.0]], [[-1.0, 1.0]]]]
    """
    beside = _beside_channels(layout, x)
    centered, _, spread = _moments(x, beside[1:])
    y = centered * pb.expand_dims(1 / pb.sqrt(spread + eps), beside[1:])
    return _affine(scope, y, (split(layout, x.shape)[1],), beside, affine)


def _response_takes(size: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 2.0, *,
                    layout: Layout = "NCHW") -> str:  # fmt: skip
    numbers("local_response_norm", "size", size, 1, least=1)
    if not k > 0 or alpha < 0:
        what = f"k is {k!r} and alpha {alpha!r}"
        raise setting("local_response_norm", what, "k above 0 and alpha from 0: the root is of a positive number")
    return image("local_response_norm", layout, 2)


@layer(_response_takes, accepts="N C ...")
def local_response_norm(
    scope: Scope,
    x: Any,
    size: int = 5,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 2.0,
    *,
    layout: Layout = "NCHW",
) -> Array:
    """Divide by a power of a sum of squares over neighboring channels (Krizhevsky et al. 2012).

        y[n, c, i…] = x[n, c, i…] / (k + α Σ j x[n, j, i…]²)^β        j from c - ⌊size / 2⌋, `size` of them

    The defaults are the paper's. Other frameworks divide α by the size: convert their `alpha` to `alpha / size`.

    Args:
        scope: not used.
        x: (N, C, *space), or (N, *space, C) for "NHWC".
        size: the number of neighboring channels.
        alpha: the weight of the squares.
        beta: the power.
        k: the constant added to the sum.
        layout: "NCHW" or "NHWC".
    Returns:
        An array of the shape of x.
    Raises:
        TraceError: [E163] settings are out of range.

    >>> from pullback import nn
    >>> nn.local_response_norm(3, 1.0, 1.0, 1.0)({}, np.ones((1, 3, 1, 1))).ravel().tolist()
    [0.3333333333333333, 0.25, 0.3333333333333333]
    """

    def squares(*place: Any) -> Any:
        n, c, i = split(layout, place)
        return pb.sum_over(size, lambda j: x.at(*join(layout, n, c + j - size // 2, i)) ** 2)

    y: Array = x / (k + alpha * pb.build(x.shape, named(join(layout, "n", "c", PLACES[: x.ndim - 2]), squares))) ** beta
    return y
