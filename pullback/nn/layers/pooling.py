"""Pooling: the maximum or the mean of windows, and of whole images."""

from __future__ import annotations

from math import prod
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
    setting,
    split,
    windows,
)
from pullback.nn.scope import Scope

__all__ = ["avg_pool", "global_avg_pool", "global_max_pool", "max_pool"]


def _pool(
    kind: str,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Padding,
    *,
    ceil_mode: bool = False,
    dilation: Numbers = 1,
) -> Windows:
    """The windows of a pooling layer, each of which overlaps the image."""
    over = windows(kind, kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode, dilation=dilation)
    for k, d, before, after in zip(over.size, over.dilation, over.before, over.after):
        if max(before, after) > (d * (k - 1) + 1) // 2:
            raise setting(kind, f"padding {padding!r} is more than half of a window", "at most half of a window")
    return over


def _max_takes(kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0, *, ceil_mode: bool = False,
               dilation: Numbers = 1, layout: Layout = "NCHW") -> str:  # fmt: skip
    return image("max_pool", layout, len(_pool("max_pool", kernel_size, stride, padding, dilation=dilation).size))


@layer(_max_takes, accepts="=")
def max_pool(
    scope: Scope,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    *,
    ceil_mode: bool = False,
    dilation: Numbers = 1,
    layout: Layout = "NCHW",
) -> Array:
    """The largest element of every window: y[n, c, i…] = max u… x[n, c, i s + u d - p, …].

    The gradient goes to the first of equal elements.

    Args:
        scope: not used.
        x: (N, C, *space), or (N, *space, C) for "NHWC".
        kernel_size: the size of a window: a number for both axes, or a number for each axis.
        stride: the distance between adjacent windows; by default the kernel size.
        padding: the padding, as for `conv`; its elements are -inf.
        ceil_mode: whether to include an incomplete last window that starts in the image or the padding before it.
        dilation: the distance between adjacent elements of a window.
        layout: "NCHW" or "NHWC", for any number of spatial axes.
    Returns:
        (N, C, *space), with ⌊(H + 2 p - d (k - 1) - 1) / s⌋ + 1 for every size H, or rounded up.
    Raises:
        TraceError: [E163] settings are out of range. ShapeError: [E167] windows are larger than the image.

    >>> from pullback import nn
    >>> nn.max_pool(2)({}, np.arange(16.0).reshape(1, 1, 4, 4)).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    over = _pool("max_pool", kernel_size, stride, padding, ceil_mode=ceil_mode, dilation=dilation)
    batch, channels, space = split(layout, x.shape)
    counts = over.counts(space)
    y = _bordered(x, over, layout, counts)
    if all(s >= k for s, k in zip(over.stride, over.size)):
        return _largest(y, over, layout, (batch, channels, counts))
    if scope.training:
        return _largest_by_place(y, over, layout, (batch, channels, counts))
    for axis in reversed(range(len(counts))):  # keeps the order of equal elements in the window
        along = over.along(axis)
        extents = split(layout, y.shape)[2]
        y = _largest(y, along, layout, (batch, channels, (*extents[:axis], counts[axis], *extents[axis + 1 :])))
    return y  # type: ignore[no-any-return]


def _largest(y: Any, over: Windows, layout: str, extents: tuple[Any, Any, Any]) -> Array:
    """The largest element of every window of a padded image."""

    def largest(*place: Any) -> Any:
        n, c, i = split(layout, place)
        return pb.max_over(
            over.size, named(ELEMENTS[: len(i)], lambda *u: y[join(layout, n, c, over.places(i, u, bordered=True))])
        )

    pooled: Array = pb.build(join(layout, *extents), named(_names(layout, over), largest))
    return pooled


def _largest_by_place(y: Any, over: Windows, layout: str, extents: tuple[Any, Any, Any]) -> Array:
    """The largest elements, read at their positions in the window.

    The gradient is then one write per window. Otherwise every element of the image searches all windows that contain
    it, which takes three times as long if windows overlap.
    """
    shape = join(layout, *extents)

    def element(place: Any, k: Any) -> Any:
        n, c, i = split(layout, place)
        u = []
        for size in reversed(over.size):
            u.append(k % size)
            k = k // size
        return y[join(layout, n, c, over.places(i, u[::-1], bordered=True))]

    names = _names(layout, over)
    first = named(names, lambda *place: pb.argmax_over(prod(over.size), lambda q: element(place, q)))
    found = pb.build(shape, first)
    pooled: Array = pb.build(shape, named(names, lambda *place: element(place, found[place])))
    return pooled


def _names(layout: str, over: Windows) -> tuple[str, ...]:
    return join(layout, "n", "c", PLACES[: len(over.size)])


def _bordered(x: Any, over: Windows, layout: str, counts: Any) -> Any:
    """The image as a new array padded with -inf, so that reads need no test."""
    if over.inside:
        return x
    batch, channels, _ = split(layout, x.shape)

    def at(*place: Any) -> Any:
        n, c, i = split(layout, place)
        return x.at(*join(layout, n, c, tuple(a - b for a, b in zip(i, over.before))), fill=-pb.inf)

    return pb.build(join(layout, batch, channels, over.bordered(counts)), named(_names(layout, over), at))


def _avg_takes(kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0, *, ceil_mode: bool = False,
               count_include_pad: bool = True, layout: Layout = "NCHW") -> str:  # fmt: skip
    return image("avg_pool", layout, len(_pool("avg_pool", kernel_size, stride, padding).size))


@layer(_avg_takes, accepts="=")
def avg_pool(
    scope: Scope,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: Layout = "NCHW",
) -> Array:
    """The mean of every window: y[n, c, i…] = Σ u… x[n, c, i s + u - p, …] / count.

    Args:
        scope: not used.
        x: (N, C, *space), or (N, *space, C) for "NHWC".
        kernel_size: the size of a window: a number for both axes, or a number for each axis.
        stride: the distance between adjacent windows; by default the kernel size.
        padding: the padding, as for `conv`; its elements are 0.
        ceil_mode: whether to include an incomplete last window that starts in the image or the padding before it.
        count_include_pad: whether padding counts as elements. Elements beyond it, with `ceil_mode`, do not count.
        layout: "NCHW" or "NHWC", for any number of spatial axes.
    Returns:
        (N, C, *space), with sizes as for `max_pool`.
    Raises:
        TraceError: [E163] settings are out of range. ShapeError: [E167] windows are larger than the image.

    >>> from pullback import nn
    >>> nn.avg_pool(2)({}, np.arange(16.0).reshape(1, 1, 4, 4)).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """
    over = _pool("avg_pool", kernel_size, stride, padding, ceil_mode=ceil_mode)
    batch, channels, space = split(layout, x.shape)
    counts = over.counts(space)
    known = over.inside or (count_include_pad and not ceil_mode)
    axes = () if known else range(len(space))
    shares = [_share(over, axis, space, counts, count_include_pad, x.dtype) for axis in axes]
    whole = 1 / prod(over.size)

    def mean(*place: Any) -> Any:
        n, c, i = split(layout, place)
        window = named(ELEMENTS[: len(i)], lambda *u: over.read(x, join(layout, n, c, over.places(i, u))))
        total = pb.sum_over(over.size, window)
        for share, axis_place in zip(shares, i):
            total = total * share[axis_place]
        return total * whole if known else total

    pooled: Array = pb.build(join(layout, batch, channels, counts), named(_names(layout, over), mean))
    return pooled


def _share(over: Windows, axis: int, space: Any, counts: Any, count_include_pad: bool, dtype: Any) -> Array:
    """For every window along an axis, 1 divided by the number of elements that count."""
    first = -over.before[axis] if count_include_pad else 0
    last = space[axis] + (over.after[axis] if count_include_pad else 0)

    def at(i: Any) -> Any:
        start = i * over.stride[axis] - over.before[axis]
        inside = pb.sum_over(
            over.size[axis], lambda u: pb.where((start + u >= first) & (start + u < last), 1.0, 0.0).astype(dtype)
        )
        return 1 / inside

    share: Array = pb.build(counts[axis], at)
    return share


def _global_takes(layout: Layout = "NCHW") -> str:
    return image("global pool", layout, 2)


def _space(layout: str, x: Any) -> tuple[int, ...]:
    return tuple(range(2, x.ndim)) if layout == "NCHW" else tuple(range(1, x.ndim - 1))


@layer(_global_takes, accepts="N C ...")
def global_avg_pool(scope: Scope, x: Any, layout: Layout = "NCHW") -> Array:
    """The mean of every channel over the whole image, for any number of spatial axes.

    Args:
        scope: not used.
        x: (N, C, *space), or (N, *space, C) for "NHWC".
        layout: "NCHW" or "NHWC".
    Returns:
        (N, C).

    >>> from pullback import nn
    >>> nn.global_avg_pool()({}, np.arange(8.0).reshape(1, 2, 2, 2)).tolist()
    [[1.5, 5.5]]
    """
    y: Array = pb.mean(x, axis=_space(layout, x))
    return y


@layer(_global_takes)
def global_max_pool(scope: Scope, x: Any, layout: Layout = "NCHW") -> Array:
    """The largest element of every channel in the whole image, for any number of spatial axes.

    Args:
        scope: not used.
        x: (N, C, *space), or (N, *space, C) for "NHWC".
        layout: "NCHW" or "NHWC".
    Returns:
        (N, C).

    >>> from pullback import nn
    >>> nn.global_max_pool()({}, np.arange(8.0).reshape(1, 2, 2, 2)).tolist()
    [[3.0, 7.0]]
    """
    y: Array = pb.max(x, axis=_space(layout, x))
    return y
