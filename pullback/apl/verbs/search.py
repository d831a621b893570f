"""Verbs that compare and find: ⍳ ∊ ⍷ ∪ ∩ ~ ⍸ ⍋ ⍒ ≡ ≢."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback import verbs
from pullback.apl import errors
from pullback.apl.numbers import kind_of
from pullback.apl.table import Settings, dyadic, monadic
from pullback.apl.values import (
    NDArray,
    Value,
    elements,
    from_python,
    is_characters,
    is_nested,
    is_traced,
    lifted,
    objects,
    prototype,
    rank_of,
    scalar,
    settled,
    shape_of,
    simplified,
    vector,
    whole_list,
)
from pullback.apl.verbs.direct import ends, pieces
from pullback.apl.verbs.joining import joined
from pullback.apl.verbs.scalar import DYADIC, pervade, shape_text
from pullback.tracing.active import is_tracing
from pullback.tracing.array import Array
from pullback.verbs.nested import Nested

FEW = 4  # numbers that are sought one by one
RANDOM = np.random.default_rng(16807)


# Equality of arrays -------------------------------------------------------------------------------------------


def same(x: Value, y: Value, ct: float) -> bool:
    """Whether two values match: shape, structure, elements, and fills of empty arrays."""
    x, y = settled(x), settled(y)
    if shape_of(x) != shape_of(y):
        return False
    if not x.size:
        a, b = prototype(x), prototype(y)
        return same(a, b, ct) if a.ndim or is_nested(a) else not b.ndim and is_characters(a) == is_characters(b)
    if is_nested(x) or is_nested(y):
        return all(same(a, b, ct) for a, b in zip(elements(x), elements(y)))
    return bool(np.all(pervade(DYADIC["="], ct, x, y)))


@dyadic("≡")
def match(s: Settings, x: Value, y: Value) -> Value:
    """Whether both are the same array."""
    if is_traced(x) or is_traced(y):
        if rank_of(x) != rank_of(y) or any(
            isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(shape_of(x), shape_of(y))
        ):
            return scalar(0)
        return pb.all(lifted(pervade(DYADIC["="], s.ct, x, y)))
    return scalar(int(same(x, y, s.ct)))


@dyadic("≢")
def differ(s: Settings, x: Value, y: Value) -> Value:
    """Whether the arguments are different arrays."""
    made = match(s, x, y)
    return scalar(1 - int(made)) if isinstance(made, np.ndarray) else pb.logical_not(made)


# Finding ------------------------------------------------------------------------------------------------------


def key_of(x: Value, ct: float) -> Any:
    """A hashable key of an element; equal elements have equal keys, without tolerance."""
    if not is_nested(x):
        return (x.shape, "U" if x.dtype.kind == "U" else "n", tuple(x.ravel().tolist()))
    return (x.shape, "O", tuple(key_of(e, ct) for e in elements(x)))


def cells_of(x: NDArray) -> list[NDArray]:
    """Return the major cells."""
    return elements(x) if x.ndim == 1 else [x[k] if x.ndim else x for k in range(len(x))] if x.ndim else [x]


def found_in(table: list[NDArray], sought: list[NDArray], ct: float) -> NDArray:
    """The first position of each of `sought` in the table; its length if absent."""
    first: dict[Any, int] = {}
    for k, cell in enumerate(table):
        first.setdefault(key_of(cell, ct), k)
    places = [first.get(key_of(c, ct), len(table)) for c in sought]
    floating = ct and any(c.dtype.kind == "f" or is_nested(c) for c in (*table[:50], *sought[:50]))
    if floating:
        for n, (c, at) in enumerate(zip(sought, places)):
            places[n] = next((k for k, t in enumerate(table[:at]) if same(t, c, ct)), at)
    return np.array(places, np.int64)


def places_in(pool: NDArray, sought: NDArray, ct: float) -> NDArray:
    """The first position in a vector of each element of `sought`; the vector's length if absent."""
    kinds = pool.dtype.kind + sought.dtype.kind
    if kinds == "UU":
        pool, sought = (x.view(np.uint32).astype(np.int64) for x in (pool, sought))  # code points
    elif kinds.strip("bif"):
        return found_in(elements(pool), elements(sought), ct).reshape(sought.shape)
    if not (pool.size and sought.size):
        return np.zeros(sought.shape, np.int64)
    if sought.size <= FEW:
        made = [_first_place(pool, number, ct) for number in sought.reshape(-1)]
        return np.array(made, np.int64).reshape(sought.shape)
    if pool.dtype.kind in "bi" and sought.dtype.kind in "bi":
        return _first_places(pool.astype(np.int64, copy=False), sought.astype(np.int64, copy=False))
    return _first_close(pool.astype(float), sought.astype(float), ct)


def first_cells(x: NDArray, ct: float) -> NDArray:
    """For each major cell, the position of the first that equals it."""
    return places_in(x, x, ct) if x.ndim == 1 else found_in(cells_of(x), cells_of(x), ct)


def _first_place(pool: NDArray, number: Any, ct: float) -> int:
    """The first position of one number."""
    for at in pieces(len(pool)):
        same = pervade(DYADIC["="], ct, pool[at], np.asarray(number))
        if same.any():
            return int(at.start + same.argmax())
    return len(pool)


def _first_places(pool: NDArray, sought: NDArray) -> NDArray:
    """The first positions of integers."""
    low, high, count = int(pool.min()), int(pool.max()), len(pool)
    if high - low > 4 * count + 1000:
        order = np.argsort(pool, kind="stable")
        at = np.minimum(np.searchsorted(pool, sought, sorter=order), count - 1)
        found = order[at]
        return np.where(pool[found] == sought, found, count)
    least, most = max(low - 1, -(2**63)), min(high + 1, 2**63 - 1)
    first = np.full(most - least + 1, count)  # a table of all integers between them, and of one beyond each end
    first[pool[::-1] - least] = np.arange(count)[::-1]  # of several positions the last one stays
    at = np.clip(sought, least, most)
    at -= least
    return first.take(at)


def _first_close(pool: NDArray, sought: NDArray, ct: float) -> NDArray:
    """The first positions of floating-point numbers, of which those that are close are equal.

    In the sorted pool the numbers that are close to one are neighbors (`direct.ends`), and the least of their
    positions is the first.
    """
    numbers, first = np.unique(pool, return_index=True)
    least, greatest = ends(ct, sought)
    start, stop = np.searchsorted(numbers, least), np.searchsorted(numbers, greatest, side="right")
    some = (start < stop) & (sought == sought)  # a NaN equals none
    made = np.full(sought.shape, len(pool))
    made[some] = _least_in_ranges(first, start[some], stop[some])
    return made


def _least_in_ranges(x: NDArray, start: NDArray, stop: NDArray) -> NDArray:
    """The least element of each of some ranges of a vector.

    Two of the ranges whose length is a power of 2, which may overlap, cover each of them. Their least elements are
    those of ranges of half the length, two by two.
    """
    made, size, length = np.empty(start.shape, x.dtype), stop - start, 1
    while length <= size.max(initial=0):
        own = np.flatnonzero((size >= length) & (size < 2 * length))
        made[own] = np.minimum(x[start[own]], x[stop[own] - length])
        x = np.minimum(x[:-length], x[length:])
        length *= 2
    return made


@monadic("⍳")
def indices(s: Settings, y: Value) -> Value:
    """Return the indices of an array with the shape y."""
    extents = whole_list(y, "⍳")
    if any(isinstance(n, int) and n < 0 for n in extents):
        raise errors.domain("⍳ takes no negative number")
    if rank_of(y) == 0 or len(extents) == 1:
        (n,) = extents
        if isinstance(n, int):
            if n > 2**31:
                raise errors.AplError("LIMIT ERROR", f"⍳ of {n} is too large")
            return np.arange(s.io, n + s.io)
        return pb.arange(n) + s.io
    if is_tracing():
        return Nested(extents, lambda *i: vector([from_python(k + s.io) for k in i]))
    shape = tuple(extents)
    if int(np.prod(shape, dtype=object)) > 10**7:
        raise errors.AplError("LIMIT ERROR", "⍳ of so many elements")
    return (
        objects([np.array(i, np.int64).reshape(-1) + s.io for i in np.ndindex(*shape)], shape)
        if extents
        else objects([np.zeros(0, np.int64)], ())
    )


@dyadic("⍳")
def index_of(s: Settings, x: Value, y: Value) -> Value:
    """The first position of each cell of y among those of x."""
    if rank_of(x) == 0:
        raise errors.rank("⍳ takes a vector, or an array of more axes, to look in")
    if is_traced(x) or is_traced(y):
        if rank_of(x) != 1:
            raise errors.rank("⍳ takes a vector to look in, in a compiled function")
        a, b = lifted(x), lifted(y)
        if kind_of(a) != kind_of(b):
            a, b = a * 1.0, b * 1.0
        return verbs.index_of(a, b) + s.io
    cell = x.ndim - 1
    if y.ndim < cell:
        raise errors.rank(f"⍳ looks for arrays of rank {cell}, and there is {shape_text(y)}")
    if y.shape[y.ndim - cell :] != x.shape[1:]:
        return np.full(y.shape[: y.ndim - cell], len(x) + s.io)
    if not cell:
        return np.asarray(places_in(x, y, s.ct) + s.io)
    frame = y.shape[: y.ndim - cell]
    own = [y[i] for i in np.ndindex(*frame)]
    return np.asarray(found_in(cells_of(x), own, s.ct).reshape(frame) + s.io)


@dyadic("∊")
def member(s: Settings, x: Value, y: Value) -> Value:
    """Whether each element of x is one of y."""
    if is_traced(x) or is_traced(y):
        return pb.isin(lifted(x), lifted(y))
    return np.asarray(places_in(y.reshape(-1), x, s.ct) < y.size, np.int64)


@dyadic("⍷")
def find(s: Settings, x: Value, y: Value) -> Value:
    """Mark the places where x begins as a part of y."""
    x, y = known("⍷", x, y)
    if x.ndim > y.ndim:
        return np.zeros(y.shape, np.int64)
    x = x.reshape((1,) * (y.ndim - x.ndim) + x.shape)
    made = np.zeros(y.shape, np.int64)
    for at in np.ndindex(*(min(max(n - m + 1, 0), n) for n, m in zip(y.shape, x.shape))):
        part = y[tuple(slice(a, a + m) for a, m in zip(at, x.shape))]
        made[at] = same(np.asarray(part), x, s.ct)
    return made


def known(what: str, *values: Value) -> list[NDArray]:
    """Return the arguments of a verb whose result shape depends on data.

    Raises:
        AplError: [E809] an argument is not known when the function is compiled.
    """
    made = [settled(v) for v in values]
    for v in made:
        if is_traced(v):
            raise errors.of_data(
                what,
                getattr(v, "name", None) or "a traced value",
                INSTEAD.get(what, "the line outside of the compiled function"),
            )
    return made


INSTEAD = {
    "⍸": "a sum over `mask×…`, which takes no place for what the mask leaves out",
    "∪": "a sum over `mask×…`, or ∪ outside of the compiled function",
}


@monadic("∪")
def unique(s: Settings, y: Value) -> Value:
    """Return each distinct major cell once."""
    (y,) = known("∪", y)
    if not y.ndim:
        return y.reshape(1)
    if not len(y):
        return y
    places = first_cells(y, s.ct)
    return simplified(y[places == np.arange(len(y))])


@monadic("≠")
def first_ones(s: Settings, y: Value) -> Value:
    """Whether each major cell is the first of its kind."""
    (y,) = known("≠", y)
    places = first_cells(y, s.ct)
    return (places == np.arange(len(places))).astype(np.int64).reshape(y.shape[:1] or (1,))


@dyadic("∪")
def union(s: Settings, x: Value, y: Value) -> Value:
    """The elements of x, then those of y that are not in x."""
    x, y = _vectors("∪", x, y)
    return joined(",", x, y[places_in(x, y, s.ct) == len(x)], 0)


@dyadic("∩")
def intersection(s: Settings, x: Value, y: Value) -> Value:
    """The elements of x that are also in y."""
    x, y = _vectors("∩", x, y)
    return simplified(x[places_in(y, x, s.ct) < len(y)])


@dyadic("~")
def without(s: Settings, x: Value, y: Value) -> Value:
    """The elements of x that are not in y."""
    x, y = known("~", x, y)
    if x.ndim > 1:
        raise errors.rank(f"~ takes a vector to its left, not {shape_text(x)}")
    return simplified(x.reshape(-1)[places_in(y.reshape(-1), x.reshape(-1), s.ct) == y.size])


def _vectors(what: str, x: Value, y: Value) -> list[NDArray]:
    made = known(what, x, y)
    for v in made:
        if v.ndim > 1:
            raise errors.rank(f"{what} takes vectors, not {shape_text(v)}")
    return [v.reshape(-1) for v in made]


@monadic("⍸")
def where(s: Settings, y: Value) -> Value:
    """Return the indices of nonzero elements, each repeated as often as its element says."""
    (y,) = known("⍸", y)
    if is_nested(y) or y.dtype.kind not in "biuf" or (y != np.floor(y)).any() or (y.size and y.min() < 0):
        raise errors.domain("⍸ takes whole numbers from 0")
    if y.sum(dtype=float) > 2**31:
        raise errors.AplError("LIMIT ERROR", "⍸ of so large numbers")
    if not y.ndim:
        return objects([np.zeros(0, np.int64)] * int(y))
    at = np.argwhere(y) + s.io
    times = y[y != 0].astype(np.int64)
    at = np.repeat(at, times, axis=0)
    return at.reshape(-1) if y.ndim == 1 else objects(list(at))


@dyadic("⍸")
def interval(s: Settings, x: Value, y: Value) -> Value:
    """The number of elements of the sorted x at or below each element of y."""
    if is_traced(x) or is_traced(y):
        return pb.searchsorted(lifted(x), lifted(y), side="right") - (1 - s.io)
    if x.ndim != 1 or is_nested(x) or is_nested(y):
        raise errors.rank("⍸ takes a sorted simple vector to its left")
    if is_characters(x) != is_characters(y) and x.size and y.size:
        raise errors.domain("⍸ compares numbers with numbers, and characters with characters")
    if (x[1:] < x[:-1]).any():
        raise errors.domain("⍸ takes a sorted vector to its left")
    return np.searchsorted(x, y, side="right").astype(np.int64) - (1 - s.io)


def _grading(glyph: str, down: bool) -> None:
    @monadic(glyph)
    def grade(s: Settings, y: Value) -> Value:
        """Return the stable order that sorts the major cells."""
        if isinstance(y, Array):
            if y.rank != 1:
                raise errors.rank(f"{glyph} takes a vector in a compiled function")
            return pb.argsort(y, descending=down, stable=True) + s.io
        y = settled(y)
        if not y.ndim:
            raise errors.rank(f"{glyph} takes an array with an axis to sort along")
        if y.ndim == 1 and y.dtype.kind in "biuf":
            return _order_of_numbers(y, down) + s.io
        keys = [ordering(c) for c in cells_of(y)]
        try:
            return (
                np.array(sorted(range(len(keys)), key=keys.__getitem__, reverse=False), np.int64) + s.io
                if not down
                else _down(keys) + s.io
            )
        except TypeError:
            raise errors.domain("what is sorted is of one kind") from None

    @dyadic(glyph)
    def collated(s: Settings, x: Value, y: Value) -> Value:
        """Return the order that sorts characters by their positions in x."""
        x, y = known(glyph, x, y)
        if x.ndim != 1 or not is_characters(x) or not is_characters(y):
            raise errors.domain(f"{glyph} takes a vector of characters to its left, and characters to its right")
        return grade(s, places_in(x, y, 0.0))


def _order_of_numbers(y: NDArray, down: bool) -> NDArray:
    """Return the stable order of a vector of numbers."""
    if not down:
        return np.argsort(y, kind="stable")
    return len(y) - 1 - np.argsort(y[::-1], kind="stable")[::-1]


def _down(keys: list[Any]) -> NDArray:
    order = sorted(range(len(keys) - 1, -1, -1), key=keys.__getitem__)
    return np.array(order[::-1], np.int64)


def ordering(x: Value) -> Any:
    """A key by which values are sorted: numbers before characters, then element by element."""
    if is_nested(x):
        return (1, len(x.shape), tuple(ordering(e) for e in elements(x)), x.shape)
    if x.dtype.kind == "c":
        return (0, 0, tuple((0, e.real, e.imag) for e in x.ravel().tolist()), x.shape)
    return (0, 0, tuple((1, e) if isinstance(e, str) else (0, e) for e in x.ravel().tolist()), x.shape)


_grading("⍋", False)
_grading("⍒", True)
