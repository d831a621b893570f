"""Arrays with some elements changed: `x.set(index, value)`, `x.at[index].max(value)`.

These functions return new arrays, which the compiler stores over the old ones if possible. Slices
and single indices become conditions on the indices of the result. For index arrays, additions become one sum of deltas.
Assignments become a fold in order, so the last of several writes counts.
"""

from __future__ import annotations

from typing import Any

from pullback.arrays.elementwise import choose, elementwise
from pullback.arrays.subscript import Selection, selection, subscript
from pullback.errors import DTypeError, ShapeError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, as_index, cond, prove
from pullback.source import Position, user_position
from pullback.tracing.arithmetic import aligned, broadcast_extents, common_dtype
from pullback.tracing.array import Array, Indices, from_index, shape_text, shape_value, type_text
from pullback.tracing.control import fold
from pullback.tracing.making import as_array, axes_for, describe, emit, view
from pullback.tracing.ranges import from_end
from pullback.tracing.tracer import current


def changed(h: Array, key: Any, value: Any, what: str) -> Array:
    """Return a copy of `h` with a value written to, or added to, the elements that a key selects."""
    position = user_position()
    new = as_array(value, what)
    dtype = common_dtype(what, [h, new], position)
    if dtype is not h.settled:
        raise DTypeError(
            "E120",
            f"{what}: the value is {type_text(new)}, the elements are {h.settled}",
            position=position,
            facts=[describe(h, "array")],
            remedy="convert the value with `astype`",
        )
    if isinstance(key, Array) and key.settled.is_bool and key.rank:
        return _masked(h, key, new, what)
    found = selection(h, key, position)
    if found.joint is None and what not in ("set", "add"):
        new, what = elementwise(what, subscript(h, key), new), "set"
    if found.joint is None:
        _check_shape(new, found.extents, what, position)
        return _written(h, found, new, what, position)
    arrays = [p for p in found.parts if isinstance(p, Array)]
    joint = broadcast_extents("index", arrays, position)
    shape = (*found.extents[: found.joint], *joint, *found.extents[found.joint :])
    _check_shape(new, shape, what, position)
    if what == "add":
        return _added(h, found, new, shape, len(joint), position)
    return _set_each(h, found, new, shape, joint, None if what == "set" else what)


def _check_shape(value: Array, extents: Indices, what: str, position: Position | None) -> None:
    """Check that a value broadcasts to the selection, without extra axes."""
    selected = view(extents, value.settled, lambda i: expr.zero(value.settled), None, "selected")
    if value.rank > len(extents) or tuple(broadcast_extents(what, [selected, value], position)) != tuple(extents):
        raise ShapeError(
            "E104", f"{what}: the value is {type_text(value)}, the key selects {shape_text(extents)}", position=position
        )


def _masked(h: Array, mask: Array, value: Array, what: str) -> Array:
    """Return a copy with elements changed where a mask of h, or of its first axes, holds."""
    lead = view(
        (*mask.extents, *(as_index(1) for _ in range(h.rank - mask.rank))),
        types.bool_,
        lambda i: mask.element(i[: mask.rank]),
        None,
        mask.name,
    )
    return choose(lead, value if what == "set" else elementwise(what, h, value), h)


def _written(h: Array, found: Selection, value: Array, what: str, position: Position | None) -> Array:
    """A copy with elements set through indices and slices: conditions on the result's indices."""
    places = [_checked(p, e, what, position) if isinstance(p, Index) else p for p, e in zip(found.parts, h.extents)]

    def rule(indices: Indices) -> ir.Scalar:
        own: list[Index] = [ZERO_INDEX] * len(found.extents)
        conds: list[Cond | bool] = []
        for i, p in zip(indices, places):
            if isinstance(p, Index):
                conds.append(cond("==", i - p))
                continue
            start, step, axis = p
            by = abs(step.constant)
            far = i - start if step.constant > 0 else start - i
            conds += [cond(">=", far), cond(">=", (found.extents[axis] - 1) * by - far), cond("==", far % by)]
            own[axis] = far // by
        written = aligned(value, tuple(own), h.settled)
        if what == "add":
            return expr.add(h.element(indices), expr.bracket(conds, written))
        return expr.select(expr.test(conds), written, h.element(indices))

    return emit(h.extents, rule, h.name or what, position)


def _checked(place: Index, extent: Index, what: str, position: Position | None) -> Index:
    """An index that is in range: proven, or checked at run time."""
    known = current().known
    if prove(cond(">=", place), known) and prove(cond(">=", extent - 1 - place), known):
        return place
    if place.data:
        return expr.data_index(expr.from_index(place, types.i64), extent, True)
    raise ShapeError(
        "E103",
        f"{what} at {place} of an axis of {extent}: not known to be in range",
        position=position,
        remedy="a condition on the index in `where`, or another index",
    )


def _full(found: Selection, h: Array, own: Indices, rank: int) -> list[Index]:
    """The indices in h of a selection's element, checked if data-dependent."""
    assert found.joint is not None
    lead, rest = own[found.joint : found.joint + rank], (*own[: found.joint], *own[found.joint + rank :])
    out = []
    for p, extent in zip(found.parts, h.extents):
        if isinstance(p, Array):
            place = from_end(aligned(p, lead), extent)
            out.append(expr.data_index(expr.from_index(place, types.i64), extent, True) if place.data else place)
        else:
            out.append(p if isinstance(p, Index) else p[0] + p[1] * rest[p[2]])
    return out


def _added(h: Array, found: Selection, value: Array, shape: Indices, rank: int, position: Position | None) -> Array:
    """A copy of `h` plus the sum of the values for each position."""
    variables = axes_for(shape)
    selected = tuple(as_index(v) for v in variables)

    def rule(indices: Indices) -> ir.Scalar:
        deltas = [cond("==", i - p) for i, p in zip(indices, _full(found, h, selected, rank))]
        total = expr.reduce("sum", variables, expr.bracket(deltas, aligned(value, selected, h.settled)))
        return expr.add(h.element(indices), total)

    return emit(h.extents, rule, h.name or "add", position)


def _set_each(
    h: Array, found: Selection, value: Array, shape: Indices, joint: Indices, operation: str | None
) -> Array:
    """A copy of `h` after one write per element of the index arrays, in row-major order.

    Args:
        operation: a primitive of the present element and the value; None writes the value.
    """
    assert found.joint is not None
    at = found.joint
    whole = view(shape, h.settled, lambda i: aligned(value, i, h.settled), None, value.name)
    count = as_index(1)
    for e in joint:
        count = count * e

    def step(state: Array, j: Array) -> Array:
        rest, lead = j, list[Any]()
        for e in reversed(joint):
            lead.insert(0, rest % shape_value(e))
            rest = rest // shape_value(e)
        key: list[Any] = []
        for p, extent in zip(found.parts, h.extents):
            if isinstance(p, Array):
                single = view((), p.settled, lambda _, p=p: aligned(p, tuple(k.index for k in lead)))  # type: ignore[misc]
                key.append(from_index(from_end(single.element(()), extent)))
            elif isinstance(p, Index):
                key.append(from_index(p))
            else:
                key.append(p)
        parts = tuple(k.index if isinstance(k, Array) else k for k in key)
        row = subscript(whole, (*(slice(None),) * at, *lead))
        if operation is not None:
            row = elementwise(operation, subscript(state, tuple(key)), row)
        return _written(state, Selection(parts, found.extents, None), row, "set", user_position())

    return fold(shape_value(count), h, step)  # type: ignore[no-any-return]
