"""Sorting and counting: sort, argsort, top_k, median, quantile, searchsorted, histogram, bincount.

Sorting uses one statement, the positions that sort a row. Other functions read at these positions, so derivatives
are those of gathers. Equal elements keep their order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pullback.arrays.creation import linspace
from pullback.arrays.elementwise import choose, clip, convert, elementwise
from pullback.arrays.manipulation import expand_dims, moveaxis, reshape, take
from pullback.arrays.reduction import max as largest
from pullback.arrays.reduction import min as least
from pullback.arrays.reduction import normal_axes
from pullback.arrays.reduction import sum as total
from pullback.arrays.subscript import subscript
from pullback.errors import DTypeError, ShapeError, counted
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Var, as_index, cond
from pullback.source import Position, user_position
from pullback.tracing.array import Array, Indices, shape_value, type_text
from pullback.tracing.index import build, empty_error, sum_over
from pullback.tracing.making import as_array, axes_for, describe, emit, extent_of, from_ref, ref_of, scalar, view
from pullback.tracing.naming import assigned_name
from pullback.tracing.tracer import current


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Sort the elements along an axis, ascending.

    NaN is last, also in descending order. Equal elements keep their order.

    Args:
        x: any elements.
        axis: by default the last one.
        descending: whether to put the largest element first.
        stable: accepted for the array API; the order is always stable.
    Derivative:
        That of reading each element at its original position.
    Cost:
        n log₂ n comparisons for each row of n elements.

    >>> pb.function(lambda x: pb.sort(x))(np.array([3, 1, 2])).tolist()
    [1, 2, 3]
    """
    h, at = _operand(x, axis, "sort")
    rows = _last(h, at)
    return moveaxis(_ordered(rows, _positions(rows, descending, "sort"), "sort"), -1, at)


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions that sort the elements along an axis, ascending, as int64.

    Arguments are those of `sort`.

    Derivative:
        Positions have none.
    Cost:
        As `sort`.

    >>> pb.function(lambda x: pb.argsort(x))(np.array([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    h, at = _operand(x, axis, "argsort")
    return moveaxis(_positions(_last(h, at), descending, "argsort"), -1, at)


def top_k(x: Any, k: int, /, *, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """The k largest elements along an axis, the largest first, and their positions.

    Args:
        x: any elements.
        k: the number of elements, at most the size of the axis.
        axis: by default the last one.
        largest: False for the smallest elements, in ascending order.
    Derivative:
        For the values, that of reading each at its original position.
    Cost:
        As `sort` of all elements.

    >>> values, places = pb.function(lambda x: pb.top_k(x, 2))(np.array([3.0, 1.0, 2.0]))
    >>> values.tolist(), places.tolist()
    ([3.0, 2.0], [0, 2])
    """
    h, at = _operand(x, axis, "top_k")
    extent = h.extents[at]
    whole: object = k
    if isinstance(whole, bool) or not isinstance(whole, int) or not 0 <= whole <= (extent.constant or whole):
        raise ShapeError(
            "E104",
            f"top_k: {k!r} of {counted(extent, 'element')}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="a number of elements, at most as many as the axis has",
        )
    rows = _last(h, at)
    tracer = current()
    tracer.require(cond(">=", extent - k))
    places = _positions(rows, largest, "top_k")
    first = view((*places.extents[:-1], as_index(k)), types.i64, places.element, user_position(), "places")
    return moveaxis(_ordered(rows, first, "top_k"), -1, at), moveaxis(first, -1, at)


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Array:
    """The insertion positions of x2 in the sorted x1, by bisection.

    Args:
        x1: a vector in ascending order, or in any order with a `sorter`.
        x2: any elements of the same type.
        side: "left" for the first position that keeps the order, "right" for the last.
        sorter: the positions that sort x1, as from `argsort`.
    Returns:
        int64 in the shape of x2: the number of elements of x1 that are less, or with "right" not larger.
    Derivative:
        Positions have none.
    Cost:
        log₂ n comparisons for each element of x2.

    >>> pb.function(lambda x, v: pb.searchsorted(x, v))(np.array([1.0, 2.0, 3.0]), np.array([2.0, 9.0])).tolist()
    [1, 3]
    """
    position = user_position()
    h, v = as_array(x1, "searchsorted"), as_array(x2, "searchsorted")
    if h.rank != 1 or side not in ("left", "right"):
        raise ShapeError(
            "E104",
            f"searchsorted: side {side!r} of an array with {counted(h.rank, 'axis', 'axes')}",
            position=position,
            facts=[describe(h, "x1")],
            remedy='elements along one axis, and "left" or "right"',
        )
    ordered = h if sorter is None else take(h, sorter)
    test = "less" if side == "left" else "less_equal"

    def rule(indices: Indices) -> ir.Scalar:
        k = Var("k", ordered.extents[0])
        element, wanted = scalar(ordered.element((as_index(k),))), scalar(v.element(indices))
        before = elementwise(test, element, wanted)
        if wanted.settled.is_floating:  # NaN is ordered last
            unordered = elementwise("isnan", wanted)
            if side == "left":
                ordinary = elementwise("logical_not", elementwise("isnan", element))
                unordered = elementwise("logical_and", unordered, ordinary)
            before = elementwise("logical_or", before, unordered)
        return expr.reduce("search", (k,), before.element())

    return emit(v.extents, rule, "searchsorted", position)


def median(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The median along an axis or of all; the mean of the middle two for an even number. NaN propagates.

    Cost:
        As `sort`.

    >>> pb.function(lambda x: pb.median(x))(np.array([5.0, 1.0, 2.0, 4.0])).item()
    3.0
    """
    return _from_sorted(
        x,
        axis,
        keepdims,
        "median",
        lambda s, n: elementwise(
            "multiply", 0.5, elementwise("add", subscript(s, (..., (n - 1) // 2)), subscript(s, (..., n // 2)))
        ),
    )


def quantile(x: Any, q: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The q-quantile along an axis or of all elements, with linear interpolation.

    q is from 0 for the smallest to 1 for the largest element. The result is NaN if any element is.

    Args:
        x: floating elements.
        q: a number from 0 to 1, or an array of them, whose axes come first in the result.
        axis: an axis; None for all elements.
        keepdims: whether to keep reduced axes with size 1.
    Derivative:
        That of the linear interpolation between the two elements around q (n - 1).
    Cost:
        As `sort`, and a few operations for each quantile.

    >>> pb.function(lambda x: pb.quantile(x, 0.25))(np.array([5.0, 1.0, 2.0, 4.0])).item()
    1.75
    """
    share = as_array(q, "quantile")

    def one(s: Array, n: Any, at: Array) -> Array:
        place = elementwise("multiply", at, elementwise("subtract", convert(n, s.settled), 1))
        low = clip(convert(elementwise("floor", place), "int64"), 0, n - 1)
        high = elementwise("minimum", elementwise("add", low, 1), n - 1)
        a, b = subscript(s, (..., low)), subscript(s, (..., high))
        part = elementwise("subtract", place, convert(low, s.settled))
        return elementwise("add", a, elementwise("multiply", part, elementwise("subtract", b, a)))

    def every(s: Array, n: Any) -> Array:
        shape = tuple(map(shape_value, share.extents))
        found: Array = build(shape, lambda *i: one(s, n, subscript(share, i))) if shape else one(s, n, share)
        return found

    return _from_sorted(x, axis, keepdims, "quantile", every, share.rank)


def _from_sorted(
    x: Any, axis: int | None, keepdims: bool, what: str, read: Callable[[Array, Any], Array], lead: int = 0
) -> Array:
    """Evaluate `read` on the sorted elements along an axis, or of all; NaN if any is."""
    h = as_array(x, what)
    if not h.settled.is_floating:
        raise DTypeError(
            "E121",
            f"{what} takes floating elements, not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy='convert with `astype("float64")` first',
        )
    rank, flat = h.rank, h if axis is not None else reshape(h, (-1,))
    (at,) = normal_axes(flat, 0 if axis is None else axis, what)
    if flat.extents[at].constant == 0:
        raise empty_error(what)
    rows = sort(flat, axis=at) if at == flat.rank - 1 else sort(moveaxis(flat, at, -1))
    n = shape_value(rows.extents[-1])
    found = read(rows, n)
    greatest = subscript(rows, (..., n - 1))
    out = choose(elementwise("isnan", greatest), greatest, found)
    gone = tuple(lead + a for a in (range(rank) if axis is None else (at,)))
    return expand_dims(out, gone) if keepdims else out


def histogram(
    x: Any, bins: Any = 10, range: Any = None, *, weights: Any = None, density: bool = False
) -> tuple[Array, Array]:
    """Count the elements in each of several intervals; return the counts and the interval ends.

    Each interval contains its lower end, and the last one also its upper end.

    Args:
        x: numbers, of any shape.
        bins: the number of intervals of equal width, or an array with their ends in order.
        range: the lowest and highest end; by default the smallest and largest element.
        weights: the weight of each element, in the shape of x; 1 by default.
        density: whether to divide by the total and the widths, so that the area is 1.
    Returns:
        The counts (int64, or the type of the weights; floating with `density`), and one more end than counts.
    Derivative:
        With respect to the weights, for weighted counts; plain counts have none.
    Cost:
        A bisection among the ends and an addition for each element.

    >>> counts, ends = pb.function(lambda x: pb.histogram(x, 2))(np.array([0.0, 1.0, 1.5, 2.0]))
    >>> counts.tolist(), ends.tolist()
    ([1, 3], [0.0, 1.0, 2.0])
    """
    h = reshape(as_array(x, "histogram"), (-1,))
    if isinstance(bins, int) and not isinstance(bins, bool):
        low, high = range if range is not None else (least(h), largest(h))
        same = elementwise("equal", low, high)
        wide = h.settled if h.settled.is_floating else types.f64
        low, high = (
            choose(same, elementwise("add", convert(end, wide), by), convert(end, wide))
            for end, by in ((low, -0.5), (high, 0.5))
        )
        ends = linspace(low, high, bins + 1)
    else:
        ends = as_array(bins, "histogram")
    if ends.rank != 1:
        raise ShapeError(
            "E104",
            f"histogram: bins is a number of intervals or one axis of ends, not {type_text(ends)}",
            position=user_position(),
        )
    h = convert(h, ends.settled)
    count = shape_value(ends.extents[0]) - 1
    place = elementwise("subtract", searchsorted(ends, h, side="right"), 1)
    place = choose(elementwise("equal", h, subscript(ends, count)), count - 1, place)
    counts = _tallied(place, weights if weights is None else reshape(as_array(weights, "histogram"), (-1,)), count)
    if density:
        share = convert(counts, ends.settled)
        width = elementwise("subtract", subscript(ends, slice(1, None)), subscript(ends, slice(None, -1)))
        counts = elementwise("divide", elementwise("divide", share, total(share)), width)
    return counts, ends


def bincount(x: Any, /, length: Any, *, weights: Any = None) -> Array:
    """Count occurrences of the numbers 0, 1, .. length - 1; others are ignored.

    Args:
        x: integers along one axis.
        length: the number of counted integers, an int or dim.
        weights: the weight of each element; 1 by default.
    Derivative:
        With respect to the weights, for weighted counts; plain counts have none.
    Cost:
        An addition for each element.

    >>> pb.function(lambda x: pb.bincount(x, 3))(np.array([2, 0, 2])).tolist()
    [1, 0, 2]
    """
    h = as_array(x, "bincount")
    if h.rank != 1 or not h.settled.is_integer:
        raise DTypeError(
            "E121",
            f"bincount takes integers along one axis, not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "array")],
        )
    return _tallied(h, weights, shape_value(extent_of(length, "bincount")))


def _tallied(places: Array, weights: Any, count: Any) -> Array:
    """The sum of the weights at each of `count` positions."""
    n = shape_value(places.extents[0])
    one = convert(1, types.i64)
    weight: Callable[[Any], Array] = partial(subscript, as_array(weights)) if weights is not None else lambda j: one
    counted: Array = build(
        count, lambda i: sum_over(n, lambda j: choose(elementwise("equal", subscript(places, j), i), weight(j), 0))
    )
    return counted


def _last(h: Array, at: int) -> Array:
    return h if at == h.rank - 1 else moveaxis(h, at, -1)


def _operand(x: Any, axis: Any, what: str) -> tuple[Array, int]:
    """The array to sort, and the axis."""
    h = as_array(x, what)
    if h.rank == 0:
        raise ShapeError(
            "E104",
            f"{what}: a number has no axis to be put in order along",
            position=user_position(),
            facts=[describe(h, "array")],
        )
    return h, normal_axes(h, axis, what)[0]


def _positions(rows: Array, descending: bool, what: str) -> Array:
    """The positions that sort the last axis."""
    tracer = current()
    position = user_position()
    key = rows
    if descending:
        key = elementwise(
            "bitwise_invert" if rows.settled.is_integer else "logical_not" if rows.settled.is_bool else "negative", rows
        )
    source = ref_of(key)
    extent = rows.extents[-1]
    out = ir.Ref(assigned_name(position) or what, types.i64, rows.extents, (ZERO_INDEX, extent))
    variables = axes_for(rows.extents)
    value = tracer.read(source, tuple(map(as_index, variables)))
    where: tuple[Position, ...] = () if position is None else (position,)
    tracer.emit(ir.Sort(out, variables, value, "positions", where), tracer.settle(source))
    return from_ref(out)


def _ordered(rows: Array, places: Array, what: str) -> Array:
    """The elements at these positions along the last axis."""
    extent = rows.extents[-1]

    def rule(indices: Indices) -> ir.Scalar:
        return rows.element((*indices[:-1], expr.data_index(places.element(indices), extent)))

    return emit(places.extents, rule, what)
