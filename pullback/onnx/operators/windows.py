"""Convolution and pooling operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import pullback as pb
from pullback import nn
from pullback.onnx.operators.common import build, check_table, constant, integers, is_floating, number, numbers
from pullback.onnx.operators.elementwise import quantize
from pullback.onnx.operators.shape import padded
from pullback.onnx.operators.table import Known, WrongNode, operator


@dataclass(frozen=True)
class Geometry:
    """The geometry of windows over an image: one number for each spatial axis."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def borders(self) -> tuple[tuple[int, int], ...]:
        """The padding before and after each axis."""
        return tuple(zip(self.before, self.after))

    @property
    def reach(self) -> tuple[int, ...]:
        """The size of a dilated window along each axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.size, self.dilation))


def geometry(space: Sequence[Any], size: Any, strides: Any, dilations: Any, pads: Any, auto_pad: str) -> Geometry:
    """The geometry given by a node's attributes.

    Raises:
        WrongNode: an attribute does not have one number for each axis, or is out of range.
    """
    rank = len(space)
    sizes, steps, apart = integers(size), integers(strides, [1] * rank), integers(dilations, [1] * rank)
    borders = integers(pads, [0] * 2 * rank)
    if not len(sizes) == len(steps) == len(apart) == rank or len(borders) != 2 * rank:
        raise WrongNode(f"window {sizes}, strides {steps}, dilations {apart}, pads {borders} over {rank} axes")
    if min([*sizes, *steps, *apart], default=1) < 1 or min(borders, default=0) < 0:
        raise WrongNode(f"window {sizes}, strides {steps}, dilations {apart}, pads {borders}")
    before, after = borders[:rank], borders[rank:]
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        for k, (e, n, s, d) in enumerate(zip(space, sizes, steps, apart)):
            whole = max(0, (-(-number(e) // s) - 1) * s + d * (n - 1) + 1 - number(e))
            less, more = whole // 2, whole - whole // 2
            before[k], after[k] = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
    elif auto_pad == "VALID":
        before, after = [0] * rank, [0] * rank
    elif auto_pad != "NOTSET":
        raise WrongNode(f"auto_pad={auto_pad!r}: NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    return Geometry(tuple(sizes), tuple(steps), tuple(apart), tuple(before), tuple(after))


def _image(x: Any) -> tuple[Any, ...]:
    """The spatial sizes of an image."""
    if x.ndim < 3:
        raise WrongNode(f"an array of {x.ndim} axes, where a batch, channels and space are needed")
    return tuple(x.shape[2:])


# Convolutions -----------------------------------------------------------------------------------------------------


@operator("Conv")
def conv(x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
         kernel_shape: Any = None, pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    """Convolution of an image with weights."""
    g = geometry(_image(x), numbers(w.shape[2:]), strides, dilations, pads, auto_pad)
    if kernel_shape is not None and tuple(kernel_shape) != g.size:
        raise WrongNode(f"kernel_shape {list(kernel_shape)}, and weights of {list(g.size)}")
    layer = nn.conv(number(w.shape[0]), g.size, stride=g.stride, padding=g.borders, dilation=g.dilation, groups=group,
                    bias=b is not None)  # fmt: skip
    return layer({"w": w} if b is None else {"w": w, "b": b}, x)


@operator("ConvTranspose")
def conv_transposed(x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
                    kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None, pads: Any = None,
                    strides: Any = None) -> Any:  # fmt: skip
    """Transposed convolution of an image with weights."""
    space = _image(x)
    g = geometry(space, numbers(w.shape[2:]), strides, dilations, pads, "NOTSET")
    extra = integers(output_padding, [0] * len(space))
    full = [(number(e) - 1) * s + r + a for e, s, r, a in zip(space, g.stride, g.reach, extra)]
    before, after = list(g.before), list(g.after)
    wanted = integers(output_shape)[-len(space) :] or None
    if auto_pad.startswith("SAME"):
        wanted = wanted or [number(e) * s for e, s in zip(space, g.stride)]
    if wanted:
        for k, (f, n) in enumerate(zip(full, wanted)):
            less = (f - n) // 2
            before[k], after[k] = (less, f - n - less) if auto_pad == "SAME_UPPER" else (f - n - less, less)
    each = number(w.shape[1])
    layer = nn.conv_transpose(each * group, g.size, stride=g.stride, dilation=g.dilation, groups=group, bias=False)
    y = layer({"w": w}, x)
    channel = (0, 0)
    y = padded(y, [channel, channel, *((0, a + max(-c, 0)) for a, c in zip(extra, after))], 0.0)
    y = padded(y, [channel, channel, *((max(-c, 0), 0) for c in before)], 0.0)
    cut = tuple(slice(max(c, 0), e + max(-c, 0) - max(d, 0) + max(-d, 0)) for c, d, e in zip(before, after, full))
    y = y[(slice(None), slice(None), *cut)]
    return y if b is None else y + pb.reshape(b, (-1, *(1,) * len(space)))


@operator("ConvInteger")
def conv_integer(x: Any, w: Any, x_zero_point: Any = None, w_zero_point: Any = None, *, auto_pad: str = "NOTSET",
                 dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None,
                 strides: Any = None) -> Any:  # fmt: skip
    """Convolution of 8-bit integers in int32, after their zero points are subtracted."""
    image, weights = pb.astype(x, pb.int32), pb.astype(w, pb.int32)
    if x_zero_point is not None:
        image = image - pb.reshape(pb.astype(x_zero_point, pb.int32), ())
    if w_zero_point is not None:
        zero = pb.astype(w_zero_point, pb.int32)
        weights = weights - (pb.reshape(zero, (-1, *(1,) * (w.ndim - 1))) if zero.ndim else zero)
    return conv(image, weights, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
                pads=pads, strides=strides)  # fmt: skip


@operator("QLinearConv")
def quantized_conv(x: Any, x_scale: Any, x_zero_point: Any, w: Any, w_scale: Any, w_zero_point: Any, y_scale: Any,
                   y_zero_point: Any, B: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
                   kernel_shape: Any = None, pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    """Convolution of quantized 8-bit integers, quantized to 8 bits."""
    y = conv_integer(x, w, x_zero_point, w_zero_point, auto_pad=auto_pad, dilations=dilations, group=group,
                     kernel_shape=kernel_shape, pads=pads, strides=strides)  # fmt: skip
    apart = (1, -1, *(1,) * (w.ndim - 2))
    y = y if B is None else y + pb.reshape(B, apart)
    scale = x_scale * (pb.reshape(w_scale, apart) if w_scale.ndim == 1 and number(w_scale.shape[0]) > 1 else
                       pb.reshape(w_scale, ()))  # fmt: skip
    return quantize(pb.astype(y, pb.float32) * scale, y_scale, y_zero_point)


# Pools ------------------------------------------------------------------------------------------------------------


def _counts(space: Sequence[Any], g: Geometry, ceil: int) -> list[Any]:
    """The number of windows; with `ceil`, a partial last one counts if it starts inside the image."""
    out = []
    for e, s, b, a, r in zip(space, g.stride, g.before, g.after, g.reach):
        room = e + b + a - r
        if isinstance(room, int) and room < 0 and not ceil:
            raise WrongNode(f"windows of {list(g.size)} on an image of {list(space)}")
        count = (room + s - 1) // s + 1 if ceil else room // s + 1
        if ceil and number((count - 1) * s) >= number(e + b):
            count = count - 1
        out.append(count)
    return out


def _pooled(x: Any, g: Geometry, ceil: int, fill: Any, reduced: Callable[..., Any]) -> Any:
    """Reduce each window by `reduced`, which receives the window's size and its elements."""
    counts = _counts(_image(x), g, ceil)
    behind = [max(0, number((n - 1) * s + r - e - b)) if ceil else a
              for n, s, r, e, b, a in zip(counts, g.stride, g.reach, _image(x), g.before, g.after)]  # fmt: skip
    y = padded(x, [(0, 0), (0, 0), *zip(g.before, behind)], fill)

    def element(n: Any, c: Any, *i: Any) -> Any:
        return reduced(g.size, lambda *u: y[(n, c, *(a * s + b * d for a, s, b, d in
                                                     zip(i, g.stride, u, g.dilation)))])  # fmt: skip

    return build((x.shape[0], x.shape[1], *counts), element)


def _lowest(x: Any) -> Any:
    """The lowest value of the array's element type."""
    return -pb.inf if is_floating(x) else int(np.iinfo(str(x.dtype.numpy)).min)


def _over(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction over windows of any number of axes."""
    from pullback.nn.layers.windows import ELEMENTS, named

    return lambda size, f: reduce(size, named(ELEMENTS[: len(size)], f))


@operator("MaxPool")
def max_pool(x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
             pads: Any = None, storage_order: int = 0, strides: Any = None, outputs: int = 1) -> Any:  # fmt: skip
    """The largest element of every window, and its position in the flattened array."""
    g = geometry(_image(x), kernel_shape, strides, dilations, pads, auto_pad)
    small = all(2 * b <= r and 2 * a <= r for b, a, r in zip(g.before, g.after, g.reach))
    if is_floating(x) and small and not ceil_mode:
        found = nn.max_pool(g.size, g.stride, g.borders, dilation=g.dilation)({}, x)
    else:
        found = _pooled(x, g, ceil_mode, _lowest(x), _over(pb.max_over))
    return found if outputs == 1 else (found, _places(x, g, ceil_mode, storage_order))


def _places(x: Any, g: Geometry, ceil: int, storage_order: int) -> Any:
    """The position of each window's largest element in the flattened array, rows or columns first."""
    space = numbers(_image(x))
    whole = prod(g.size)

    def first(size: Any, f: Any) -> Any:
        return pb.argmax_over(whole, lambda q: f(*_unravelled(q, size)))

    at = pb.astype(_pooled(x, g, ceil, _lowest(x), first), pb.int64)

    def element(n: Any, c: Any, *i: Any) -> Any:
        u = _unravelled(at[(n, c, *i)], g.size)
        place = [a * s + b * d - p for a, s, b, d, p in zip(i, g.stride, u, g.dilation, g.before)]
        order = list(zip(space, place))
        out = n * x.shape[1] + c
        for e, p in order[::-1] if storage_order else order:
            out = out * e + p
        return out

    return build(at.shape, element)


def _unravelled(q: Any, size: Sequence[int]) -> list[Any]:
    out = []
    for e in reversed(size):
        out.append(q % e)
        q = q // e
    return out[::-1]


@operator("MaxUnpool")
def max_unpool(x: Any, places: Any, output_shape: Known | None = None, *, kernel_shape: Any, pads: Any = None,
               strides: Any = None) -> Any:  # fmt: skip
    """Undo `max_pool`: put each element at its recorded position, 0 elsewhere."""
    g = geometry(_image(x), kernel_shape, strides, None, pads, "NOTSET")
    own = [(number(e) - 1) * s + r - b - a
           for e, s, r, b, a in zip(_image(x), g.stride, g.reach, g.before, g.after)]  # fmt: skip
    shape = [*numbers(x.shape[:2]), *own]
    wanted = integers(output_shape) or shape
    flat = pb.zeros((prod(shape),), dtype=x.dtype).set(pb.reshape(places, (-1,)), pb.reshape(x, (-1,)))
    return padded(pb.reshape(flat, tuple(shape)), [(0, b - a) for a, b in zip(shape, wanted)], 0.0)


@operator("AveragePool")
def average_pool(x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
                 dilations: Any = None, pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    """The mean of every window; `count_include_pad` includes the padding in the count."""
    g = geometry(_image(x), kernel_shape, strides, dilations, pads, auto_pad)
    small = all(2 * b <= r and 2 * a <= r for b, a, r in zip(g.before, g.after, g.reach))
    if small and not ceil_mode and set(g.dilation) <= {1}:
        return nn.avg_pool(g.size, g.stride, g.borders, count_include_pad=bool(count_include_pad))({}, x)
    sums = _pooled(x, g, ceil_mode, 0.0, _over(pb.sum_over))
    share: Any = np.ones(())
    for extent, n, k in zip(numbers(_image(x)), numbers(sums.shape[2:]), range(len(g.size))):
        check_table(n, g.size[k])
        at = np.arange(n)[:, None] * g.stride[k] + np.arange(g.size[k]) * g.dilation[k] - g.before[k]
        low, high = (-g.before[k], extent + g.after[k]) if count_include_pad else (0, extent)
        share = np.multiply.outer(share, ((at >= low) & (at < high)).sum(1))
    counts = pb.asarray(constant(share.astype(str(x.dtype.numpy))))
    return sums / counts


@operator("LpPool")
def lp_pool(x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
            p: int = 2, pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    """The p-norm of every window."""
    g = geometry(_image(x), kernel_shape, strides, dilations, pads, auto_pad)
    return _pooled(pb.abs(x) ** p, g, ceil_mode, 0.0, _over(pb.sum_over)) ** (1 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Any) -> Any:
    """The mean of every channel."""
    return pb.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Any) -> Any:
    """The largest element of every channel."""
    return pb.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Any, *, p: int = 2) -> Any:
    """The p-norm of every channel."""
    return pb.sum(pb.abs(x) ** p, axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)


@operator("Col2Im")
def columns_to_image(x: Any, image_shape: Known, block_shape: Known, *, dilations: Any = None, pads: Any = None,
                     strides: Any = None) -> Any:  # fmt: skip
    """Add up columns of windows where they overlap: the transpose of extracting windows."""
    space = integers(image_shape)
    g = geometry(space, block_shape, strides, dilations, pads, "NOTSET")
    counts = numbers(_counts(space, g, 0))
    n, c = number(x.shape[0]), number(x.shape[1]) // prod(g.size)
    parts = pb.reshape(x, (n, c, *g.size, *counts))

    def apart(image: Any) -> Any:
        y = padded(image, [(0, 0), (0, 0), *g.borders], 0.0)
        rank = len(space)

        def element(a: Any, b: Any, *i: Any) -> Any:
            u, at = i[:rank], i[rank:]
            return y[(a, b, *(p * s + q * d for p, s, q, d in zip(at, g.stride, u, g.dilation)))]

        return build((n, c, *g.size, *counts), element)

    zeros = pb.zeros((n, c, *space), dtype=x.dtype)
    return pb.vjp(pb.function(apart), wrt=0)(zeros, cotangent=parts)[1]
