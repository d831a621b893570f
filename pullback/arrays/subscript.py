"""Subscripts: elements, rows, slices, new axes and gathers, as views without a statement."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from pullback.errors import DTypeError, ShapeError, TraceError, counted
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Index, as_index, cond, prove, prove_nonnegative
from pullback.records import dataclass
from pullback.source import Position, called, user_position
from pullback.tracing.arithmetic import aligned, broadcast_extents, common_dtype, index_of
from pullback.tracing.array import Array, Indices, shape_text, type_text
from pullback.tracing.making import as_array, axes_text, describe, extent_of, from_number, scalar, view
from pullback.tracing.ranges import from_end
from pullback.tracing.tracer import current


@dataclass(frozen=True)
class Selection:
    """The selection of a key.

    Attributes:
        parts: per axis of the array an index, (start, step, axis of the result) of a slice, or an array of indices.
        extents: the sizes of the axes that slices and None make.
        joint: the axis of the result at which the axes of index arrays begin; None without index arrays.
    """

    parts: tuple[Any, ...]
    extents: tuple[Index, ...]
    joint: int | None


def selection(h: Array, key: object, position: Position | None) -> Selection:
    """Return the selection of h[key]."""
    if h.weak is not None:
        raise ShapeError(
            "E104",
            f"{type_text(h)} has no axes to index",
            position=position,
            remedy='annotate an array: `Float64[Array, "N"]`',
        )
    extents: list[Index] = []
    parts: list[Any] = []
    singles: list[tuple[int, int]] = []  # positions of indices and gathers, in the key and in the result
    for place, item in enumerate(_expand(h, key, position)):
        if item is None:
            extents.append(as_index(1))
        elif isinstance(item, slice):
            start, step, extent = _slice(h, len(parts), item, position)
            parts.append((start, step, len(extents)))
            extents.append(extent)
        elif not isinstance(item, EllipsisType):
            singles.append((place, len(extents)))
            parts.append(_index(h, len(parts), item, position))
    joint = _joint_place(singles) if any(isinstance(p, Array) for p in parts) else None
    return Selection(tuple(parts), tuple(extents), joint)


def subscript(h: Array, key: object) -> Array:
    """Return `h[key]`."""
    position = user_position()
    found = selection(h, key, position)
    parts, extents = found.parts, found.extents
    if found.joint is not None:
        return _gather(h, parts, extents, found.joint, position)

    def rule(indices: Indices) -> ir.Scalar:
        return h.element(tuple(p if isinstance(p, Index) else p[0] + p[1] * indices[p[2]] for p in parts))

    out = view(extents, h.settled, rule, position, h.name, (h, "subscript", key))
    if extents or _has_dots(key):  # with `...`, it is a view without axes, as in NumPy
        return out
    return scalar(out.element())


def _has_dots(key: object) -> bool:
    return any(isinstance(k, EllipsisType) for k in (key if isinstance(key, tuple) else (key,)))


def _expand(h: Array, key: object, position: Position | None) -> list[Any]:
    """The items of a key, with full slices for missing axes; an ellipsis stays before its slices."""
    items = list(key) if isinstance(key, tuple) else [key]
    used = sum(1 for i in items if i is not None and i is not Ellipsis)
    if used > h.rank:
        raise ShapeError(
            "E104",
            f"{h.name or 'the array'} has {axes_text(h.rank)}, and "
            f"{counted(used, 'index', 'indices')} {'was' if used == 1 else 'were'} given",
            position=position,
            facts=[describe(h, "array")],
            remedy="one index for each axis at most",
        )
    missing = [slice(None)] * (h.rank - used)
    dots = [k for k, i in enumerate(items) if isinstance(i, EllipsisType)]
    if len(dots) > 1:
        raise ShapeError("E104", "an index may hold one `...` only", position=position)
    if dots:
        return [*items[: dots[0] + 1], *missing, *items[dots[0] + 1 :]]
    return items + missing


def _joint_place(singles: Sequence[tuple[int, int]]) -> int:
    """The position of index arrays' axes in the result.

    As in NumPy: their position in the key if they and single indices are adjacent, otherwise the front.
    """
    places = [place for place, _ in singles]
    return singles[0][1] if places == list(range(places[0], places[0] + len(places))) else 0


def _index(h: Array, axis: int, item: object, position: Position | None) -> Any:
    """An index for one axis: an Index, or an array of rank 1 or more for a gather."""
    extent = h.extents[axis]
    if isinstance(item, bool | np.bool_):
        raise DTypeError(
            "E121",
            "an index is an integer, not a bool",
            position=position,
            remedy="`where(mask, x, 0)` keeps the shape; shapes never depend on data",
        )
    i = as_array(item, "index")
    if not i.settled.is_integer:
        remedy = "`where(mask, x, 0)` keeps the shape" if i.settled.is_bool else "convert it with `astype(pb.int64)`"
        raise DTypeError(
            "E121",
            f"an index is an integer, not {type_text(i)}",
            position=position,
            facts=[describe(i, "index")],
            remedy=remedy,
        )
    if i.rank:
        return i
    index = index_of(i)
    if isinstance(item, Array):  # an index of index notation is not counted from the end, even if it is a number
        return index
    return extent + index if index.constant is not None and index.constant < 0 else index


def _gather(h: Array, parts: Sequence[Any], extents: Sequence[Index], at: int, position: Position | None) -> Array:
    """Index `h` with integer arrays; their common shape is at axis `at` of the result."""
    shape = broadcast_extents("index", [p for p in parts if isinstance(p, Array)], position)
    rank = len(shape)

    def rule(indices: Indices) -> ir.Scalar:
        own, rest = indices[at : at + rank], (*indices[:at], *indices[at + rank :])
        full = []
        for p, extent in zip(parts, h.extents):
            if isinstance(p, Index):
                full.append(p)
            elif isinstance(p, Array):
                full.append(from_end(aligned(p, own), extent))
            else:
                full.append(p[0] + p[1] * rest[p[2]])
        return h.element(tuple(full))

    return view((*extents[:at], *shape, *extents[at:]), h.settled, rule, position, h.name)


def _slice(h: Array, axis: int, s: slice, position: Position | None) -> tuple[Index, Index, Index]:
    """The (start, step, size) of a slice; fixed sizes clip as in Python, symbolic bounds need proofs."""
    extent = h.extents[axis]
    step = 1 if s.step is None else s.step
    if isinstance(step, Array) and step.index is not None and step.index.constant is not None:
        step = step.index.constant
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or step == 0:
        raise TraceError(
            "E135",
            "the step of a slice is an int other than 0",
            position=position,
            remedy="`pb.build(n, lambda i: x[i * step])` for one that is not known",
        )
    step = int(step)
    fixed = [None if b is None else extent_of(b, "slice") for b in (s.start, s.stop)]
    if extent.constant is not None and all(b is None or b.constant is not None for b in fixed):
        numbers = [None if b is None else b.constant for b in fixed]
        r = range(*slice(numbers[0], numbers[1], step).indices(extent.constant))
        return as_index(r.start), as_index(step), as_index(len(r))
    start = _bound(fixed[0], extent) if fixed[0] is not None else (as_index(0) if step > 0 else extent - 1)
    stop = _bound(fixed[1], extent) if fixed[1] is not None else (extent if step > 0 else as_index(-1))
    count = (stop - start + (step - 1)) // step if step > 0 else (start - stop + (-step - 1)) // -step
    if count.free or not count.is_dim:
        raise ShapeError(
            "E106",
            f"slice: the size {count} depends on an index",
            position=position,
            facts=[describe(h, "array")],
            remedy="use `build` with a fixed size and `x.at(i, fill=0)`",
        )
    tracer = current()
    tracer.extent(count, "slice")
    first, last = (start, start + (count - 1) * step)
    low, high = (first, last) if step > 0 else (last, first)
    if not low.free:
        for c, bound in (
            (cond(">=", low), "starts at " + str(low)),
            (cond(">=", extent - 1 - high), f"reaches {high}, the last index is {extent - 1}"),
        ):
            if not prove(c, tracer.known):
                raise ShapeError(
                    "E103",
                    f"slice of axis {axis} {bound}: not known to be in range",
                    position=position,
                    facts=[describe(h, "array")],
                    remedy='state the size in the annotation, e.g. "N+3", or read with `x.at(i, fill=0)`',
                )
    return start, as_index(step), count


def _bound(b: Index, extent: Index) -> Index:
    """A bound of a slice; negative numbers count from the end."""
    return extent + b if b.constant is not None and b.constant < 0 else b


def at(h: Array, indices: Sequence[object], fill: object = 0) -> Array:
    """The element at the indices if they are in range, else the fill: x.at(i, j, fill=0)."""
    position = user_position()
    if len(indices) > h.rank:
        raise ShapeError(
            "E104",
            f"{h.name or 'the array'} has {axes_text(h.rank)}, and "
            f"{counted(len(indices), 'index', 'indices')} {'was' if len(indices) == 1 else 'were'} given",
            position=position,
            facts=[describe(h, "array")],
            remedy="one index for each axis at most",
        )
    plain: list[Index] = []
    for axis, item in enumerate(indices):
        if isinstance(item, int | np.integer) and not isinstance(item, bool):
            plain.append(as_index(int(item)))  # negative numbers are outside
            continue
        found = _index(h, axis, item, position)
        if not isinstance(found, Index):
            raise ShapeError(
                "E104", "at takes single indices", position=position, remedy="use `build` and index with its variables"
            )
        plain.append(found)
    conds: list[Cond | bool] = []
    for i, extent in zip(plain, h.extents):
        conds += [c for c in (cond(">=", i), cond(">=", extent - 1 - i)) if not prove(c, current().known)]
    other = as_array(fill, "fill")
    dtype = h.settled
    if (other.strong is not None and other.strong is not dtype) or other.rank:
        raise DTypeError(
            "E120",
            f"at: the fill is {type_text(other)}, the elements are {dtype}",
            position=position,
            facts=[describe(h, "array")],
            remedy="convert the fill with `astype`",
        )
    zero_fill = other.literal is not None and other.literal == 0
    if not zero_fill:
        common_dtype("at", [h, other], position)

    def rule(rest: Indices) -> ir.Scalar:
        element = h.element((*plain, *rest))
        current().positions.setdefault(element, position) if position else None
        if zero_fill:
            return expr.bracket(conds, element)
        return expr.select(expr.test(conds), element, other.element((), dtype))

    out = view(h.extents[len(plain) :], dtype, rule, None, h.name)
    return out if out.rank else scalar(out.element())


_ITERATING = {
    "sum": "`pb.sum(x)`",
    "max": "`pb.max(x)`",
    "min": "`pb.min(x)`",
    "any": "`pb.any(x)`",
    "all": "`pb.all(x)`",
    "pb.concat": "`pb.concat([x, y])`: the arrays are a list",
    "pb.stack": "`pb.stack([x, y])`: the arrays are a list",
    "zip": "`pb.build(n, lambda i: ...)` reads `x[i]` and `y[i]`",
    "enumerate": "`pb.build(n, lambda i: ...)` or `pb.fold(n, start, lambda state, i: ...)`: i is the position",
}


def rows(h: Array) -> list[Array]:
    """The rows for iteration over an array, if their number is fixed."""
    if not h.rank or h.extents[0].constant is None:
        rows = f"{h.name or 'the array'} has {counted(h.extents[0], 'row')}"
        what = rows if h.rank else f"{type_text(h)} has no rows"
        raise TraceError(
            "E134",
            f"iteration over a traced value: {what}, not a number known at definition",
            position=user_position(),
            facts=[describe(h, "value")],
            remedy=_ITERATING.get(called(user_position()) or "", "`build`, `sum_over` or `fold` loop over indices"),
        )
    return [subscript(h, k) for k in range(h.extents[0].constant)]


__all__ = ["at", "from_number", "prove_nonnegative", "rows", "shape_text", "subscript"]
