r"""Verbs on shapes and places: ⍴ , ⍪ ⌽ ⊖ ⍉ ↑ ↓ ⊂ ⊃ ⌷ / ⌿ \\ ⍀ ≡ ≢ ⊢ ⊣, and indexing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pullback as pb
from pullback import verbs
from pullback.apl import errors
from pullback.apl.moves import moved
from pullback.apl.scalar import shape_text
from pullback.apl.table import Settings, dyadic, monadic
from pullback.apl.values import (
    NDArray,
    Value,
    count_of,
    element,
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
from pullback.lang.handle import Handle
from pullback.lang.subscript import subscript
from pullback.verbs.nested import Nested


def axis_of(axis: Value | None, x: Value, s: Settings, default: int) -> int:
    """The axis that `f[k]` names, from 0; the default where none is named.

    Raises:
        AplError: [E803] there is no such axis.
    """
    if axis is None:
        return default
    k = whole(axis, "an axis") - s.io
    if not 0 <= k < rank_of(x):
        raise errors.rank(f"there is no axis {k + s.io} of {shape_text(x)}")
    return k


def _has_dims(numbers: Sequence[Any]) -> bool:
    return any(isinstance(n, Handle) for n in numbers)


# Shapes -------------------------------------------------------------------------------------------------------


@monadic("⍴")
def shape(s: Settings, y: Value) -> Value:
    """The extents of an array."""
    return vector([from_python(e) for e in shape_of(y)])


@dyadic("⍴")
def reshape(s: Settings, x: Value, y: Value) -> Value:
    """The elements of y in shape x, cyclically."""
    extents = whole_list(x, "⍴")
    for n in extents:
        if isinstance(n, int) and n < 0:
            raise errors.domain(f"⍴ takes no negative extent, and one is {n}")
    if len(extents) > 15:
        raise errors.AplError("LIMIT ERROR", f"an array has at most 15 axes, not {len(extents)}")
    size = int(np.prod([n for n in extents if isinstance(n, int)], dtype=object))
    if size > 2**31:
        raise errors.AplError("LIMIT ERROR", f"an array of {size} elements is too large")
    if count_of(y) == 0:  # nothing but fills to take from
        return filled(extents, prototype(y))
    return moved(("⍴", *extents), lambda y: verbs.reshape(tuple(extents), y), y, dims=_has_dims(extents))


@monadic(",", axis=True)
def ravel(s: Settings, y: Value, axis: Value | None = None) -> Value:
    """All elements as a vector."""
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
    """A matrix: the first axis, and all others joined."""
    y = settled(y)
    extents = shape_of(y)
    if not extents:
        return _reshaped(y, (1, 1))
    if isinstance(y, np.ndarray):
        return y.reshape(extents[0], int(np.prod(extents[1:])))
    return verbs.reshape((extents[0], _product(extents[1:])), y)


def _product(extents: Sequence[Any]) -> Any:
    made: Any = 1
    for e in extents:
        made = made * e
    return made


def _reshaped(y: Value, shape: tuple[int, ...]) -> Value:
    return y.reshape(shape) if isinstance(y, np.ndarray) else verbs.reshape(shape, lifted(y))


@monadic("≢")
def tally(s: Settings, y: Value) -> Value:
    """How many cells along the first axis."""
    extents = shape_of(y)
    return from_python(extents[0]) if extents else scalar(1)


@monadic("≡")
def depth(s: Settings, y: Value) -> Value:
    """How deep it is nested; negative where that is not so everywhere alike."""
    return scalar(_depth(y))


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
        return moved(("⌽", by, at), lambda y: verbs.rotate(by, y, at), y, dims=_has_dims([by]))
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
    """The elements at these places of the ravel."""
    if isinstance(y, np.ndarray):
        return simplified(y.reshape(-1)[order].reshape(order.shape))
    flat = pb.reshape(lifted(y), (-1,))
    return pb.reshape(pb.take(flat, pb.asarray(order.reshape(-1)), axis=0), order.shape)


def _reversing(glyph: str, last: bool) -> None:
    @monadic(glyph, axis=True)
    def backwards(s: Settings, y: Value, axis: Value | None = None) -> Value:
        """The elements along an axis from the last to the first."""
        y = settled(y)
        if not rank_of(y):
            return y
        at = axis_of(axis, y, s, rank_of(y) - 1 if last else 0)
        if isinstance(y, np.ndarray):
            return np.flip(y, at)
        return moved((glyph, at), lambda y: verbs.reverse(y, at), y)

    @dyadic(glyph, axis=True)
    def turned(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
        """The elements along an axis moved cyclically."""
        y = settled(y)
        if not rank_of(y):
            whole_list(x, glyph)
            return y
        return _rotated(s, x, y, axis_of(axis, y, s, rank_of(y) - 1 if last else 0))


_reversing("⌽", True)
_reversing("⊖", False)


@monadic("⍉")
def transposed(s: Settings, y: Value) -> Value:
    """The axes in the other order."""
    return moved(("⍉",), verbs.transpose, y)


@dyadic("⍉")
def reordered(s: Settings, x: Value, y: Value) -> Value:
    """Axis k of y as axis x[k] of the result."""
    y = settled(y)
    axes = [n - s.io for n in whole_list(x, "⍉")]
    if len(axes) != rank_of(y):
        raise errors.length(f"⍉ takes one number for each axis, and {shape_text(y)} has {rank_of(y)}, not {len(axes)}")
    if axes and (min(axes) < 0 or set(axes) != set(range(max(axes) + 1))):
        raise errors.domain("⍉ takes the places of the axes, with none left out")
    if not axes:
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
    """One count for each of the axes listed."""
    counts = whole_list(x, what)
    y = settled(y)
    if not rank_of(y):
        y = _reshaped(y, (1,) * len(counts))
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
    """The first or last elements, filled where there are too few."""
    counts, y, axes = _counts("↑", x, y, axis, s)
    full = list(shape_of(y))
    for a, n in zip(axes, counts):
        full[a] = n
    if _too_large(full):
        raise errors.AplError("LIMIT ERROR", "↑ of so many elements")
    if isinstance(y, Handle) and axes == list(range(len(counts))):
        full = list(counts)
    return moved(("↑", *full), lambda y: verbs.take(tuple(full), y), y, dims=_has_dims(full))


def _too_large(extents: Sequence[Any]) -> bool:
    return int(np.prod([abs(n) for n in extents if isinstance(n, int)], dtype=object)) > 2**31


@dyadic("↓", axis=True)
def drop(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
    """What is left without the first or last elements."""
    counts, y, axes = _counts("↓", x, y, axis, s)
    full: list[Any] = [0] * rank_of(y)
    for a, n in zip(axes, counts):
        extent = shape_of(y)[a]
        full[a] = max(-extent, min(extent, n)) if isinstance(n, int) and isinstance(extent, int) else n
    if isinstance(y, Handle) and axes == list(range(len(counts))):
        full = full[: len(counts)]
    return moved(("↓", *full), lambda y: verbs.drop(tuple(full), y), y, dims=_has_dims(full))


@monadic("↑", axis=True)
def mix(s: Settings, y: Value, axis: Value | None = None) -> Value:
    """The elements of a nested array as cells of an array, filled to one shape."""
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
    """Cells put together along a frame, filled to one shape where they differ."""
    if not cells:
        return np.zeros(tuple(frame), np.int64)
    cells = [settled(c) for c in cells]
    rank = max(rank_of(c) for c in cells)
    cells = [c if rank_of(c) == rank else _reshaped(c, (1,) * (rank - rank_of(c)) + shape_of(c)) for c in cells]
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


@monadic("↓", axis=True)
def split(s: Settings, y: Value, axis: Value | None = None) -> Value:
    """The vectors along the last axis as elements."""
    y = settled(y)
    if not rank_of(y):
        return y
    at = axis_of(axis, y, s, rank_of(y) - 1)
    return enclosed_axes(y, [at])


def enclosed_axes(y: Value, axes: Sequence[int]) -> Value:
    """The arrays along some axes as elements of the rest."""
    frame = [k for k in range(rank_of(y)) if k not in axes]
    order = [*frame, *axes]
    turned = (
        moved(("⍉", *order), lambda y: verbs.transpose(y, tuple(order.index(k) for k in range(rank_of(y)))), y)
        if order != list(range(rank_of(y)))
        else y
    )
    if isinstance(turned, Handle):
        return verbs.enclose(turned, len(axes))
    shape = turned.shape[: len(frame)]
    return objects(
        [turned[i] if rank_of(turned) > len(frame) else np.array(turned[i]) for i in np.ndindex(*shape)], shape
    )


@monadic("⊂", axis=True)
def enclose(s: Settings, y: Value, axis: Value | None = None) -> Value:
    """The array as one element; a plain scalar stays what it is."""
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
    """Enclosed, where it is a simple array."""
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
    """The element on a way down."""
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
    """Indices from 0.

    Raises:
        AplError: [E805] one is out of range.
    """
    made = []
    for i, n in zip(at, shape):
        if isinstance(i, int) and (i < s.io or (isinstance(n, int) and i >= n + s.io)):
            raise errors.index(f"there is no element {i} along an axis of {n}", remedy=f"the first is {s.io}: ⎕IO")
        made.append(i - s.io)
    return tuple(made)


# Indexing -----------------------------------------------------------------------------------------------------


def chosen(y: Value, indices: Sequence[Value | None], s: Settings) -> Value:
    """`y[i;j]`: for each axis an array of indices, None for all of it."""
    y = settled(y)
    if len(indices) == 1 and rank_of(y) != 1 and indices[0] is not None and is_nested(indices[0]):
        return chosen_points(y, indices[0], s)
    if len(indices) != rank_of(y):
        raise errors.rank(f"[ ] takes one index for each axis: {rank_of(y)} of them, not {len(indices)}")
    traced = [i for i in indices if isinstance(i, Handle) and not _is_known(i)]
    if traced:
        return _gathered(y, indices, s)
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


def _is_known(i: Handle) -> bool:
    return i.index is not None or i.literal is not None


def _gathered(y: Value, indices: Sequence[Value | None], s: Settings) -> Value:
    """Elements at places that are computed; every one is checked while the program runs."""
    h = lifted(y)
    for k, i in reversed(list(enumerate(indices))):
        if i is None:
            continue
        own = lifted(i) - s.io
        lead = (slice(None),) * k
        if own.rank == 0:
            h = subscript(h, (*lead, own))
        else:
            picked = pb.take(h, pb.reshape(own, (-1,)), axis=k)
            h = pb.reshape(picked, (*h.shape[:k], *own.shape, *h.shape[k + 1 :]))
    return h


def chosen_points(y: Value, points: Value, s: Settings) -> Value:
    """`y[points]`: an element for each index vector."""
    made = []
    for p in elements(points):
        if is_nested(p):
            made.append(pick(s, p, y))
            continue
        at = whole_list(p, "[ ]")
        if len(at) != rank_of(y):
            raise errors.rank(f"[ ] takes as many numbers as axes, {rank_of(y)}, not {len(at)}")
        made.append(element(y, places(at, shape_of(y), s)))
    return simplified(objects(made, points.shape))


@dyadic("⌷", axis=True)
def index(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
    """`i j⌷y`: the cells at indices along the leading axes, or along those named."""
    y = settled(y)
    x = settled(x)
    if isinstance(x, Handle) and not _is_known(x):
        if x.rank:
            raise errors.of_data("⌷", x.name or "the index", "y[i] with one index for each axis")
        indices: list[Value | None] = [x]
    else:
        if rank_of(x) > 1:
            raise errors.rank("⌷ takes a scalar or a vector of indices")
        indices = [*elements(x)] if isinstance(x, np.ndarray) else [x]
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
def materialised(s: Settings, y: Value) -> Value:
    """The array itself."""
    return y


# Joining ------------------------------------------------------------------------------------------------------


def _joining(glyph: str, last: bool) -> None:
    @dyadic(glyph, axis=True)
    def catenate(s: Settings, x: Value, y: Value, axis: Value | None = None) -> Value:
        """Two arrays along an axis; along a new one where the axis is a fraction."""
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
    """Two arrays along an axis."""
    rank = max(rank_of(x), rank_of(y))
    if min(rank_of(x), rank_of(y)) and abs(rank_of(x) - rank_of(y)) > 1:
        raise errors.rank(f"{glyph} takes arrays whose ranks differ by one at most, not {rank_of(x)} and {rank_of(y)}")
    if rank_of(x) and rank_of(y):
        own = [shape_of(v)[:at] + shape_of(v)[at + 1 :] if rank_of(v) == rank else shape_of(v) for v in (x, y)]
        if any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(*own)):
            raise errors.length(f"{glyph} takes arrays that fit along the other axes", [shape_text(x), shape_text(y)])
    return moved((glyph, at), lambda x, y: verbs.catenate(x, y, at), x, y)


def laminate(s: Settings, x: Value, y: Value, at: int) -> Value:
    """Two arrays of one shape along a new axis."""
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
        """Each slice so many times, as many fills for a negative number."""
        y = settled(y)
        counts = whole_list(x, glyph)
        if not rank_of(y):
            y = _reshaped(y, (1,))
        at = axis_of(axis, y, s, rank_of(y) - 1 if last else 0)
        extent = shape_of(y)[at]
        if len(counts) == 1 and extent != 1:
            (count,) = counts
            if not isinstance(count, int) or count >= 0:
                return moved((glyph, count, at), lambda y: verbs.replicate(count, y, at), y, dims=_has_dims(counts))
            counts = counts * extent if isinstance(extent, int) else counts
        if extent == 1 and len(counts) != 1:
            y = verbs_replicated(y, len(counts), at, glyph)
            extent = shape_of(y)[at]
        if len(counts) != extent:
            raise errors.length(f"{glyph} takes one number for each slice: {extent}, not {len(counts)}")
        if any(c < 0 for c in counts):
            return _with_fills(glyph, counts, y, at)
        return moved((glyph, *counts, at, "each"), lambda y: verbs.replicate(tuple(counts), y, at), y)


def verbs_replicated(y: Value, count: int, at: int, glyph: str) -> Value:
    """The only slice so many times."""
    return moved((glyph, count, at), lambda y: verbs.replicate(count, y, at), y)


def _with_fills(glyph: str, counts: Sequence[int], y: Value, at: int) -> Value:
    if is_traced(y):
        raise errors.domain(
            f"{glyph} with a negative number in a compiled function", remedy="\\ and ⍀ make room for fills"
        )
    slots = [k if c > 0 else -1 for k, c in enumerate(counts) for _ in range(abs(c))]
    return filled_slots(y, slots, at)


def filled_slots(y: NDArray, slots: Sequence[int], at: int) -> NDArray:
    """The slices at these places along an axis, fills where the place is ¯1."""
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
        """The slices with fills between them."""
        y = settled(y)
        counts = whole_list(x, glyph)
        if not rank_of(y):
            y = _reshaped(y, (1,))
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


# Either argument ----------------------------------------------------------------------------------------------


@monadic("⊢")
def same(s: Settings, y: Value) -> Value:
    """The argument."""
    return y


@dyadic("⊢")
def right(s: Settings, x: Value, y: Value) -> Value:
    """The right argument."""
    return y


@monadic("⊣")
def also_same(s: Settings, y: Value) -> Value:
    """The argument."""
    return y


@dyadic("⊣")
def left(s: Settings, x: Value, y: Value) -> Value:
    """The left argument."""
    return x


@monadic("∊")
def enlist(s: Settings, y: Value) -> Value:
    """All plain elements in one vector."""
    y = settled(y)
    if not is_nested(y):
        return ravel(s, y)
    parts = [enlist(s, e) for e in elements(y)] or [np.zeros(0, np.int64)]
    made = parts[0]
    for p in parts[1:]:
        made = joined(",", made, p, 0)
    return made
