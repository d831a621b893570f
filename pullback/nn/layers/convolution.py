"""Convolutions and transposed convolutions, for any number of axes."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import Array
from pullback.nn.layer import layer
from pullback.nn.layers.windows import (
    ELEMENTS,
    PLACES,
    Layout,
    Numbers,
    Padding,
    Windows,
    image,
    join,
    named,
    number,
    numbers,
    setting,
    share_of_group,
    split,
    windows,
)
from pullback.nn.scope import Initializer, Scope

__all__ = ["conv", "conv_transpose"]


def _takes(kind: str, out_channels: Any, groups: Any, layout: str, over: Windows) -> str:
    numbers(kind, "out_channels", out_channels, 1, least=1)
    numbers(kind, "groups", groups, 1, least=1)
    if out_channels % groups:
        what = f"{groups} groups do not divide {out_channels} out_channels"
        raise setting(kind, what, "a divisor of the channels")
    return image(kind, layout, len(over.size), channels="C" if groups == 1 else f"{groups}*C")


def _conv_takes(
    out_channels: int,
    kernel_size: Numbers,
    *,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    layout: Layout = "NCHW",
    **rest: Any,
) -> str:
    over = windows("conv", kernel_size, stride=stride, padding=padding, dilation=dilation)
    return _takes("conv", out_channels, groups, layout, over)


@layer(_conv_takes, accepts="=")
def conv(
    scope: Scope,
    x: Any,
    out_channels: int,
    kernel_size: Numbers,
    *,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    bias: bool = True,
    init: Initializer | None = None,
    layout: Layout = "NCHW",
) -> Array:
    """Convolve an image: y[n, o, i…] = b[o] + Σ c u… x[n, c, i s + u d - p, …] w[o, c, u…].

    A setting is a number for all spatial axes, or a tuple with one number per axis. A tuple gives the number of axes:
    `conv(8, (5,))` is for N C L, `conv(8, (3, 3, 3))` for N C D H W.

    Args:
        scope: provides the parameters w (out_channels, C / groups, *kernel_size) and b (out_channels,).
        x: (N, C, *space), or (N, *space, C) for "NHWC". Padding elements are 0.
        out_channels: the number of channels of the result.
        kernel_size: the size of the window along each axis.
        stride: the distance s between adjacent windows.
        padding: the number p of padding elements, pairs (before, after) per axis, or "same" for a result of the size of
            the image.
        dilation: the distance d between adjacent elements of a window.
        groups: the number of channel groups, each of which reads its own part of the image's channels.
        bias: whether to add the bias b.
        init: the initializer of w.
        layout: "NCHW" or "NHWC", for any number of spatial axes.
    Returns:
        (N, out_channels, *space), with ⌊(H + 2 p - d (k - 1) - 1) / s⌋ + 1 for every size H.
    Raises:
        TraceError: [E163] settings are out of range. ShapeError: [E167] the windows do not fit the image.
    Cost:
        Multiply-adds: elements of the result times elements of a window, times C / groups.

    >>> from pullback import nn
    >>> nn.sequential(nn.conv(20, 5, stride=2)).type
    (x: f32[N, C, H, W]) -> f32[N, 20, (H + 1) // 2 - 2, (W + 1) // 2 - 2]
      conv1  conv(20, 5, stride=2)  f32[N, 20, (H + 1) // 2 - 2, (W + 1) // 2 - 2]  w f32[20, C, 5, 5], b f32[20]
    """
    over = windows("conv", kernel_size, stride=stride, padding=padding, dilation=dilation)
    batch, inputs, space = split(layout, x.shape)
    own = share_of_group(inputs, groups, "conv")
    w = scope.parameter("w", (out_channels, own, *over.size), init)
    b = scope.parameter("b", (out_channels,)) if bias else None
    return _convolved(x, w, b, over, layout, groups, (batch, own, over.counts(space)))


def _convolved(x: Any, w: Any, b: Any, over: Windows, layout: str, groups: int, extents: Any) -> Array:
    """The sums over the windows; several groups add a leading axis.

    The innermost sum is contiguous in memory: over the window if channels come first, over the channels if they come
    last. Weights are transposed to match.
    """
    batch, own, counts = extents
    channels, first = w.shape[0], layout == "NCHW"
    each = channels // groups
    if apart := first and number(own) == 1 and over.stride[-1] > 1:
        x = over.phases(x, batch, groups, counts)
    space, window = PLACES[: len(counts)], ELEMENTS[: len(counts)]
    turn = named((*window, "c", "o"), lambda *k: w[(k[-1], k[-2], *k[:-2])])
    turned = w if first else pb.build((*over.size, own, channels), turn)

    def read(n: Any, c: Any, i: Any, u: Any) -> Any:
        return x[(n, c, *over.phase(i, u))] if apart else over.read(x, join(layout, n, c, over.places(i, u)))

    def value(n: Any, group: Any, o: Any, i: Any) -> Any:
        def element(c: Any, u: Any, weight: Any) -> Any:
            return read(n, group * own + c, i, u) * weight

        if first:
            term = named(("c", *window), lambda c, *u: element(c, u, w[(o, c, *u)]))
            total = pb.sum_over((own, *over.size), term)
        else:
            term = named((*window, "c"), lambda *k: element(k[-1], k[:-1], turned[(*k, o)]))
            total = pb.sum_over((*over.size, own), term)
        return total if b is None else total + b[o]

    def pixel(*place: Any) -> Any:
        n, o, i = split(layout, place)
        return value(n, 0, o, i)

    def grouped(*place: Any) -> Any:
        n, group, o, *i = place if first else (place[0], *place[-2:], *place[1:-2])
        return value(n, group, group * each + o, i)

    shape = join(layout, batch, channels, counts)
    if groups == 1:
        y: Array = pb.build(shape, named(join(layout, "n", "o", space), pixel))
        return y
    parts = (batch, groups, each, *counts) if first else (batch, *counts, groups, each)
    names = ("n", "g", "o", *space) if first else ("n", *space, "g", "o")
    joined: Array = pb.reshape(pb.build(parts, named(names, grouped)), shape)
    return joined


def _conv_transpose_takes(
    out_channels: int,
    kernel_size: Numbers,
    *,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    output_padding: Numbers = 0,
    groups: int = 1,
    layout: Layout = "NCHW",
    **rest: Any,
) -> str:
    kind = "conv_transpose"
    over = windows(kind, kernel_size, stride=stride, padding=padding, dilation=dilation)
    more = numbers(kind, "output_padding", output_padding, len(over.size), least=0)
    if any(e >= max(s, d) for e, s, d in zip(more, over.stride, over.dilation)):
        raise setting(kind, f"output_padding is {output_padding!r}, no less than the stride", "less than the stride")
    return _takes(kind, out_channels, groups, layout, over)


@layer(_conv_transpose_takes, accepts="=")
def conv_transpose(
    scope: Scope,
    x: Any,
    out_channels: int,
    kernel_size: Numbers,
    *,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    output_padding: Numbers = 0,
    groups: int = 1,
    bias: bool = True,
    init: Initializer | None = None,
    layout: Layout = "NCHW",
) -> Array:
    """Spread every element of an image over a window: y[n, o, i s + u d - p] sums x[n, c, i] w[c, o, u].

    This is the transpose of `conv`: the image gradient of a convolution with these windows, for the cotangent x.
    Settings are those of `conv`; `padding` removes elements from the borders of the result.

    Args:
        scope: provides the parameters w (C, out_channels / groups, *kernel_size) and b (out_channels,).
        x: (N, C, *space), or (N, *space, C) for "NHWC".
        out_channels: the number of channels of the result.
        kernel_size: the size of the window along each axis.
        stride: the distance between spread elements.
        padding: the number of elements removed at each border of the result.
        dilation: the distance between adjacent elements of a window.
        output_padding: the number of elements to append to the result, less than the stride.
        groups: the number of groups, as for `conv`.
        bias: whether to add the bias b.
        init: the initializer of w.
        layout: "NCHW" or "NHWC", for any number of spatial axes.
    Returns:
        (N, out_channels, *space), with (H - 1) s + d (k - 1) + 1 - 2 p + output_padding for every size H.
    Raises:
        TraceError: [E163] settings are out of range. ShapeError: [E167] the windows do not fit the image.

    >>> from pullback import nn
    >>> nn.conv_transpose(3, 4, stride=2, padding=1).on("N 8 16 16").type.result
    'f32[N, 3, 32, 32]'
    """
    over = windows("conv_transpose", kernel_size, stride=stride, padding=padding, dilation=dilation)
    more = numbers("conv_transpose", "output_padding", output_padding, len(over.size), least=0)
    batch, inputs, space = split(layout, x.shape)
    each = out_channels // groups
    share_of_group(inputs, groups, "conv_transpose")
    w = scope.parameter("w", (inputs, each, *over.size), init)
    target = join(layout, batch, out_channels, over.spread(space, more))

    def forward(image: Any) -> Any:
        return _convolved(image, w, None, over, layout, groups, (batch, each, space))

    y: Array = pb.vjp(pb.function(forward), wrt=0)(pb.zeros(target, dtype=x.dtype), cotangent=x)[1]
    if not bias:
        return y
    b = scope.parameter("b", (out_channels,))
    return y + (b if layout == "NHWC" else pb.reshape(b, (out_channels, *(1 for _ in space))))
