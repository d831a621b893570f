"""Functions of sampled data: convolve, interp, gradient."""

from __future__ import annotations

from typing import Any, Literal

from pullback.arrays.by_parts import bilinear, by_parts
from pullback.arrays.elementwise import choose, convert, elementwise, where
from pullback.arrays.manipulation import concat, moveaxis, reshape
from pullback.arrays.reduction import normal_axes
from pullback.errors import DTypeError, ShapeError, counted
from pullback.ir.index import Index, cond, prove_nonnegative
from pullback.source import user_position
from pullback.tracing.arithmetic import common_dtype
from pullback.tracing.array import Array, from_index, type_text
from pullback.tracing.index import build, sum_over
from pullback.tracing.making import as_array, describe
from pullback.tracing.tracer import current


def _vector(what: str, x: Any) -> Array:
    h = as_array(x, what)
    if h.rank != 1:
        raise ShapeError(
            "E104", f"{what} takes vectors, not {type_text(h)}", position=user_position(), facts=[describe(h, "array")]
        )
    return h


@bilinear
def convolve(x1: Any, x2: Any, /, mode: Literal["full", "same", "valid"] = "full") -> Array:
    """Convolve two vectors: y[i] = Σ k: x1[i - k] x2[k].

    Args:
        x1: a vector of n elements.
        x2: a vector of m elements. If it is not known which is longer, x1 must be; calls are checked [E114].
        mode: "full": all n + m - 1 elements; "same": the middle ones, as many as the longer vector has; "valid": those
            without missing terms, as many as the difference of the lengths plus 1.
    Cost:
        n m multiply-adds. The derivatives are convolutions, too.

    >>> pb.function(lambda x, y: pb.convolve(x, y))(np.array([1, 2, 3]), np.array([1, 10])).tolist()
    [1, 12, 23, 30]
    """
    a, b = _vector("convolve", x1), _vector("convolve", x2)
    dtype = common_dtype("convolve", [a, b], user_position()) or a.settled
    if mode not in ("full", "same", "valid"):
        raise ShapeError(
            "E104",
            f"convolve: there is no mode {mode!r}",
            position=user_position(),
            remedy='"full", "same" or "valid"',
        )
    a, b = convert(a, dtype), convert(b, dtype)
    n, m = a.extents[0], b.extents[0]
    if not prove_nonnegative(n - m) and prove_nonnegative(m - n):
        a, b, n, m = b, a, m, n
    if mode != "full":
        current().require(cond(">=", n - m))
    extent = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
    first = from_index({"full": m * 0, "same": (m - 1) // 2, "valid": m - 1}[mode])
    size = from_index(current().extent(extent, "convolve"))
    read = a.__getitem__ if mode == "valid" else a.at
    out: Array = build(size, lambda i: sum_over(from_index(m), lambda k: read(i + first - k) * b[k]))
    return out


def interp(x: Any, xp: Any, fp: Any, /, left: Any = None, right: Any = None) -> Array:
    """The piecewise linear function through the points (xp, fp), at x.

    Args:
        x: array.
        xp: a vector of increasing positions.
        fp: a vector of the same length with the values at these positions.
        left: the value for x below xp[0]; by default fp[0].
        right: the value for x above xp[-1]; by default fp[-1].
    Derivative:
        With respect to x, xp and fp, that of the piece that contains x; at xp[k] that of the piece to its right.
    Cost:
        A comparison of every x with every element of xp.

    >>> @pb.function
    ... def line(x):
    ...     return pb.interp(x, np.array([0.0, 1.0, 3.0]), np.array([0.0, 10.0, 30.0]))
    >>> line(np.array([-1.0, 0.5, 2.0, 4.0])).tolist()
    [0.0, 5.0, 20.0, 30.0]
    """
    h, xs, ys = as_array(x, "interp"), _vector("interp", xp), _vector("interp", fp)
    dtype = common_dtype("interp", [h, xs, ys], user_position()) or h.settled
    if not dtype.is_floating:
        raise DTypeError("E121", f"interp takes floating-point values, not {dtype}", position=user_position())
    if xs.extents[0] is not ys.extents[0]:
        raise ShapeError(
            "E102",
            f"interp: {counted(xs.extents[0], 'place')}, and {counted(ys.extents[0], 'value')}",
            position=user_position(),
            facts=[describe(xs, "xp"), describe(ys, "fp")],
        )
    h, xs, ys = convert(h, dtype), convert(xs, dtype), convert(ys, dtype)
    last = from_index(xs.extents[0] - 1)

    def at(v: Array) -> Array:
        below = sum_over(last + 1, lambda k: convert(xs[k] <= v, "int64"))
        low = elementwise("minimum", elementwise("maximum", below - 1, 0), last)
        high = elementwise("minimum", elementwise("maximum", below, 0), last)
        share = (v - xs[low]) / (xs[high] - xs[low])
        inside = ys[low] + share * (ys[high] - ys[low])
        out = where(v >= xs[last], ys[last], where(v <= xs[0], ys[0], inside))
        if left is not None:
            out = where(v < xs[0], left, out)
        if right is not None:
            out = where(v > xs[last], right, out)
        return choose(elementwise("isnan", v), v, out)

    if h.rank == 0:
        return at(h)
    out: Array = build(h.shape, lambda *i: at(h[i]))
    return out


@by_parts
def gradient(f: Any, /, *spacing: Any, axis: Any = None, edge_order: Literal[1, 2] = 1) -> Any:
    """The derivative of samples, by differences of second order inside and of `edge_order` at the ends.

    Args:
        f: floating-point samples.
        spacing: the spacing: 1 by default, a number for all axes, or a number or a vector of positions for each axis.
        axis: the axes to differentiate along; by default all.
        edge_order: 1 or 2.
    Returns:
        An array like f; for several axes a tuple of them.
    Raises:
        ShapeError: [E104] the spacings do not fit the axes. A call with fewer than edge_order + 1 samples is refused
            [E114].

    >>> pb.function(lambda f: pb.gradient(f))(np.array([0.0, 1.0, 4.0, 9.0])).tolist()
    [1.0, 2.0, 4.0, 5.0]
    """
    h = as_array(f, "gradient")
    if not h.settled.is_floating:
        raise DTypeError(
            "E121",
            f"gradient takes floating-point values, not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "samples")],
            remedy="convert with `astype(pb.float64)`",
        )
    axes = normal_axes(h, axis, "gradient")
    steps = list(spacing) or [1.0]
    if len(steps) == 1:
        steps = steps * len(axes)
    if len(steps) != len(axes) or edge_order not in (1, 2):
        raise ShapeError(
            "E104",
            f"gradient: {counted(len(steps), 'spacing')} for {counted(len(axes), 'axis', 'axes')}, "
            f"and edge_order {edge_order}",
            position=user_position(),
            facts=[describe(h, "samples")],
            remedy="one spacing for all axes or one for each, and edge_order 1 or 2",
        )
    made = [_slope(h, a, as_array(s, "gradient"), edge_order) for a, s in zip(axes, steps)]
    return tuple(made) if isinstance(axis, tuple | list) or len(axes) > 1 else made[0]


def _slope(h: Array, axis: int, step: Array, edge_order: int) -> Array:
    """The derivative of the parabola through each sample and its neighbors, a before and b after it.

    It is (a² f[i+1] + (b² - a²) f[i] - b² f[i-1]) / (a b (a + b)).
    """
    f = moveaxis(h, axis, 0)
    n: Index = f.extents[0]
    current().require(cond(">=", n - edge_order - 1))
    if n.constant is not None and n.constant <= edge_order:
        raise ShapeError(
            "E104",
            f"gradient: {counted(n, 'sample')} along axis {axis}, and {edge_order + 1} are needed",
            position=user_position(),
            facts=[describe(h, "samples")],
        )
    if step.rank:
        places = _vector("gradient", step)
        if places.extents[0] is not n:
            raise ShapeError(
                "E102",
                f"gradient: {counted(places.extents[0], 'place')} for {counted(n, 'sample')} along axis {axis}",
                position=user_position(),
                facts=[describe(h, "samples"), describe(places, "places")],
            )
        gap = reshape(places[1:] - places[:-1], (-1, *(1,) * (f.rank - 1)))
        first, second, before_last, last = gap[:1], gap[1:2], gap[-2:-1], gap[-1:]
        a, b = gap[:-1], gap[1:]
        inner = (a * a * f[2:] + (b - a) * (b + a) * f[1:-1] - b * b * f[:-2]) / (a * b * (a + b))
    else:
        first = second = before_last = last = step
        inner = (f[2:] - f[:-2]) / (2 * step)
    if edge_order == 1:
        ends = (f[1:2] - f[:1]) / first, (f[-1:] - f[-2:-1]) / last
    else:
        ends = _end(f[:1], f[1:2], f[2:3], first, second), -_end(f[-1:], f[-2:-1], f[-3:-2], last, before_last)
    parts = (ends[0], inner, ends[1]) if n.constant != 2 else ends
    return moveaxis(concat(parts, 0), 0, axis)


def _end(f0: Array, f1: Array, f2: Array, a: Any, b: Any) -> Any:
    """The derivative at f0 of the parabola through three samples with spacings a and b."""
    return (f1 - f0) * ((a + b) / (a * b)) - (f2 - f0) * (a / (b * (a + b)))
