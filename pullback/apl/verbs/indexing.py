"""Elements by their indices: [ ] and ⌷."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pullback as pb
from pullback.apl import errors
from pullback.apl.table import Settings, dyadic, monadic
from pullback.apl.values import (
    NDArray,
    Value,
    element,
    elements,
    is_nested,
    lifted,
    objects,
    rank_of,
    settled,
    shape_of,
    simplified,
    whole_list,
)
from pullback.apl.verbs.arrange import with_shape
from pullback.apl.verbs.nesting import pick, places
from pullback.apl.watch import watching
from pullback.arrays.subscript import subscript
from pullback.tracing.array import Array
from pullback.verbs.nested import Nested


def chosen(y: Value, indices: Sequence[Value | None], s: Settings) -> Value:
    """Index `y[i;j]`: each axis has an array of indices, or None for the whole axis."""
    y = settled(y)
    if len(indices) == 1 and isinstance(indices[0], np.ndarray) and is_nested(indices[0]):
        return chosen_points(y, indices[0], s)
    if len(indices) == 1 and isinstance(indices[0], Nested):
        return _computed_points(y, indices[0], s)
    if len(indices) != rank_of(y):
        raise errors.rank(f"[ ] takes one index for each axis: {rank_of(y)} of them, not {len(indices)}")
    traced = [i for i in indices if isinstance(i, Array) and not _is_known(i)]
    if traced:
        return _gathered(y, indices, s)
    if isinstance(y, np.ndarray) and rank_of(y) and all(i is None or _is_whole(i) for i in indices):
        return _by_numbers(y, indices, s)
    along: list[Any] = []
    for i, n in zip(indices, shape_of(y)):
        if i is None:
            along.append(None)
            continue
        i = settled(i)
        numbers = whole_list(i.reshape(-1) if isinstance(i, np.ndarray) else i, "[ ]")
        along.append((places(numbers, [n] * len(numbers), s), shape_of(i)))
    if isinstance(y, np.ndarray) and all(a is None or all(isinstance(k, int) for k in a[0]) for a in along):
        grids = [np.arange(n) if a is None else np.array(a[0], np.int64) for a, n in zip(along, y.shape)]
        shape = [m for a, n in zip(along, y.shape) for m in ((n,) if a is None else a[1])]
        return simplified(np.asarray(y[np.ix_(*grids)]).reshape(shape)) if rank_of(y) else y
    h = lifted(y)
    for k, a in reversed(list(enumerate(along))):
        if a is None:
            continue
        lead = (slice(None),) * k
        if a[1] == ():
            h = subscript(h, (*lead, a[0][0]))
            continue
        picked = pb.take(h, pb.asarray(np.array(a[0], np.int64)), axis=k)
        h = pb.reshape(picked, (*h.shape[:k], *a[1], *h.shape[k + 1 :]))
    return h


def _is_whole(i: Value) -> bool:
    return isinstance(i, np.ndarray) and i.dtype.kind in "bi"


def _by_numbers(y: Value, indices: Sequence[Value | None], s: Settings) -> Value:
    """Index an array at known whole numbers."""
    grids: list[NDArray] = []
    shape: list[int] = []
    for i, n in zip(indices, y.shape):
        at = np.arange(n) if i is None else i.reshape(-1).astype(np.int64, copy=False) - s.io
        if at.size and int(at.view(np.uint64).max()) >= n:  # negative numbers are large ones there
            wrong = at[(at < 0) | (at >= n)][0]
            places([int(wrong) + s.io], [n], s)
        grids.append(at)
        shape += [n] if i is None else i.shape
    picked = y.take(grids[0], mode="clip") if y.ndim == 1 else y[np.ix_(*grids)]
    return simplified(np.asarray(picked).reshape(shape))


def _is_known(i: Array) -> bool:
    return i.index is not None or i.literal is not None


def _gathered(y: Value, indices: Sequence[Value | None], s: Settings) -> Value:
    """Gather elements at computed positions; each position is checked at run time."""
    h = lifted(y)
    for k, i in reversed(list(enumerate(indices))):
        if i is None:
            continue
        own = lifted(i) - s.io
        watch = watching()
        if watch is not None:
            watch.inside(own, h.shape[k])
        lead = (slice(None),) * k
        if own.rank == 0:
            h = subscript(h, (*lead, own))
        else:
            picked = pb.take(h, pb.reshape(own, (-1,)), axis=k)
            h = pb.reshape(picked, (*h.shape[:k], *own.shape, *h.shape[k + 1 :]))
    return h


def chosen_points(y: Value, points: Value, s: Settings, glyph: str = "[ ]") -> Value:
    """Index `y[points]`: return an element for each index vector."""
    made = [pick(s, p, y) if is_nested(p) else _at(y, p, s, glyph) for p in elements(points)]
    return simplified(objects(made, points.shape))


def _computed_points(y: Value, points: Nested, s: Settings) -> Value:
    """Index `y[points]` in a compiled function, at index vectors computed from those of ⍳."""
    frame = tuple(points.shape)
    h = lifted(y)
    return pb.build(frame, lambda *i: _at(h, points.element(*i), s)) if frame else _at(h, points.element(), s)


def _at(y: Value, point: Value, s: Settings, glyph: str = "[ ]") -> Value:
    """The element at an index vector."""
    at = whole_list(point, glyph)
    if len(at) != rank_of(y):
        raise errors.rank(f"{glyph} takes as many numbers as axes, {rank_of(y)}, not {len(at)}")
    return element(y, places(at, shape_of(y), s))


@dyadic("⌷", axis=True)
def index(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
    """Index `i j⌷y`: the cells at indices along the leading or the named axes."""
    y = settled(y)
    x = settled(x)
    if isinstance(x, Array) and not _is_known(x):
        if x.rank:
            raise errors.of_data("⌷", x.name or "the index", "y[i] with one index for each axis")
        indices: list[Value | None] = [x]
    else:
        if rank_of(x) > 1:
            raise errors.rank("⌷ takes a scalar or a vector of indices")
        indices = [*elements(x)] if isinstance(x, np.ndarray) else [x]
    if rank_of(y) == 0 and len(indices) == 1 and axis is None and rank_of(indices[0]) == 0:
        y = with_shape(y, (1,))  # a scalar is as good as its ravel
    axes = list(range(len(indices))) if axis is None else [n - s.io for n in whole_list(axis, "an axis")]
    if len(indices) > rank_of(y):
        raise errors.rank(f"⌷ takes at most as many indices as axes, {rank_of(y)}, not {len(indices)}")
    if len(axes) != len(indices) or any(not 0 <= a < rank_of(y) for a in axes):
        raise errors.rank("⌷ takes one index for each of the axes")
    full: list[Value | None] = [None] * rank_of(y)
    for a, i in zip(axes, indices):
        full[a] = i
    return chosen(y, full, s) if full else y


@monadic("⌷")
def materialized(s: Settings, y: Value) -> Value:
    """Return the array itself."""
    return y
