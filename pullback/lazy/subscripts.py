"""Subscripts of lazy arrays: masks and sizes are computed, and positions below 0 count from the end."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.arrays.elementwise import choose, convert, elementwise
from pullback.errors import ShapeError
from pullback.ir import types
from pullback.lazy.node import Array
from pullback.lazy.open_shapes import known, nonzero
from pullback.source import user_position
from pullback.tracing.array import Array as Traced
from pullback.tracing.array import TracedArray

__all__ = ["selected", "taken"]


def taken(x: TracedArray, key: Any) -> Any:
    """`x[key]` of traced arrays, where computed integers below 0 count from the end."""
    items = key if isinstance(key, tuple) else (key,)
    if not any(map(_is_number, items)):
        return operator.getitem(x, key)
    axes, after = 0, [int(k is not None and k is not Ellipsis) for k in items]
    made = []
    for place, item in enumerate(items):
        axes = x.ndim - sum(after[place:]) if place and items[place - 1] is Ellipsis else axes
        inside = axes < x.ndim
        made.append(_from_end(item, x.extents[axes].constant) if _is_number(item) and inside else item)
        axes += after[place]
    return operator.getitem(x, tuple(made))


def _is_number(x: Any) -> bool:
    return isinstance(x, Traced) and not x.rank and x.settled.kind == "signed"


def _from_end(i: Traced, size: Any) -> Traced:
    wide = convert(i, types.i64)
    return choose(elementwise("less", wide, 0), elementwise("add", wide, size), wide)


def selected(x: Array, key: Any) -> tuple[Array, Any]:
    """An array and a subscript, with positions in place of masks and numbers in place of arrays in slices.

    A mask without axes adds one, of size 1 or 0.
    """
    if _is_truth(key):
        return x[None], slice(0, int(bool(key)))
    items = [np.asarray(k) if k.__class__ is list else k for k in (key if isinstance(key, tuple) else (key,))]
    items = [slice(known(k.start), known(k.stop), known(k.step)) if k.__class__ is slice else k for k in items]
    made: list[Any] = []
    for place, item in enumerate(items):
        if _is_mask(item):
            _check_mask(x, items, place)
            made += nonzero(item)
        else:
            made.append(item)
    return x, tuple(made) if isinstance(key, tuple) or len(made) > 1 else made[0]


def _is_truth(x: Any) -> bool:
    if isinstance(x, Array | np.ndarray | np.generic):
        return not x.shape and (x.type.numpy if isinstance(x, Array) else x.dtype) == np.bool_
    return isinstance(x, bool)


def _is_mask(x: Any) -> bool:
    if isinstance(x, Array):
        return x.type.numpy == np.bool_ and bool(x.type.shape)
    return isinstance(x, np.ndarray) and x.dtype == np.bool_ and x.ndim > 0


def _check_mask(x: Array, items: Sequence[Any], place: int) -> None:
    """Refuse a mask whose shape differs from that of the axes that it selects from."""
    axes = [k.ndim if _is_mask(k) else int(k is not None and k is not Ellipsis) for k in items]
    dots = next((k for k, item in enumerate(items[:place]) if item is Ellipsis), -1)
    first = sum(axes[:place]) if dots < 0 else x.ndim - sum(axes[place:])
    mask = items[place].shape
    if mask != x.shape[first : first + len(mask)]:
        raise ShapeError(
            "E104", f"a mask of shape {mask} selects from axes of shape {x.shape[first : first + len(mask)]}",
            position=user_position(), remedy="a mask of one bool for each element or row",
        )  # fmt: skip
