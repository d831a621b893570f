"""Verbs on nested arrays: monadic ↓ ⊂ ⊆ ⊃ ∊, and ⊃ along a path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback import verbs
from pullback.apl import errors
from pullback.apl.moves import moved
from pullback.apl.table import Settings, dyadic, monadic
from pullback.apl.values import (
    Value,
    count_of,
    element,
    elements,
    filled,
    fills,
    from_python,
    is_nested,
    objects,
    prototype,
    rank_of,
    settled,
    shape_of,
    whole_list,
)
from pullback.apl.verbs.arrange import axis_of, ravel
from pullback.apl.verbs.joining import joined
from pullback.apl.verbs.scalar import shape_text
from pullback.tracing.array import Array
from pullback.verbs.nested import Nested


@monadic("↓", axis=True)
def split(s: Settings, y: Value, axis: Value | None = None) -> Value:
    """Enclose the vectors along the last axis as elements."""
    y = settled(y)
    if not rank_of(y):
        return y
    at = axis_of(axis, y, s, rank_of(y) - 1)
    return enclosed_axes(y, [at])


def enclosed_axes(y: Value, axes: Sequence[int]) -> Value:
    """Enclose the arrays along some axes as elements of an array of the other axes."""
    frame = [k for k in range(rank_of(y)) if k not in axes]
    order = [*frame, *axes]
    turned = (
        moved(("⍉", *order), lambda y: verbs.transpose(y, tuple(order.index(k) for k in range(rank_of(y)))), y)
        if order != list(range(rank_of(y)))
        else y
    )
    if isinstance(turned, Array):
        return verbs.enclose(turned, len(axes))
    shape = turned.shape[: len(frame)]
    if 0 in shape:
        return filled(shape, np.full(turned.shape[len(frame) :], prototype(y) if not is_nested(y) else 0))
    return objects(
        [turned[i] if rank_of(turned) > len(frame) else np.array(turned[i]) for i in np.ndindex(*shape)], shape
    )


@monadic("⊂", axis=True)
def enclose(s: Settings, y: Value, axis: Value | None = None) -> Value:
    """Enclose the array as one element; plain scalars stay."""
    if axis is not None:
        y = settled(y)
        axes = [n - s.io for n in whole_list(axis, "an axis")]
        if any(not 0 <= a < rank_of(y) for a in axes) or len(set(axes)) != len(axes):
            raise errors.rank(f"{shape_text(y)} has no such axes")
        return enclosed_axes(y, axes)
    if rank_of(y) == 0 and not is_nested(y):
        return y
    if isinstance(y, Nested) and rank_of(y) == 0:
        return objects([y], ())
    return objects([y], ())


@monadic("⊆")
def nest(s: Settings, y: Value) -> Value:
    """Enclose the array if it is simple."""
    return enclose(s, y) if not is_nested(y) else y


@monadic("⊃")
def first(s: Settings, y: Value) -> Value:
    """The first element, without its box."""
    if isinstance(y, Nested):
        at = (0,) * rank_of(y)
        return from_python(y.element(*at))
    if count_of(y) == 0:
        return prototype(y)
    return element(y, (0,) * rank_of(y))


@dyadic("⊃")
def pick(s: Settings, x: Value, y: Value) -> Value:
    """Return the element at the end of a path of indices."""
    x = settled(x)
    if rank_of(x) > 1:
        raise errors.rank("⊃ takes a scalar or a vector of indices")
    for step in elements(x):
        at = whole_list(step, "⊃")
        y = settled(y)
        if len(at) != rank_of(y):
            raise errors.rank(f"⊃ takes as many numbers as axes, {rank_of(y)}, not {len(at)}")
        y = element(y, places(at, shape_of(y), s))
    return y


def places(at: Sequence[Any], shape: Sequence[Any], s: Settings) -> tuple[Any, ...]:
    """Convert indices to start from 0.

    Raises:
        AplError: [E805] an index is out of range.
    """
    made = []
    for i, n in zip(at, shape):
        if isinstance(i, int) and (i < s.io or (isinstance(n, int) and i >= n + s.io)):
            raise errors.index(f"there is no element {i} along an axis of {n}", remedy=f"the first is {s.io}: ⎕IO")
        made.append(i - s.io)
    return tuple(made)


@monadic("∊ type")
def type_of(s: Settings, y: Value) -> Value:
    """Replace numbers by 0 and characters by blanks, in the same structure."""
    return fills(y)


@monadic("∊")
def enlist(s: Settings, y: Value) -> Value:
    """Return all plain elements in one vector."""
    y = settled(y)
    if not is_nested(y):
        return ravel(s, y)
    parts = [enlist(s, e) for e in elements(y)] or [np.zeros(0, np.int64)]
    made = parts[0]
    for p in parts[1:]:
        made = joined(",", made, p, 0)
    return made
