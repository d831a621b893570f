"""Dyadic ⊂ and ⊆: partitions of an array along an axis."""

from __future__ import annotations

from itertools import product

import numpy as np

from pullback.apl import errors
from pullback.apl.table import Settings, dyadic
from pullback.apl.values import NDArray, Value, objects, rank_of, simplified, whole_list
from pullback.apl.verbs.arrange import axis_of
from pullback.apl.verbs.search import known


@dyadic("⊂", axis=True)
def partitioned(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
    """Partition the last axis: x[i] parts begin at element i; all but the last are empty."""
    x, y = known("⊂", x, y)
    at = _axis("⊂", y, s, axis)
    marks = _marks("⊂", x, y.shape[at])
    if len(marks) > y.shape[at] + 1:
        raise errors.length(f"⊂ takes at most one number more than there are slices: {y.shape[at] + 1}")
    starts = [k for k, m in enumerate(marks) for _ in range(m)]
    ends = [*starts[1:], y.shape[at]] if starts else []
    return objects([_stretch(y, range(a, b), at) for a, b in zip(starts, ends)])


@dyadic("⊆", axis=True)
def partition(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
    """Partition the last axis: a part begins where x grows, and zeros are dropped."""
    x, y = known("⊆", x, y)
    at = _axis("⊆", y, s, axis)
    marks = _marks("⊆", x, y.shape[at])
    if len(marks) != y.shape[at]:
        raise errors.length(f"⊆ takes one number for each of {y.shape[at]} slices, not {len(marks)}")
    parts: list[list[int]] = []
    for k, (before, mark) in enumerate(zip([0, *marks], marks)):
        if mark > before:
            parts.append([k])
        elif mark:
            parts[-1].append(k)
    lines = np.moveaxis(y, at, -1)
    frame = lines.shape[:-1]
    cells = [_stretch(lines[i], part, 0) for i in product(*map(range, frame)) for part in parts]
    return np.moveaxis(objects(cells, (*frame, len(parts))), -1, at)


def _stretch(y: NDArray, places: range | list[int], axis: int) -> NDArray:
    return simplified(np.take(y, np.array(places, np.int64), axis))


def _axis(glyph: str, y: Value, s: Settings, axis: Value | None) -> int:
    if not rank_of(y):
        raise errors.rank(f"{glyph} takes an array with an axis to its right")
    return axis_of(axis, y, s, rank_of(y) - 1)


def _marks(glyph: str, x: Value, count: int) -> list[int]:
    marks: list[int] = whole_list(x, glyph)
    if any(m < 0 for m in marks):
        raise errors.domain(f"{glyph} takes no negative numbers")
    return marks * count if not rank_of(x) else marks


__all__ = ["partition", "partitioned"]
