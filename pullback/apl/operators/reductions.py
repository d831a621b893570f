r"""Reductions and scans: / ⌿ \\ ⍀."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback import verbs
from pullback.apl import errors
from pullback.apl.functions import Verb
from pullback.apl.moves import together
from pullback.apl.numbers import as_numbers, kind_of
from pullback.apl.operators.parts import LONG, between, glyph_of, is_scalar_verb, own_elements, plain, slices
from pullback.apl.table import Settings
from pullback.apl.values import (
    NDArray,
    Value,
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
    settled,
    shape_of,
    simplified,
    whole,
)
from pullback.apl.verbs import arrange, nesting
from pullback.apl.watch import refuse, watching
from pullback.arrays.subscript import subscript
from pullback.tracing.array import Array
from pullback.verbs.nested import Nested
from pullback.verbs.recognize import recognized

KNOWN: Final = {  # reductions of the language, and NumPy's for plain numbers
    "+": (pb.add, np.add, pb.cumulative_sum),
    "×": (pb.multiply, np.multiply, pb.cumulative_prod),
    "⌈": (pb.maximum, np.maximum, pb.cumulative_max),
    "⌊": (pb.minimum, np.minimum, pb.cumulative_min),
}


def axis_value(x: Value, axis: Value | None, s: Settings, first: bool) -> int:
    """Return the axis that an operator works along."""
    return arrange.axis_of(axis, x, s, 0 if first else max(rank_of(x) - 1, 0))


@dataclass
class Reduce(Verb):
    """The reduction `f/` and `f⌿` along an axis, from the right; over windows if a number is to the left."""

    f: Verb
    settings: Settings
    first: bool
    axis: Value | None = None

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the array without the axis, or with the axis shortened."""
        if x is not None:
            return self._windows(whole(x, "n f/"), y)
        if isinstance(y, Nested):
            return self._nested(y)
        if not rank_of(y):
            return y
        at = axis_value(y, self.axis, self.settings, self.first)
        glyph = glyph_of(self.f)
        if isinstance(y, Array):
            return self._traced(y, at, glyph)
        if not y.shape[at]:
            return self._of_nothing(y, at)
        if glyph in KNOWN and plain(y) and y.dtype.kind in "biuf" and y.shape[at] > LONG:
            return _known(glyph, y, at, "reduce")
        if rank_of(y) == 1:
            return self._boxed(elements(y))
        rows = slices(y, at)
        made = rows[-1]
        for row in reversed(rows[:-1]):
            made = between(self.f, row, made)
        return made

    def goes_over_all(self, y: Value) -> bool:
        """Whether reducing the ravel of y equals reducing over all its axes in order."""
        in_order = (watch := watching()) is not None and watch.exact
        return isinstance(y, Array) and y.rank > 1 and self.axis is None and glyph_of(self.f) in KNOWN and not in_order

    def of_all(self, y: Value) -> Value:
        """Reduce all elements of an array of the function being compiled."""
        array: Any = as_numbers(y) if kind_of(y) == "b" else y
        glyph = str(glyph_of(self.f))
        return _watched(glyph, y, verbs.reduce(KNOWN[glyph][0], array, axis=None), None)

    def _boxed(self, items: list[Value]) -> Value:
        made = items[-1]
        for item in reversed(items[:-1]):
            made = self.f(made, item)
        return nesting.enclose(self.settings, made)

    def _of_nothing(self, y: NDArray, at: int) -> Value:
        identity = self.f.identity()
        shape = y.shape[:at] + y.shape[at + 1 :]
        cell = prototype(y)
        if glyph_of(self.f) == ",":
            return filled(shape, filled((0,), prototype(cell)))
        if identity is None:
            raise errors.domain("a reduction of nothing, by a verb that has no neutral element")
        return filled(shape, _of_identity(cell, identity))

    def _nested(self, y: Nested) -> Value:
        glyph = glyph_of(self.f)
        how: Any = KNOWN[glyph][0] if glyph in KNOWN else lambda a, b: lifted(self.f(from_python(b), from_python(a)))
        axis = None if y.flat or len(y.shape) == 1 else -1 if not self.first else 0
        array = y.array
        if glyph in KNOWN and kind_of(array) == "b":
            y = Nested(y.shape, y.element, as_numbers(array), y.flat)
        made = verbs.reduce(how, y, axis=axis)
        if (watch := watching()) is not None:
            watch.reduced_nest(glyph if glyph in KNOWN else "", y, made)
        return made if isinstance(made, Nested) else objects([made], ()) if rank_of(made) else made

    def _traced(self, y: Array, at: int, glyph: str | None) -> Value:
        array: Any = as_numbers(lifted(y)) if kind_of(y) == "b" and glyph not in ("∧", "∨") else y
        count = shape_of(y)[at]
        watch = watching()
        in_order = watch is not None and watch.exact and isinstance(count, int) and 0 < count <= LONG
        if glyph in KNOWN and not (in_order and kind_of(y) == "f"):
            if shape_of(y)[at] == 0:
                return pb.full([n for k, n in enumerate(shape_of(y)) if k != at], self.f.identity())
            return _watched(glyph, y, verbs.reduce(KNOWN[glyph][0], array, axis=at), at)
        if glyph in ("∧", "∨") and kind_of(y) == "b":
            return verbs.reduce(pb.logical_and if glyph == "∧" else pb.logical_or, array, axis=at)
        if isinstance(count, int) and count <= LONG:
            if not count:
                return self._of_nothing(np.zeros([0 if k == at else n for k, n in enumerate(known_shape(y))]), at)
            rows = slices(array, at)
            made: Value = rows[-1]
            for row in reversed(rows[:-1]):
                made = between(self.f, row, made)
            return made
        refuse("a long reduction by another verb than + × ⌈ ⌊")
        whole_rows: Any = lambda a, b: lifted(self.f(b, a))
        rest = [e for k, e in enumerate(array.extents) if k != at]
        if rest and recognized(whole_rows, array.settled, rest) is None:
            return verbs.reduce(lambda a, b: lifted(between(self.f, a, b)), array, axis=at)
        return verbs.reduce(whole_rows, array, axis=at)

    def _windows(self, n: int, y: Value) -> Value:
        y = settled(y)
        if not rank_of(y):
            y = arrange.ravel(self.settings, y)
        at = axis_value(y, self.axis, self.settings, self.first)
        count = shape_of(y)[at]
        size = abs(n)
        if not isinstance(count, int):
            raise errors.of_data("n f/", "a dim", "⌺, or a fixed size")
        if size > count + 1:
            raise errors.length(f"windows of {size} along an axis of {count}")
        if size == 0:
            if self.f.identity() is None:
                raise errors.domain("windows of nothing, for a verb that has no neutral element")
            return np.full((*y.shape[:at], count + 1, *y.shape[at + 1 :]), self.f.identity())
        lead = (slice(None),) * at
        places = count - size + 1

        def part(k: int) -> Value:
            stretch = (*lead, slice(k, k + places))
            return y[stretch] if isinstance(y, np.ndarray) else subscript(y, stretch)

        parts = [part(k) for k in range(size)]
        if n < 0:
            parts.reverse()
        made = parts[-1]
        for p in reversed(parts[:-1]):
            made = between(self.f, p, made)
        return made


def _watched(glyph: str, y: Array, made: Any, at: int | None) -> Any:
    """Return a reduction or a scan, with its test if there is a watch."""
    watch = watching()
    return made if watch is None else watch.reduced(glyph, y, made, at)


def _of_identity(cell: NDArray, identity: Any) -> NDArray:
    """The structure of an element with the neutral element at each of its leaves."""
    if cell.dtype == object:
        return objects([_of_identity(e, identity) for e in elements(cell)], cell.shape)
    return np.full(cell.shape, identity)


def _is_small(y: NDArray, at: int) -> bool:
    """Whether no sum along an axis can overflow."""
    return bool(y.size) and max(-int(y.min()), int(y.max())) * y.shape[at] < 2**62


def _known(glyph: str, y: NDArray, at: int, how: str) -> NDArray:
    """Reduce or scan by NumPy; integers become floating-point numbers if they overflow."""
    along: Callable[..., Any] = getattr(KNOWN[glyph][1], how)
    plain = y.astype(np.int64, copy=False) if y.dtype.kind in "biu" else y
    made = np.asarray(along(plain, axis=at))
    if plain.dtype.kind == "i" and glyph in "+×" and not (glyph == "+" and _is_small(plain, at)):
        exact = np.asarray(along(plain.astype(float), axis=at))
        if exact.size and np.abs(exact).max() >= 2.0**62:
            made = exact
    if made.dtype.kind == "f" and not np.isfinite(made).all():
        raise errors.domain("the result is no finite number")
    return made


@dataclass
class Scan(Verb):
    r"""`f\` and `f⍀`: the reductions of the first one, two, … elements along an axis."""

    f: Verb
    settings: Settings
    first: bool
    axis: Value | None = None

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return an array of the same shape."""
        if x is not None:
            raise errors.syntax("a scan takes one argument")
        y = settled(y)
        if not rank_of(y):
            return y
        at = self.along(y)
        glyph = glyph_of(self.f)
        if isinstance(y, Array) and glyph in KNOWN:
            array: Any = as_numbers(lifted(y)) if kind_of(y) == "b" else y
            return _watched(glyph, y, KNOWN[glyph][2](array, axis=at), at)
        count = shape_of(y)[at]
        if not isinstance(count, int):
            raise errors.of_data("a scan", "a dim", "+\\ ×\\ ⌈\\ ⌊\\, or a fixed size")
        if not count:
            return y
        if glyph in KNOWN and plain(y) and y.dtype.kind in "biuf":
            return _known(glyph, y, at, "accumulate")
        rows = slices(y, at)
        if glyph in ("+", "×", "⌈", "⌊", "∧", "∨"):
            made = [rows[0]]
            for row in rows[1:]:
                made.append(between(self.f, made[-1], row))
        else:
            made = []
            for k in range(count):
                last = rows[k]
                for row in reversed(rows[:k]):
                    last = self._two(row, last)
                made.append(last)
        return _restacked(made, at)

    def along(self, y: Value) -> int:
        """Return the axis that the scan works along."""
        return axis_value(y, self.axis, self.settings, self.first)

    def _two(self, a: Value, b: Value) -> Value:
        if rank_of(a) == 0 and isinstance(a, np.ndarray) and not is_scalar_verb(self.f):
            return own_elements(self.f, b, a)
        return between(self.f, a, b)


def _restacked(rows: Sequence[Value], at: int) -> Value:
    if any(is_traced(r) for r in rows):
        return pb.stack(together([lifted(r) for r in rows]), axis=at)
    if any(is_nested(r) for r in rows) or len({r.dtype.kind == "U" for r in rows}) > 1:
        boxes = [objects(elements(r), r.shape) for r in rows]
        return simplified(np.stack(boxes, axis=at))
    return np.stack(rows, axis=at)
