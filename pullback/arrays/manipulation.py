"""Moving data: reshape, transpose, broadcast, flip, roll are views; concat and stack make an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.arrays.by_parts import by_parts
from pullback.arrays.reduction import normal_axes, places
from pullback.errors import ShapeError, counted
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Cond, Index, as_index, cond, divide_exactly
from pullback.source import user_position
from pullback.tracing.arithmetic import aligned, broadcast_extents, common_dtype, common_settled
from pullback.tracing.array import Array, Indices, contiguous, shape_text, type_text
from pullback.tracing.making import as_array, describe, emit, extent_of, view
from pullback.tracing.ranges import from_end
from pullback.tracing.tracer import current


def product(extents: Sequence[Index]) -> Index:
    """The number of elements of a shape."""
    total = ONE_INDEX
    for e in extents:
        total = total * e
    return total


@by_parts
def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Array:
    """Reshape in row-major order; one size may be -1.

    With `copy=True` the result is a copy, else a view as in NumPy.

    >>> pb.function(lambda x: pb.reshape(x, (2, 3)))(np.arange(6)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    h = as_array(x, "reshape")
    position = user_position()
    wanted = list(shape) if isinstance(shape, tuple | list) else [shape]
    given = [None if isinstance(e, int) and e == -1 else extent_of(e, "reshape") for e in wanted]
    total = product(h.extents)
    if given.count(None) > 1:
        raise ShapeError("E104", "reshape: only one size may be -1", position=position)
    if None in given:
        others = product([e for e in given if e is not None])
        rest = divide_exactly(total, others)
        if rest is None or others.constant == 0:
            raise ShapeError(
                "E104",
                f"reshape: {counted(total, 'element')} cannot be divided by the other sizes {wanted}",
                position=position,
                facts=[describe(h, "array")],
            )
        given[given.index(None)] = rest
    extents = tuple(e for e in given if e is not None)
    if product(extents) is not total:
        raise ShapeError(
            "E104",
            f"reshape: {shape_text(h.extents)} holds {counted(total, 'element')}, "
            f"{shape_text(extents)} holds {product(extents)}",
            position=position,
            facts=[describe(h, "array")],
            remedy="one size may be -1, which takes what is left",
        )

    parts = _alike(h.extents, extents)

    def rule(indices: Indices) -> ir.Scalar:
        cut = (split(join(indices[new], extents[new]), h.extents[own]) for own, new in parts)
        return h.element(tuple(i for part in cut for i in part))

    base = None if copy else (h, "reshape" if contiguous(h) else "unclear", None)
    return view(extents, h.settled, rule, position, h.name, base)


def _alike(a: Sequence[Index], b: Sequence[Index]) -> list[tuple[slice, slice]]:
    """Match minimal groups of adjacent axes of two shapes with equally many elements."""
    out, i, j = [], 0, 0
    for k in range(1, len(a) + 1):
        own = product(a[:k])
        end = next((m for m in range(j, len(b) + 1) if product(b[:m]) is own), None)
        if end is not None and k < len(a):
            out.append((slice(i, k), slice(j, end)))
            i, j = k, end
    return [*out, (slice(i, None), slice(j, None))]


def join(indices: Sequence[Index], extents: Sequence[Index]) -> Index:
    """The row-major position of an element."""
    flat = ZERO_INDEX
    for i, e in zip(indices, extents):
        flat = flat * e + i
    return flat


def split(flat: Index, extents: Sequence[Index]) -> Indices:
    """The indices of the element at a row-major position."""
    out: list[Index] = []
    for axis, e in enumerate(extents):
        stride = product(extents[axis + 1 :])
        if e.constant == 1:
            out.append(ZERO_INDEX)
        elif axis == 0:
            out.append(flat // stride)
        else:
            out.append(flat // stride % e)
    return tuple(out)


@by_parts
def permute_dims(x: Any, /, axes: Sequence[int]) -> Array:
    """Axis k of the result is axis axes[k] of x.

    >>> pb.function(lambda x: pb.permute_dims(x, (1, 2, 0)))(np.zeros((2, 3, 4))).shape
    (3, 4, 2)
    """
    h = as_array(x, "permute_dims")
    order = normal_axes(h, tuple(axes), "permute_dims")
    if len(order) != h.rank:
        raise ShapeError(
            "E104",
            f"permute_dims: {counted(len(order), 'axis', 'axes')} for an array of {h.rank}",
            position=user_position(),
            facts=[describe(h, "array")],
        )

    def rule(indices: Indices) -> ir.Scalar:
        own = [ZERO_INDEX] * h.rank
        for a, i in zip(order, indices):
            own[a] = i
        return h.element(tuple(own))

    return view([h.extents[a] for a in order], h.settled, rule, user_position(), h.name, (h, "permute", order))


@by_parts
def matrix_transpose(x: Any, /) -> Array:
    """Exchange the last two axes.

    >>> pb.function(lambda x: pb.matrix_transpose(x))(np.array([[1, 2], [3, 4]])).tolist()
    [[1, 3], [2, 4]]
    """
    h = as_array(x, "matrix_transpose")
    if h.rank < 2:
        raise ShapeError(
            "E104",
            "matrix_transpose: the array has fewer than two axes",
            position=user_position(),
            facts=[describe(h, "array")],
        )
    return permute_dims(h, (*range(h.rank - 2), h.rank - 1, h.rank - 2))


def transpose(h: Array) -> Array:
    """Return `x.T`, which the array API defines only for matrices."""
    if h.rank != 2:
        raise ShapeError(
            "E104",
            f"x.T is the transpose of a matrix, and {h.name or 'the array'} has {counted(h.rank, 'axis', 'axes')}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="`x.mT` exchanges the last two axes, `x.transpose()` reverses all",
        )
    return permute_dims(h, (1, 0))


@by_parts
def moveaxis(x: Any, source: Any, destination: Any, /) -> Array:
    """Move axes to other positions; the rest stay in order.

    >>> pb.function(lambda x: pb.moveaxis(x, 0, 2))(np.zeros((2, 3, 4))).shape
    (3, 4, 2)
    """
    h = as_array(x, "moveaxis")
    source, destination = normal_axes(h, source, "moveaxis"), normal_axes(h, destination, "moveaxis")
    rest = iter(a for a in range(h.rank) if a not in source)
    placed = dict(zip(destination, source))
    return permute_dims(h, [placed[a] if a in placed else next(rest) for a in range(h.rank)])


@by_parts
def expand_dims(x: Any, /, axis: Any = 0) -> Array:
    """Insert axes of size 1 at these positions of the result.

    >>> pb.function(lambda x: pb.expand_dims(x, axis=(0, 2)))(np.arange(2)).tolist()
    [[[0], [1]]]
    """
    h = as_array(x, "expand_dims")
    rank = h.rank + (len(axis) if isinstance(axis, tuple | list) else 1)
    added = places(rank, axis, "expand_dims", h)
    own = [a for a in range(rank) if a not in added]
    extents = [ONE_INDEX] * rank
    for a, e in zip(own, h.extents):
        extents[a] = e
    rule = lambda i: h.element(tuple(i[a] for a in own))
    return view(extents, h.settled, rule, user_position(), h.name, (h, "reshape", None))


@by_parts
def squeeze(x: Any, /, axis: Any) -> Array:
    """Remove the given axes, which must have size 1.

    >>> pb.function(lambda x: pb.squeeze(pb.expand_dims(x, axis=1), axis=1))(np.arange(2)).tolist()
    [0, 1]
    """
    h = as_array(x, "squeeze")
    axes = normal_axes(h, axis, "squeeze")
    for a in axes:
        if h.extents[a].constant != 1:
            raise ShapeError(
                "E104",
                f"squeeze: axis {a} has size {h.extents[a]}, not 1",
                position=user_position(),
                facts=[describe(h, "array")],
                remedy="`reshape` joins axes, `x[0]` takes one row",
            )
    kept = [a for a in range(h.rank) if a not in axes]

    def rule(indices: Indices) -> ir.Scalar:
        own = [ZERO_INDEX] * h.rank
        for a, i in zip(kept, indices):
            own[a] = i
        return h.element(tuple(own))

    return view([h.extents[a] for a in kept], h.settled, rule, user_position(), h.name, (h, "reshape", None))


@by_parts
def broadcast_to(x: Any, /, shape: Any) -> Array:
    """Broadcast `x` to a shape: repeat axes of size 1 and new leading axes.

    >>> pb.function(lambda x: pb.broadcast_to(x, (2, 3)))(np.arange(3)).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    h = as_array(x, "broadcast_to")
    wanted = tuple(extent_of(e, "broadcast_to") for e in (shape if isinstance(shape, tuple | list) else (shape,)))
    target = view(wanted, h.settled, lambda i: expr.zero(h.settled))
    if broadcast_extents("broadcast_to", [h, target], user_position()) != wanted:
        raise ShapeError(
            "E101",
            f"broadcast_to: {shape_text(h.extents)} does not broadcast to {shape_text(wanted)}",
            position=user_position(),
            facts=[describe(h, "array")],
        )
    return view(wanted, h.settled, lambda i: aligned(h, i), user_position(), h.name, (h, "read-only", None))


@by_parts
def flip(x: Any, /, axis: Any = None) -> Array:
    """Reverse the order of elements along all or the given axes.

    >>> pb.function(lambda x: pb.flip(x))(np.arange(3)).tolist()
    [2, 1, 0]
    """
    h = as_array(x, "flip")
    axes = normal_axes(h, axis, "flip")
    rule = lambda indices: h.element(tuple(h.extents[a] - 1 - i if a in axes else i for a, i in enumerate(indices)))
    return view(h.extents, h.settled, rule, user_position(), h.name, (h, "flip", axes))


@by_parts
def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Array:
    """Roll elements up by `shift` along an axis, cyclically.

    >>> pb.function(lambda x: pb.roll(x, 1))(np.arange(4)).tolist()
    [3, 0, 1, 2]
    """
    h = as_array(x, "roll")
    if axis is None:
        return reshape(roll(reshape(h, (-1,)), shift, axis=0), tuple(h.extents))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    by = [extent_of(s, "roll") for s in (shift if isinstance(shift, tuple | list) else (shift,) * len(given))]
    if len(by) != len(given):
        raise ShapeError(
            "E104",
            f"roll: {counted(len(by), 'shift')} for {counted(len(given), 'axis', 'axes')}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="one shift for each axis, or one for all",
        )
    shifts = [ZERO_INDEX] * h.rank
    for a, s in zip(given, by):  # an axis given twice moves by the sum
        (at,) = normal_axes(h, a, "roll")
        shifts[at] = shifts[at] + s
    rule = lambda own: h.element(tuple((i - s) % e if s.terms else i for i, s, e in zip(own, shifts, h.extents)))
    return view(h.extents, h.settled, rule, user_position(), h.name)


@by_parts
def concat(arrays: Sequence[Any], /, axis: int | None = 0) -> Array:
    """Join arrays along an axis; None joins them flattened.

    >>> pb.function(lambda x, y: pb.concat([x, y]))(np.arange(2), np.arange(3)).tolist()
    [0, 1, 0, 1, 2]
    """
    handles: list[Array] = [as_array(a, "concat") for a in arrays]
    position = user_position()
    if not handles:
        raise ShapeError("E104", "concat: no arrays were given", position=position, remedy="a list of at least one")
    if axis is None:
        handles, axis = [reshape(h, (-1,)) for h in handles], 0
    first = handles[0]
    (at,) = normal_axes(first, axis, "concat")
    for h in handles[1:]:
        same = h.rank == first.rank and all(a == at or e is f for a, (e, f) in enumerate(zip(h.extents, first.extents)))
        if not same:
            raise ShapeError(
                "E101",
                f"concat: {shape_text(first.extents)} and {shape_text(h.extents)} differ in an axis other than {at}",
                position=position,
                facts=[describe(first, "first"), describe(h, "other")],
                remedy="give equal dims one name in the annotations, or join along another axis",
            )
    dtype = common_dtype("concat", handles, position) or common_settled(*handles)
    starts = [ZERO_INDEX]
    for h in handles:
        starts.append(starts[-1] + h.extents[at])

    def rule(indices: Indices) -> ir.Scalar:
        i = indices[at]
        parts: list[tuple[list[Cond | bool], ir.Scalar]] = []
        for k, h in enumerate(handles):
            conds: list[Cond | bool] = [cond(">=", i - starts[k]), cond(">=", starts[k + 1] - 1 - i)]
            own = (*indices[:at], i - starts[k], *indices[at + 1 :])
            parts.append((conds, expr.cast(h.element(own, dtype), dtype)))
        return disjoint(parts, dtype)

    return emit((*first.extents[:at], starts[-1], *first.extents[at + 1 :]), rule, "concat", position)


def disjoint(parts: Sequence[tuple[list[Cond | bool], ir.Scalar]], dtype: Any) -> ir.Scalar:
    """The part whose conditions hold; the conditions of the parts are disjoint."""
    if not dtype.is_bool:
        return expr.add(*(expr.bracket(c, e) for c, e in parts))
    out = expr.zero(dtype)
    for conds, e in reversed(parts):
        out = expr.select(expr.test(conds), e, out)
    return out


@by_parts
def stack(arrays: Sequence[Any], /, axis: int = 0) -> Array:
    """Stack arrays of one shape along a new axis; scalars make a vector.

    >>> pb.function(lambda x: pb.stack([x, x + 1]))(np.arange(3)).tolist()
    [[0, 1, 2], [1, 2, 3]]
    """
    handles: list[Array] = [as_array(a, "stack") for a in arrays]
    position = user_position()
    if not handles:
        raise ShapeError("E104", "stack: no arrays were given", position=position, remedy="a list of at least one")
    first = handles[0]
    for h in handles[1:]:
        if h.extents != first.extents:
            raise ShapeError(
                "E101",
                f"stack: shapes {shape_text(first.extents)} and {shape_text(h.extents)} differ",
                position=position,
                facts=[describe(first, "first"), describe(h, "other")],
                remedy="`pb.concat` joins arrays of different sizes along an axis they have",
            )
    if not -first.rank - 1 <= axis <= first.rank:
        raise ShapeError(
            "E104",
            f"stack: axis {axis} of an array that has {counted(first.rank + 1, 'axis', 'axes')} with the new one",
            position=position,
            facts=[describe(first, "first")],
            remedy=f"an int from 0 to {first.rank}, or from the end as -1",
        )
    at = axis % (first.rank + 1)
    dtype = common_dtype("stack", handles, position) or common_settled(*handles)

    def rule(indices: Indices) -> ir.Scalar:
        own = (*indices[:at], *indices[at + 1 :])
        return disjoint(
            [([cond("==", indices[at] - k)], expr.cast(h.element(own, dtype), dtype)) for k, h in enumerate(handles)],
            dtype,
        )

    return emit((*first.extents[:at], as_index(len(handles)), *first.extents[at:]), rule, "stack", position)


@by_parts
def unstack(x: Any, /, axis: int = 0) -> tuple[Array, ...]:
    """The slices of x along an axis of fixed size.

    >>> pb.function(lambda x: pb.unstack(pb.reshape(x, (2, 2)))[1])(np.arange(4)).tolist()
    [2, 3]
    """
    h = as_array(x, "unstack")
    (at,) = normal_axes(h, axis, "unstack")
    return tuple(as_array(row) for row in moveaxis(h, at, 0))


@by_parts
def take(x: Any, indices: Any, /, axis: int | None = None) -> Array:
    """Elements or slices of x at integer positions along an axis.

    >>> pb.function(lambda x, i: pb.take(x, i))(np.arange(10, 15), np.array([3, 0])).tolist()
    [13, 10]
    """
    h = as_array(x, "take")
    if axis is None and h.rank != 1:
        raise ShapeError(
            "E104",
            "take: the axis is needed for an array of more than one",
            position=user_position(),
            facts=[describe(h, "array")],
        )
    (at,) = normal_axes(h, axis or 0, "take")
    from pullback.arrays.subscript import subscript

    return subscript(h, (*(slice(None),) * at, indices))


@by_parts
def take_along_axis(x: Any, indices: Any, /, axis: int = -1) -> Array:
    """Elements of x at positions along an axis, given by an integer array of the same rank.

    >>> pb.function(lambda x, i: pb.take_along_axis(x, i))(np.array([[1, 2], [3, 4]]), np.array([[1], [0]])).tolist()
    [[2], [3]]
    """
    h, i = as_array(x, "take_along_axis"), as_array(indices, "take_along_axis")
    position = user_position()
    (at,) = normal_axes(h, axis, "take_along_axis")
    if i.rank != h.rank or not i.settled.is_integer:
        raise ShapeError(
            "E104",
            f"take_along_axis takes integers of as many axes as the array has, {h.rank}, not {type_text(i)}",
            position=position,
            facts=[describe(h, "array"), describe(i, "indices")],
        )
    column = view([ONE_INDEX if a == at else e for a, e in enumerate(h.extents)], h.settled, h.element, None, h.name)
    extents = broadcast_extents("take_along_axis", [column, i], position)

    def rule(own: Indices) -> ir.Scalar:
        full = [ZERO_INDEX if e.constant == 1 else k for k, e in zip(own, h.extents)]
        full[at] = from_end(aligned(i, own), h.extents[at])
        return h.element(tuple(full))

    return view(extents, h.settled, rule, position, h.name)


@by_parts
def repeat(x: Any, repeats: Any, /, axis: int | None = None) -> Array:
    """Repeat every slice along the axis `repeats` times, or by a list with a number per slice.

    None repeats the elements of x flattened.

    >>> pb.function(lambda x: pb.repeat(x, 2, axis=0))(np.arange(3)).tolist()
    [0, 0, 1, 1, 2, 2]
    """
    h = as_array(x, "repeat")
    if axis is None:
        h, axis = reshape(h, (-1,)), 0
    (at,) = normal_axes(h, axis, "repeat")
    if isinstance(repeats, list | tuple | np.ndarray) and np.ndim(repeats):
        return _repeated_each(h, at, repeats)
    times = extent_of(repeats, "repeat")
    extents = (*h.extents[:at], h.extents[at] * times, *h.extents[at + 1 :])
    rule = lambda i: h.element((*i[:at], i[at] // times, *i[at + 1 :]))
    return view(_checked(extents, "repeat"), h.settled, rule, user_position(), h.name)


def _repeated_each(h: Array, at: int, repeats: Any) -> Array:
    """Repeat slice k as often as number k of the list, which is known at the definition."""
    counts, n = np.asarray(repeats), h.extents[at].constant
    if n is None or counts.dtype.kind not in "iu" or counts.shape not in ((n,), (1,)) or np.any(counts < 0):
        raise ShapeError(
            "E104",
            f"repeat: {counted(counts.size, 'number')} for {counted(h.extents[at], 'slice')}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="one number of times, or one for each slice of an axis whose size is a number",
        )
    return take(h, np.repeat(np.arange(n), counts), axis=at)


def _checked(extents: Sequence[Index], what: str) -> list[Index]:
    return [current().extent(e, what) for e in extents]


@by_parts
def tile(x: Any, repetitions: Sequence[Any], /) -> Array:
    """Repeat `x` side by side, a number of times along each axis.

    >>> pb.function(lambda x: pb.tile(x, (2,)))(np.arange(3)).tolist()
    [0, 1, 2, 0, 1, 2]
    """
    h = as_array(x, "tile")
    counts = [extent_of(r, "tile") for r in (repetitions if isinstance(repetitions, tuple | list) else (repetitions,))]
    while len(counts) < h.rank:
        counts.insert(0, ONE_INDEX)
    own = (*(ONE_INDEX,) * (len(counts) - h.rank), *h.extents)
    rule = lambda i: aligned(h, tuple(k % e for k, e in zip(i, own)))
    return view(_checked([c * e for c, e in zip(counts, own)], "tile"), h.settled, rule, user_position(), h.name)
