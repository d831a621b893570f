r"""Verbs that join arrays and repeat slices: dyadic , ⍪ / ⌿ \\ ⍀."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pullback as pb
from pullback import verbs
from pullback.apl import errors
from pullback.apl.moves import moved
from pullback.apl.table import Settings, dyadic
from pullback.apl.values import (
    NDArray,
    Value,
    count_of,
    from_python,
    is_traced,
    lifted,
    objects,
    prototype,
    rank_of,
    settled,
    shape_of,
    simple_list,
    simplified,
    vector,
    whole_list,
)
from pullback.apl.verbs.arrange import axis_of, has_dims, reshape, with_shape
from pullback.apl.verbs.scalar import shape_text


def _joining(glyph: str, last: bool) -> None:
    @dyadic(glyph, axis=True)
    def catenate(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
        """Join two arrays along an axis, or along a new axis if it is a fraction."""
        x, y = settled(x), settled(y)
        rank = max(rank_of(x), rank_of(y))
        at = max(rank - 1, 0) if last else 0
        if axis is not None:
            (number,) = simple_list(axis, "an axis")[:1] or [s.io]
            if not float(number).is_integer():
                return laminate(s, x, y, int(np.ceil(number)) - s.io)
            at = int(number) - s.io
            if not 0 <= at < rank:
                raise errors.rank(f"there is no axis {number}")
        return joined(glyph, x, y, at)


def joined(glyph: str, x: Value, y: Value, at: int) -> Value:
    """Join two arrays along an axis."""
    rank = max(rank_of(x), rank_of(y))
    if min(rank_of(x), rank_of(y)) and abs(rank_of(x) - rank_of(y)) > 1:
        raise errors.rank(f"{glyph} takes arrays whose ranks differ by one at most, not {rank_of(x)} and {rank_of(y)}")
    if rank_of(x) and rank_of(y):
        own = [shape_of(v)[:at] + shape_of(v)[at + 1 :] if rank_of(v) == rank else shape_of(v) for v in (x, y)]
        if any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(*own)):
            raise errors.length(f"{glyph} takes arrays that fit along the other axes", [shape_text(x), shape_text(y)])
    if all(isinstance(v, np.ndarray) and v.dtype != object for v in (x, y)) and rank_of(x) == rank_of(y) > 0:
        if (x.dtype.kind == "U") == (y.dtype.kind == "U"):
            return np.concatenate([x, y], axis=at)
    return moved((glyph, at), lambda x, y: verbs.catenate(x, y, at), x, y)


def laminate(s: Settings, x: Value, y: Value, at: int) -> Value:
    """Stack two arrays of one shape along a new axis."""
    shape = shape_of(x) or shape_of(y)
    if not 0 <= at <= len(shape):
        raise errors.rank(f"{shape_text(x)} has no such place among its axes")
    if rank_of(x) and rank_of(y) and shape_of(x) != shape_of(y):
        wrong = errors.rank if rank_of(x) != rank_of(y) else errors.length
        raise wrong("arrays that are laminated have one shape", [shape_text(x), shape_text(y)])
    one = (*shape[:at], 1, *shape[at:])
    parts = [v if not rank_of(v) else _inserted(v, at) for v in (x, y)]
    if not rank_of(x) and not rank_of(y):
        return vector([x, y]) if not is_traced(x) and not is_traced(y) else lifted(objects([x, y]))
    parts = [reshape(s, vector([from_python(e) for e in one]), p) if not rank_of(p) else p for p in parts]
    return joined(",", parts[0], parts[1], at)


def _inserted(x: Value, at: int) -> Value:
    return np.expand_dims(x, at) if isinstance(x, np.ndarray) else pb.expand_dims(x, at)


_joining(",", True)
_joining("⍪", False)


# Repeating ----------------------------------------------------------------------------------------------------


def _repeating(glyph: str, last: bool) -> None:
    @dyadic(glyph, axis=True)
    def replicate(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
        """Repeat each slice, or insert fills for negative counts."""
        y = settled(y)
        if not rank_of(y):
            y = with_shape(y, (1,))
        at = axis_of(axis, y, s, rank_of(y) - 1 if last else 0)
        extent = shape_of(y)[at]
        if _are_counts(x, extent) and isinstance(y, np.ndarray) and y.dtype != object:
            return np.repeat(y, x, at)
        counts = whole_list(x, glyph)
        if len(counts) == 1 and extent != 1:
            (count,) = counts
            if not isinstance(count, int) or count >= 0:
                return moved((glyph, count, at), lambda y: verbs.replicate(count, y, at), y, dims=has_dims(counts))
            counts = counts * extent if isinstance(extent, int) else counts
        if extent == 1 and len(counts) != 1:
            y = verbs_replicated(y, len(counts), at, glyph)
            extent = shape_of(y)[at]
        if len(counts) != extent:
            raise errors.length(f"{glyph} takes one number for each slice: {extent}, not {len(counts)}")
        if any(c < 0 for c in counts):
            return _with_fills(glyph, counts, y, at)
        return moved((glyph, *counts, at, "each"), lambda y: verbs.replicate(tuple(counts), y, at), y)


def _are_counts(x: Value, extent: Any) -> bool:
    """Whether a vector of plain numbers has a count for each slice."""
    plain = isinstance(x, np.ndarray) and x.dtype.kind in "bi" and x.shape == (extent,)
    return plain and bool((x >= 0).all())


def verbs_replicated(y: Value, count: int, at: int, glyph: str) -> Value:
    """Repeat the only slice."""
    return moved((glyph, count, at), lambda y: verbs.replicate(count, y, at), y)


def _with_fills(glyph: str, counts: Sequence[int], y: Value, at: int) -> Value:
    if is_traced(y):
        raise errors.domain(
            f"{glyph} with a negative number in a compiled function", remedy="\\ and ⍀ make room for fills"
        )
    slots = [k if c > 0 else -1 for k, c in enumerate(counts) for _ in range(abs(c))]
    return filled_slots(y, slots, at)


def filled_slots(y: NDArray, slots: Sequence[int], at: int) -> NDArray:
    """Return the slices at given positions along an axis, with fills at position ¯1."""
    fill = prototype(y)
    shape = (*y.shape[:at], len(slots), *y.shape[at + 1 :])
    if y.dtype != object and fill.dtype.kind in ("U" if y.dtype.kind == "U" else "biufc"):
        made = np.full(shape, fill[()], dtype=y.dtype)
    else:
        made = objects([fill] * int(np.prod(shape)), shape)
    lead: tuple[Any, ...] = (slice(None),) * at
    for k, slot in enumerate(slots):
        if slot >= 0:
            made[(*lead, k)] = y[(*lead, slot)]
    return simplified(made)


def _expanding(glyph: str, last: bool) -> None:
    @dyadic(glyph, axis=True)
    def expand(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
        """Spread the slices along an axis, with fills between them."""
        y = settled(y)
        counts = whole_list(x, glyph)
        if not rank_of(y):
            y = with_shape(y, (1,))
        at = axis_of(axis, y, s, rank_of(y) - 1 if last else 0)
        slices = sum(c > 0 for c in counts)
        if shape_of(y)[at] == 1 and slices != 1:
            y = verbs_replicated(y, slices, at, glyph)
        if shape_of(y)[at] != slices:
            raise errors.length(f"{glyph} takes one positive number for each slice: {shape_of(y)[at]}, not {slices}")
        if not slices or count_of(y) == 0:
            slots = [-1] * sum(max(-c, 1) if c <= 0 else c for c in counts)
            return filled_slots(y, slots, at)
        return moved((glyph, *counts, at), lambda y: verbs.expand(tuple(counts), y, at), y)


_repeating("/", True)
_repeating("⌿", False)
_expanding("\\", True)
_expanding("⍀", False)
