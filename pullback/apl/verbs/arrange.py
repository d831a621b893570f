"""Shapes, the order of elements, and parts: ⍴ , ⍪ ≢ ≡ ⌽ ⊖ ⍉ ↑ ↓; and ⊢ ⊣."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback import verbs
from pullback.apl import errors
from pullback.apl.moves import moved
from pullback.apl.table import Settings, dyadic, monadic
from pullback.apl.values import (
    NDArray,
    Value,
    count_of,
    elements,
    filled,
    from_python,
    is_nested,
    is_traced,
    known_shape,
    lifted,
    objects,
    prototype,
    rank_of,
    scalar,
    settled,
    shape_of,
    simple_list,
    simplified,
    vector,
    whole,
    whole_list,
)
from pullback.apl.verbs.scalar import shape_text
from pullback.tracing.array import Array
from pullback.verbs.nested import Nested

PIECE: Final = 1 << 22  # elements that are written at once


def axis_of(axis: Value | None, x: Value, s: Settings, default: int) -> int:
    """Return the axis of `f[k]`, from 0, or the default without brackets.

    Raises:
        AplError: [E803] there is no such axis.
    """
    if axis is None:
        return default
    k = whole(axis, "an axis") - s.io
    if not 0 <= k < rank_of(x):
        raise errors.rank(f"there is no axis {k + s.io} of {shape_text(x)}")
    return k


def has_dims(numbers: Sequence[Any]) -> bool:
    """Whether any of the numbers is a dim."""
    return any(isinstance(n, Array) for n in numbers)


# Shapes -------------------------------------------------------------------------------------------------------


@monadic("⍴")
def shape(s: Settings, y: Value) -> Value:
    """The sizes of an array."""
    return vector([from_python(e) for e in shape_of(y)])


@dyadic("⍴")
def reshape(s: Settings, x: Value, y: Value) -> Value:
    """Reshape y to the sizes x, repeating elements cyclically."""
    extents = whole_list(x, "⍴")
    for n in extents:
        if isinstance(n, int) and n < 0:
            raise errors.domain(f"⍴ takes no negative size, and one is {n}")
    if len(extents) > 15:
        raise errors.AplError("LIMIT ERROR", f"an array has at most 15 axes, not {len(extents)}")
    if _too_large(extents):
        raise errors.AplError("LIMIT ERROR", f"an array of shape {' '.join(map(str, extents))} is too large")
    if count_of(y) == 0:  # only fills to take from
        return filled(extents, prototype(y))
    direct = lambda y: (y if y.size == prod(extents) else _repeated(y, prod(extents))).reshape(extents)
    return moved(("⍴", *extents), lambda y: verbs.reshape(tuple(extents), y), y, dims=has_dims(extents), direct=direct)


def _repeated(y: NDArray, count: int) -> NDArray:
    """Return so many elements, from the first again and again (`np.resize` is slow for small arrays)."""
    if y.size == 1:
        made = np.empty(count, y.dtype)
        for start in range(0, count, PIECE):  # an interrupt comes between two pieces
            made[start : start + PIECE] = y.reshape(-1)[0]
        return made
    rows = -(-count // y.size)
    return np.broadcast_to(y.reshape(-1), (rows, y.size)).reshape(-1)[:count]


@monadic(",", axis=True)
def ravel(s: Settings, y: Value, axis: Value | None = None) -> Value:
    """Return all elements as a vector."""
    if isinstance(y, Nested):
        return Nested(y.shape, y.element, flat=True) if rank_of(y) != 1 else y
    if axis is not None:
        return _ravel_axes(s, y, axis)
    return y.reshape(-1) if isinstance(y, np.ndarray) else verbs.ravel(y)


def _ravel_axes(s: Settings, y: Value, axis: Value) -> Value:
    numbers = simple_list(axis, ",[axis]")
    extents = list(shape_of(y))
    if len(numbers) == 1 and not float(numbers[0]).is_integer():
        at = int(np.ceil(numbers[0])) - s.io
        if not 0 <= at <= len(extents):
            raise errors.rank(f"there is no place {numbers[0]} among the axes of {shape_text(y)}")
        extents.insert(at, 1)
    elif numbers:
        axes = [int(n) - s.io for n in numbers]
        if axes != list(range(axes[0], axes[0] + len(axes))) or axes[0] < 0 or axes[-1] >= len(extents):
            raise errors.rank("the axes to join follow one another")
        joined = int(np.prod(extents[axes[0] : axes[-1] + 1], dtype=object))
        extents[axes[0] : axes[-1] + 1] = [joined]
    else:
        extents.append(1)
    return reshape(s, vector([from_python(e) for e in extents]), y) if count_of(y) else y.reshape(extents)


@monadic("⍪")
def table(s: Settings, y: Value) -> Value:
    """Convert to a matrix: keep the first axis, and join all others."""
    y = settled(y)
    extents = shape_of(y)
    if not extents:
        return with_shape(y, (1, 1))
    if isinstance(y, np.ndarray):
        return y.reshape(extents[0], int(np.prod(extents[1:])))
    return verbs.reshape((extents[0], _product(extents[1:])), y)


def _product(extents: Sequence[Any]) -> Any:
    made: Any = 1
    for e in extents:
        made = made * e
    return made


def with_shape(y: Value, shape: tuple[int, ...]) -> Value:
    """Reshape the elements to these sizes."""
    return y.reshape(shape) if isinstance(y, np.ndarray) else verbs.reshape(shape, lifted(y))


@monadic("≢")
def tally(s: Settings, y: Value) -> Value:
    """The number of cells along the first axis."""
    extents = shape_of(y)
    return from_python(extents[0]) if extents else scalar(1)


@monadic("≡")
def depth(s: Settings, y: Value) -> Value:
    """The nesting depth; negative if it is not uniform."""
    return scalar(_depth(y))


@monadic("≡ depth")
def unsigned_depth(s: Settings, y: Value) -> Value:
    """The nesting depth as a number from 0."""
    return scalar(abs(_depth(y)))


def _depth(y: Value) -> int:
    y = settled(y)
    if not is_nested(y):
        return 1 if rank_of(y) else 0
    if y.ndim == 0 and rank_of(y.item()) == 0 and not is_nested(y.item()):
        return 0
    found = [_depth(e) for e in y.ravel()]
    largest = max((abs(d) for d in found), default=0) + 1
    even = len(set(found)) == 1 and found[0] >= 0
    return largest if even else -largest


# Order --------------------------------------------------------------------------------------------------------


def _rotated(s: Settings, x: Value, y: Value, at: int) -> Value:
    counts = whole_list(x, "⌽") if rank_of(x) <= 1 else None
    extents = shape_of(y)
    if counts is not None and len(counts) == 1:
        n = extents[at]
        by = counts[0] % n if isinstance(n, int) and isinstance(counts[0], int) and n else 0 if n == 0 else counts[0]
        direct = lambda y: np.roll(y, -by, at)
        return moved(("⌽", by, at), lambda y: verbs.rotate(by, y, at), y, dims=has_dims([by]), direct=direct)
    rest = (*extents[:at], *extents[at + 1 :])
    if shape_of(x) != rest:
        if rank_of(x) != len(rest):
            raise errors.rank(f"⌽ takes a number, or one for each of the {shape_text(y)} without the axis")
        raise errors.length(f"⌽ takes one number for each vector along the axis: {rest} of them")
    by_each = np.array(whole_list(x.reshape(-1), "⌽"), np.int64).reshape(rest)
    n = extents[at]
    places = np.arange(count_of(y) or 0).reshape(known_shape(y))
    along = np.moveaxis(places, at, -1)
    if n:
        steps = (np.arange(n) + by_each[..., None]) % n
        along = np.take_along_axis(along, steps, -1)
    order = np.moveaxis(along, -1, at)
    return picked_places(y, order)


def picked_places(y: Value, order: NDArray) -> Value:
    """Return the elements at given positions of the ravel."""
    if isinstance(y, np.ndarray):
        return simplified(y.reshape(-1)[order].reshape(order.shape))
    flat = pb.reshape(lifted(y), (-1,))
    return pb.reshape(pb.take(flat, pb.asarray(order.reshape(-1)), axis=0), order.shape)


def _reversing(glyph: str, last: bool) -> None:
    @monadic(glyph, axis=True)
    def backward(s: Settings, y: Value, axis: Value | None = None) -> Value:
        """Reverse the elements along an axis."""
        y = settled(y)
        if not rank_of(y):
            return y
        at = axis_of(axis, y, s, rank_of(y) - 1 if last else 0)
        if isinstance(y, np.ndarray):
            return np.flip(y, at)
        return moved((glyph, at), lambda y: verbs.reverse(y, at), y)

    @dyadic(glyph, axis=True)
    def turned(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
        """Rotate the elements along an axis."""
        y = settled(y)
        if not rank_of(y):
            whole_list(x, glyph)
            return y
        return _rotated(s, x, y, axis_of(axis, y, s, rank_of(y) - 1 if last else 0))


_reversing("⌽", True)
_reversing("⊖", False)


@monadic("⍉")
def transposed(s: Settings, y: Value) -> Value:
    """Reverse the order of the axes."""
    return moved(("⍉",), verbs.transpose, y, direct=np.transpose)


@dyadic("⍉")
def reordered(s: Settings, x: Value, y: Value) -> Value:
    """Move axis k of y to axis x[k] of the result."""
    y = settled(y)
    axes = [n - s.io for n in whole_list(x, "⍉")]
    if len(axes) != rank_of(y) and not (axes == [0] and not rank_of(y)):  # a scalar is as good as its ravel
        raise errors.length(f"⍉ takes one number for each axis, and {shape_text(y)} has {rank_of(y)}, not {len(axes)}")
    if axes and (min(axes) < 0 or set(axes) != set(range(max(axes) + 1))):
        raise errors.domain("⍉ takes the places of the axes, with none left out")
    if not rank_of(y):
        return y
    least = [min((e for e, a in zip(shape_of(y), axes) if a == k), key=_size) for k in range(max(axes) + 1)]
    counts = tuple(least[a] for a in axes)
    if counts != shape_of(y) and all(isinstance(e, int) for e in shape_of(y)):
        y = moved(("↑", *counts), lambda y: verbs.take(counts, y), y)
    return moved(("⍉", *axes), lambda y: verbs.transpose(y, tuple(axes)), y)


def _size(extent: Any) -> int:
    return extent if isinstance(extent, int) else 2**62


# Parts --------------------------------------------------------------------------------------------------------


def _counts(what: str, x: Value, y: Value, axis: Value | None, s: Settings) -> tuple[tuple[Any, ...], Value, list[int]]:
    """Return one count for each of the listed axes."""
    counts = whole_list(x, what)
    y = settled(y)
    if not rank_of(y):
        y = with_shape(y, (1,) * len(counts))
    if what == "↑" and axis is None and rank_of(y) < len(counts) and count_of(y) == 0:
        y = filled((0,) * len(counts), prototype(y))  # all elements of the result are fills
    if axis is None:
        axes = list(range(len(counts)))
        if len(counts) > rank_of(y):
            raise errors.length(f"{what} takes at most one number for each axis: {len(counts)} for {shape_text(y)}")
    else:
        axes = [n - s.io for n in whole_list(axis, "an axis")]
        if len(axes) != len(counts) or len(set(axes)) != len(axes):
            raise errors.length(f"{what} takes one number for each of the axes")
        if any(not 0 <= a < rank_of(y) for a in axes):
            raise errors.rank(f"{shape_text(y)} has no such axis")
    return tuple(counts), y, axes


@dyadic("↑", axis=True)
def take(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
    """Take the first or last elements, with fills if there are too few."""
    counts, y, axes = _counts("↑", x, y, axis, s)
    full = list(shape_of(y))
    for a, n in zip(axes, counts):
        full[a] = n
    if _too_large(full):
        raise errors.AplError("LIMIT ERROR", "↑ of so many elements")
    if isinstance(y, Array) and axes == list(range(len(counts))):
        full = list(counts)
    direct = lambda y: _taken(full, y)
    return moved(("↑", *full), lambda y: verbs.take(tuple(full), y), y, dims=has_dims(full), direct=direct)


def _taken(counts: Sequence[int], y: NDArray) -> NDArray:
    """Take by slices of NumPy, from the ends for negative counts; fills stand at the other end."""
    part = y[tuple(slice(0, n) if n >= 0 else slice(max(0, m + n), m) for n, m in zip(counts, y.shape))]
    wanted = tuple(map(abs, counts))
    if part.shape == wanted:
        return part
    made = np.full(wanted, prototype(y), y.dtype)
    made[tuple(slice(0, m) if n >= 0 else slice(-n - m, -n) for n, m in zip(counts, part.shape))] = part
    return made


def _too_large(extents: Sequence[Any]) -> bool:
    """Whether an array would have too many elements; 0 counts as 1, as in NumPy."""
    return prod(abs(n) or 1 for n in extents if isinstance(n, int)) > 2**31


@dyadic("↓", axis=True)
def drop(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
    """Remove the first or last elements."""
    counts, y, axes = _counts("↓", x, y, axis, s)
    full: list[Any] = [0] * rank_of(y)
    for a, n in zip(axes, counts):
        extent = shape_of(y)[a]
        full[a] = max(-extent, min(extent, n)) if isinstance(n, int) and isinstance(extent, int) else n
    if isinstance(y, Array) and axes == list(range(len(counts))):
        full = full[: len(counts)]
    direct = lambda y: y[tuple(slice(n, None) if n >= 0 else slice(0, m + n) for n, m in zip(full, y.shape))]
    return moved(("↓", *full), lambda y: verbs.drop(tuple(full), y), y, dims=has_dims(full), direct=direct)


@monadic("↑", axis=True)
def mix(s: Settings, y: Value, axis: Value | None = None) -> Value:
    """Open a nested array: its elements become cells of an array, padded with fills to one shape."""
    if isinstance(y, Nested):
        return lifted(y)
    if not is_nested(y):
        return y
    if not y.size:
        return filled((*y.shape, *shape_of(prototype(y))), prototype(prototype(y)))
    made = assembled(elements(y), y.shape)
    if axis is not None and rank_of(made) > y.ndim:
        at = int(np.ceil(simple_list(axis, "an axis")[0])) - s.io
        own = list(range(rank_of(made)))
        inner, frame = own[y.ndim :], own[: y.ndim]
        order = frame[:at] + inner + frame[at:]
        made = moved(("⍉", *order), lambda m: verbs.transpose(m, tuple(order.index(k) for k in own)), made)
    return made


def assembled(cells: Sequence[Value], frame: Sequence[int]) -> Value:
    """Assemble cells along a frame, padded with fills if their shapes differ."""
    if not cells:
        return np.zeros(tuple(frame), np.int64)
    cells = [settled(c) for c in cells]
    rank = max(rank_of(c) for c in cells)
    cells = [c if rank_of(c) == rank else with_shape(c, (1,) * (rank - rank_of(c)) + shape_of(c)) for c in cells]
    shapes = {shape_of(c) for c in cells}
    if len(shapes) > 1:
        largest = tuple(max(n) for n in zip(*(known_shape(c) for c in cells)))
        cells = [moved(("↑", *largest), lambda c: verbs.take(largest, c), c) if rank else c for c in cells]
    if any(is_traced(c) for c in cells) and not any(is_nested(c) for c in cells):
        return lifted(objects(cells, tuple(frame)))
    if any(is_nested(c) for c in cells) or len({c.dtype.kind == "U" for c in cells}) > 1:
        parts = [e for c in cells for e in elements(c)]
        own = shape_of(cells[0])
        return simplified(objects(parts, (*frame, *own)))
    return np.stack(cells).reshape((*frame, *shape_of(cells[0])))


# Either argument ----------------------------------------------------------------------------------------------


@monadic("⊢")
@monadic("⊣")
def same(s: Settings, y: Value) -> Value:
    """The argument."""
    return y


@dyadic("⊢")
def right(s: Settings, x: Value, y: Value) -> Value:
    """The right argument."""
    return y


@dyadic("⊣")
def left(s: Settings, x: Value, y: Value) -> Value:
    """The left argument."""
    return x
