"""Rearrangement of arrays: pad, split, diag, kron, meshgrid, swapaxes, broadcast_arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from pullback.arrays.by_parts import bilinear, by_parts, each_by_parts
from pullback.arrays.complex_parts import as_complex, pair
from pullback.arrays.composed import diagonal
from pullback.arrays.creation import arange
from pullback.arrays.elementwise import elementwise
from pullback.arrays.manipulation import broadcast_to, disjoint, expand_dims, permute_dims, reshape
from pullback.arrays.reduction import normal_axes
from pullback.arrays.subscript import subscript
from pullback.errors import DTypeError, ShapeError, counted
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, as_index, cond, divide_exactly, prove, prove_nonnegative
from pullback.source import user_position
from pullback.tracing.arithmetic import broadcast_extents, common_dtype
from pullback.tracing.array import Array, Indices, from_index, shape_text, shape_value, twin, type_text
from pullback.tracing.complex_array import is_complex
from pullback.tracing.making import as_array, describe, extent_of, view
from pullback.tracing.tracer import current

Mode = Literal["constant", "edge", "reflect", "symmetric", "wrap"]


@by_parts
def swapaxes(x: Any, axis1: int, axis2: int, /) -> Array:
    """Exchange two axes.

    >>> pb.function(lambda x: pb.swapaxes(x, 0, 2))(np.zeros((2, 3, 4))).shape
    (4, 3, 2)
    """
    h = as_array(x, "swapaxes")
    (a,), (b,) = normal_axes(h, axis1, "swapaxes"), normal_axes(h, axis2, "swapaxes")
    order = list(range(h.rank))
    order[a], order[b] = b, a
    return permute_dims(h, order)


def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The common shape to which arrays of these shapes broadcast.

    >>> pb.broadcast_shapes((2, 1), (3,), ())
    (2, 3)
    """
    if all(isinstance(e, int) for s in shapes for e in s):
        return np.broadcast_shapes(*shapes)
    places = [[extent_of(e, "broadcast_shapes") for e in s] for s in shapes]
    handles = [view(s, current().default_float, lambda _: expr.zero(current().default_float)) for s in places]
    return tuple(map(shape_value, broadcast_extents("broadcast_shapes", handles, user_position())))


@each_by_parts
def broadcast_arrays(*arrays: Any) -> tuple[Array, ...]:
    """Broadcast the arrays against each other to their common shape.

    >>> @pb.function
    ... def both(x, y):
    ...     return pb.broadcast_arrays(x, y)[1]
    >>> both(np.zeros((2, 1)), np.arange(3)).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    handles: list[Array] = [as_array(a, "broadcast_arrays") for a in arrays]
    if not handles:
        return ()
    shape = tuple(map(from_index, broadcast_extents("broadcast_arrays", handles, user_position())))
    return tuple(broadcast_to(h, shape) for h in handles)


@each_by_parts
def meshgrid(*arrays: Any, indexing: Literal["xy", "ij"] = "xy") -> tuple[Array, ...]:
    """Coordinate arrays of a grid, one per vector, each varying along its own axis.

    Args:
        arrays: vectors, or numbers; each keeps its element type.
        indexing: "ij": axis k of the grid belongs to vector k. "xy": the first two axes are exchanged, as in pictures.

    >>> @pb.function
    ... def rows(x, y):
    ...     return pb.meshgrid(x, y, indexing="ij")[0]
    >>> rows(np.arange(2), np.arange(3)).tolist()
    [[0, 0, 0], [1, 1, 1]]
    """
    handles: list[Array] = [as_array(a, "meshgrid") for a in arrays]
    if indexing not in ("xy", "ij"):
        raise ShapeError("E104", f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}", position=user_position())
    for h in handles:
        if h.rank > 1:
            raise ShapeError(
                "E104",
                f"meshgrid takes vectors, not {type_text(h)}",
                position=user_position(),
                facts=[describe(h, "array")],
            )
    if not handles:
        return ()
    order = list(range(len(handles)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    shape = [handles[k].extents[0] if handles[k].rank else as_index(1) for k in order]

    def one(k: int) -> Array:
        h, at = handles[k], order.index(k)
        target = h.settled
        return view(shape, target, lambda i: h.element((i[at],) if h.rank else (), target), user_position(), h.name)

    return tuple(one(k) for k in range(len(handles)))


@by_parts
def split(x: Any, indices_or_sections: Any, /, axis: int = 0) -> list[Array]:
    """Split an array along an axis into a number of equal parts, or at positions.

    Args:
        x: array.
        indices_or_sections: an int: the number of equal parts, which must divide the axis. A list or tuple of
            positions: part k ends at position k, and the last part at the end of the axis.
        axis: by default the first.
    Raises:
        ShapeError: [E104] the size is not divisible. [E103] A position is not known to be within the axis.

    >>> @pb.function
    ... def middle(x):
    ...     return pb.split(x, [1, 3])[1]
    >>> middle(np.arange(5)).tolist()
    [1, 2]
    """
    h = as_array(x, "split")
    (at,) = normal_axes(h, axis, "split")
    extent = h.extents[at]
    if isinstance(indices_or_sections, list | tuple):
        bounds = [extent_of(e, "split") for e in indices_or_sections]
        bounds = [extent + b if b.constant is not None and b.constant < 0 else b for b in bounds]
    else:
        parts = indices_or_sections
        if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
            raise ShapeError(
                "E104", f"split: {parts!r} parts", position=user_position(), remedy="an int above 0, or places"
            )
        share = divide_exactly(extent, as_index(parts))
        if share is None:
            raise ShapeError(
                "E104",
                f"split: axis {at} of size {extent} has no {parts} equal parts",
                position=user_position(),
                facts=[describe(h, "array")],
                remedy=_unequal(extent, parts),
            )
        bounds = [share * k for k in range(1, parts)]
    edges = [ZERO_INDEX, *bounds, extent]
    lead = (slice(None),) * at
    return [subscript(h, (*lead, slice(from_index(a), from_index(b)))) for a, b in pairwise(edges)]


def _unequal(extent: Index, parts: int) -> str:
    """The remedy for an uneven split: the cuts of NumPy's `array_split`, where the first parts are larger."""
    if extent.constant is None:
        return f'state in the annotation that it is divisible, e.g. "{parts}*N", or give the places of the cuts'
    places = np.cumsum([extent.constant // parts + (k < extent.constant % parts) for k in range(parts - 1)]).tolist()
    return f"`pb.split(x, {places})`, as NumPy's `array_split` cuts"


@by_parts
def diag(x: Any, /, k: int = 0) -> Array:
    """Make the matrix with a vector on a diagonal, or read that diagonal of a matrix.

    Args:
        x: a vector or a matrix.
        k: the number of the diagonal, counted upward from the main one.

    >>> pb.function(lambda x: pb.diag(x))(np.array([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    h = as_array(x, "diag")
    if h.rank == 2:
        return diagonal(h, offset=k)
    if h.rank != 1:
        raise ShapeError(
            "E104",
            f"diag takes a vector or a matrix, not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="`pb.diagonal` takes those of a stack of matrices",
        )
    extent = current().extent(h.extents[0] + abs(k), "diag")

    def rule(indices: Indices) -> ir.Scalar:
        i = indices[0] - max(-k, 0)
        inside = [cond("==", indices[1] - indices[0] - k), cond(">=", i), cond(">=", h.extents[0] - 1 - i)]
        return expr.bracket(inside, h.element((i,)))

    return view((extent, extent), h.settled, rule, user_position(), h.name)


@bilinear
def kron(x1: Any, x2: Any, /) -> Array:
    """The Kronecker product: blocks of x2, each times an element of x1.

    >>> pb.function(lambda x, y: pb.kron(x, y))(np.array([1, 10]), np.array([1, 2, 3])).tolist()
    [1, 2, 3, 10, 20, 30]
    """
    a, b = as_array(x1, "kron"), as_array(x2, "kron")
    rank = max(a.rank, b.rank)
    if a.rank < rank:
        a = expand_dims(a, tuple(range(rank - a.rank)))
    if b.rank < rank:
        b = expand_dims(b, tuple(range(rank - b.rank)))
    left = expand_dims(a, tuple(range(1, 2 * rank, 2)))
    right = expand_dims(b, tuple(range(0, 2 * rank, 2)))
    product = elementwise("multiply", left, right)
    return reshape(product, tuple(from_index(e * f) for e, f in zip(a.extents, b.extents))) if rank else product


def vander(x: Any, /, n: Any = None, *, increasing: bool = False) -> Array:
    """Powers of the elements of a vector: column k has power n - 1 - k, or k if increasing.

    >>> pb.function(lambda x: pb.vander(x, 3))(np.array([2.0, 3.0])).tolist()
    [[4.0, 2.0, 1.0], [9.0, 3.0, 1.0]]
    """
    h = as_array(x, "vander")
    if h.rank != 1:
        raise ShapeError(
            "E104", f"vander takes a vector, not {type_text(h)}", position=user_position(), facts=[describe(h, "array")]
        )
    count = h.extents[0] if n is None else extent_of(n, "vander")
    powers = arange(from_index(count), dtype=h.settled)
    if not increasing:
        powers = elementwise("subtract", from_index(count - 1), powers)
    return elementwise("power", expand_dims(h, 1), powers)


# Padding ------------------------------------------------------------------------------------------------------------


def pad(x: Any, pad_width: Any, mode: Mode = "constant", *, constant_values: Any = 0) -> Array:
    """Pad an array before and after its elements along each axis.

    Args:
        x: array.
        pad_width: the number of added elements: one number for all, (before, after) for every axis, or one such pair
            per axis. Numbers are ints, dims or arithmetic on these.
        mode: the added values. "constant": `constant_values`; "edge": the first or last element; "reflect": the
            neighbors in reverse order, without the edge element; "symmetric": the same with the edge element; "wrap":
            elements of the other end.
        constant_values: one number, (before, after) for every axis, or one such pair per axis.
    Returns:
        The array, which is complex if x or the constant is.
    Raises:
        ShapeError: [E104] more elements are reflected or wrapped than exist. If the sizes are unknown at definition,
            the call is refused [E114].

    >>> pb.function(lambda x: pb.pad(x, (2, 1), "reflect"))(np.arange(4)).tolist()
    [2, 1, 0, 1, 2, 3, 2]
    """
    if is_complex(x) or any(map(is_complex, _values(constant_values))):
        z = as_complex(x)
        fills = _each(as_complex, constant_values)
        real = pad(z.real, pad_width, mode, constant_values=_each(lambda v: v.real, fills))
        imag = pad(z.imag, pad_width, mode, constant_values=_each(lambda v: v.imag, fills))
        return pair(real, imag)  # type: ignore[return-value]
    h = twin(as_array(x, "pad"))
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise ShapeError(
            "E104",
            f"pad: there is no mode {mode!r}",
            position=user_position(),
            remedy='"constant", "edge", "reflect", "symmetric" or "wrap"',
        )
    pairs = _pairs(h, _each(lambda v: _one_value(as_array(v, "pad")), constant_values), "values")
    common_dtype("pad", [h, *(v for p in pairs for v in p)], user_position())
    for axis, (before, after) in enumerate(_widths(h, pad_width)):
        if before.constant != 0 or after.constant != 0:
            h = _padded(h, axis, before, after, mode, pairs[axis])
    return h


def _one_value(fill: Array) -> Array:
    if fill.rank:
        raise DTypeError("E121", f"pad takes one value, not {type_text(fill)}", position=user_position())
    return fill


def _each(f: Callable[[Any], Any], x: Any) -> Any:
    """Apply a function to a number, or to each of nested lists."""
    return [_each(f, v) for v in x] if isinstance(x, list | tuple) else f(x)


def _values(x: Any) -> Iterator[Any]:
    """The numbers of nested lists."""
    if isinstance(x, list | tuple):
        for v in x:
            yield from _values(v)
    else:
        yield x


def _pairs(h: Array, given: Any, what: str) -> list[Any]:
    """A pair (before, after) for each axis."""
    shown = given
    if not isinstance(given, list | tuple | np.ndarray):
        given = (given, given)
    pairs = list(given)
    if not any(isinstance(p, list | tuple | np.ndarray) for p in pairs):
        pairs = [pairs] * max(h.rank, 1)
    elif len(pairs) == 1:
        pairs = pairs * h.rank
    pairs = [list(p) * 2 if isinstance(p, list | tuple) and len(p) == 1 else p for p in pairs]
    fits = all(isinstance(p, list | tuple | np.ndarray) and len(p) == 2 for p in pairs)
    if (len(pairs) != h.rank and h.rank) or not fits:
        raise ShapeError(
            "E104",
            f"pad: {what} {shown!r} for an array of {counted(h.rank, 'axis', 'axes')}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="a number, a pair (before, after), or a pair for each axis",
        )
    return pairs


def _widths(h: Array, given: Any) -> list[tuple[Index, Index]]:
    """The widths before and after each axis."""
    pairs = _pairs(h, given, "widths")
    widths = [tuple(extent_of(e, "pad") for e in p) for p in pairs[: h.rank]]
    for e in (e for w in widths for e in w):
        if e.constant is not None and e.constant < 0:
            raise ShapeError("E104", f"pad: a width of {e}", position=user_position(), remedy="a slice cuts off")
    return widths  # type: ignore[return-value]


def _padded(h: Array, axis: int, before: Index, after: Index, mode: Mode, fill: Sequence[Array]) -> Array:
    n = h.extents[axis]
    if mode in ("reflect", "symmetric", "wrap"):
        for width in (before, after):
            _enough(h, axis, width, n - 1 if mode == "reflect" else n, mode)
    extent = current().extent(before + n + after, "pad")
    dtype = h.settled

    def rule(indices: Indices) -> ir.Scalar:
        i = indices[axis] - before
        left, right = -1 - indices[axis] + before, i - n  # the distance outside, from 0
        places = {
            "edge": (ZERO_INDEX, n - 1),
            "reflect": (left + 1, n - 2 - right),
            "symmetric": (left, n - 1 - right),
            "wrap": (n - 1 - left, right),
        }

        def at(place: Index) -> ir.Scalar:
            return h.element((*indices[:axis], place, *indices[axis + 1 :]))

        inside: list[Cond | bool] = []
        inside += [cond(">=", i)] if before.constant != 0 else []
        inside += [cond(">=", n - 1 - i)] if after.constant != 0 else []
        if mode == "constant":
            if all(f.literal is not None and f.literal == 0 for f in fill):
                return expr.bracket(inside, at(i))
            low, high = (expr.cast(f.element((), dtype), dtype) for f in fill)
            outside = low if fill[0] is fill[1] else expr.select(expr.test([cond(">=", left)]), low, high)
            return expr.select(expr.test(inside), at(i), outside)
        parts: list[tuple[list[Cond | bool], ir.Scalar]] = [(inside, at(i))]
        if before.constant != 0:
            parts.append(([cond(">=", left)], at(places[mode][0])))
        if after.constant != 0:
            parts.append(([cond(">=", right)], at(places[mode][1])))
        return disjoint(parts, dtype)

    extents = (*h.extents[:axis], extent, *h.extents[axis + 1 :])
    return view(extents, dtype, rule, user_position(), h.name)


def _enough(h: Array, axis: int, width: Index, most: Index, mode: Mode) -> None:
    """Check, or require of every call, that enough elements exist to reflect."""
    if prove_nonnegative(most - width):
        return
    spare = cond(">=", most - width)
    if spare is False or (most - width).constant is not None:
        raise ShapeError(
            "E104",
            f"pad: {counted(width, 'element')} cannot be added by {mode!r} to axis {axis} of {shape_text(h.extents)}: "
            f"at most {most}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="pad twice",
        )
    if isinstance(spare, Cond) and not prove(spare, current().known):
        current().require(spare)


__all__: Sequence[str] = [
    "broadcast_arrays",
    "broadcast_shapes",
    "diag",
    "kron",
    "meshgrid",
    "pad",
    "split",
    "swapaxes",
    "vander",
]
