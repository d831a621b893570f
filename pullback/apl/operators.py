r"""Operators: verbs from verbs. / ⌿ \\ ⍀ ¨ ⍨ ⍣ . ∘ ⍤ ⍥ ⌺ @."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback import verbs
from pullback.apl import arrange, errors
from pullback.apl.functions import Atop, Bound, Primitive, Verb
from pullback.apl.numbers import as_numbers, kind_of
from pullback.apl.scalar import shape_text
from pullback.apl.table import Settings
from pullback.apl.values import (
    NDArray,
    Value,
    count_of,
    element,
    elements,
    filled,
    fills,
    from_python,
    holds_traced,
    is_characters,
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
from pullback.lang.handle import Handle, extent_of, from_index
from pullback.lang.subscript import subscript
from pullback.verbs.nested import Nested

KNOWN: Final = {  # reductions of the language, and of NumPy on plain numbers
    "+": (pb.add, np.add, pb.cumulative_sum),
    "×": (pb.multiply, np.multiply, pb.cumulative_prod),
    "⌈": (pb.maximum, np.maximum, pb.cumulative_max),
    "⌊": (pb.minimum, np.minimum, pb.cumulative_min),
}
LONG: Final = 64  # elements along an axis, from which a reduction is NumPy's
UNROLLED: Final = 4  # steps of ⍣ that are written out in a compiled function
LIMIT: Final = 100_000  # trips of ⍣ that has a test


def axis_value(x: Value, axis: Value | None, s: Settings, first: bool) -> int:
    """The axis that an operator works along."""
    return arrange.axis_of(axis, x, s, 0 if first else max(rank_of(x) - 1, 0))


def plain(y: Value) -> bool:
    """Whether it is an array of numbers, no element of which is a value of its own."""
    return not is_nested(y)


def glyph_of(f: Verb) -> str | None:
    """The glyph of a verb of the table."""
    return f.glyph if isinstance(f, Primitive) and f.axis is None else None


def is_scalar_verb(f: Verb) -> bool:
    """Whether it is a verb on numbers, extended to arrays element by element."""
    from pullback.apl.scalar import DYADIC

    return glyph_of(f) in DYADIC


def slices(y: Value, at: int) -> list[Value]:
    """The arrays along an axis, one after another."""
    count = shape_of(y)[at]
    if not isinstance(count, int):
        raise errors.of_data("an element by element treatment", "a dim", "+ × ⌈ ⌊, or a fixed extent")
    lead = (slice(None),) * at
    if isinstance(y, np.ndarray):
        return [_cell(y, (*lead, k)) for k in range(count)]
    return [subscript(y, (*lead, k)) for k in range(count)]


def _cell(y: NDArray, at: tuple[Any, ...]) -> NDArray:
    found = y[at]
    if isinstance(found, np.ndarray) and (y.dtype != object or (found.dtype == object and y.ndim > 1)):
        return found
    return objects([found], ()) if y.dtype == object else np.asarray(found)


def own_elements(f: Verb, y: Value, x: Value | None = None) -> Value:
    """F between elements without their boxes, the result boxed where it is no scalar."""
    return arrange.enclose(
        Settings(), f(arrange.first(Settings(), y), None if x is None else arrange.first(Settings(), x))
    )


def between(f: Verb, x: Value, y: Value) -> Value:
    """F between the elements of two arrays of one shape."""
    if is_scalar_verb(f):
        return f(y, x)
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        pairs = zip(elements(x), elements(y))
        return simplified(objects([f(b, a) for a, b in pairs], y.shape)) if y.size else y
    return f(y, x)


@dataclass
class Reduce(Verb):
    """`f/` and `f⌿`: f between the elements along an axis, from the right; with a number to the left, of windows."""

    f: Verb
    settings: Settings
    first: bool
    axis: Value | None = None

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The array without the axis, or with it shortened."""
        if x is not None:
            return self._windows(whole(x, "n f/"), y)
        if isinstance(y, Nested):
            return self._nested(y)
        if not rank_of(y):
            return y
        at = axis_value(y, self.axis, self.settings, self.first)
        glyph = glyph_of(self.f)
        if isinstance(y, Handle):
            return self._traced(y, at, glyph)
        if not y.shape[at]:
            return self._of_nothing(y, at)
        if glyph in KNOWN and plain(y) and y.dtype.kind in "biuf" and y.shape[at] > LONG:
            return _known_reduction(glyph, y, at)
        if rank_of(y) == 1:
            return self._boxed(elements(y))
        rows = slices(y, at)
        made = rows[-1]
        for row in reversed(rows[:-1]):
            made = between(self.f, row, made)
        return made

    def goes_over_all(self, y: Value) -> bool:
        """Whether the reduction of the ravel of y is one over all its axes, which keep their order."""
        return isinstance(y, Handle) and y.rank > 1 and self.axis is None and glyph_of(self.f) in KNOWN

    def of_all(self, y: Value) -> Value:
        """The reduction of all elements of an array of the function being compiled."""
        array: Any = as_numbers(y) if kind_of(y) == "b" else y
        return verbs.reduce(KNOWN[str(glyph_of(self.f))][0], array, axis=None)

    def _boxed(self, items: list[Value]) -> Value:
        made = items[-1]
        for item in reversed(items[:-1]):
            made = self.f(made, item)
        return arrange.enclose(self.settings, made)

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
        return made if isinstance(made, Nested) else objects([made], ()) if rank_of(made) else made

    def _traced(self, y: Handle, at: int, glyph: str | None) -> Value:
        array: Any = as_numbers(lifted(y)) if kind_of(y) == "b" and glyph not in ("∧", "∨") else y
        if glyph in KNOWN:
            if shape_of(y)[at] == 0:
                return pb.full([n for k, n in enumerate(shape_of(y)) if k != at], self.f.identity())
            return verbs.reduce(KNOWN[glyph][0], array, axis=at)
        if glyph in ("∧", "∨") and kind_of(y) == "b":
            return verbs.reduce(pb.logical_and if glyph == "∧" else pb.logical_or, array, axis=at)
        count = shape_of(y)[at]
        if isinstance(count, int) and count <= LONG:
            if not count:
                return self._of_nothing(np.zeros([0 if k == at else n for k, n in enumerate(known_shape(y))]), at)
            rows = slices(array, at)
            made: Value = rows[-1]
            for row in reversed(rows[:-1]):
                made = self.f(made, row)
            if rank_of(y) > 1 and shape_of(made) != shape_of(rows[-1]):
                raise errors.domain(
                    "a reduction of rows, by a verb that makes other arrays of them, is evaluated, and not compiled",
                    remedy="⍤1 around the reduction of a vector",
                )
            return made
        return verbs.reduce(lambda a, b: lifted(self.f(b, a)), array, axis=at)

    def _windows(self, n: int, y: Value) -> Value:
        y = settled(y)
        if not rank_of(y):
            y = arrange.ravel(self.settings, y)
        at = axis_value(y, self.axis, self.settings, self.first)
        count = shape_of(y)[at]
        size = abs(n)
        if not isinstance(count, int):
            raise errors.of_data("n f/", "a dim", "⌺, or a fixed extent")
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


def _of_identity(cell: NDArray, identity: Any) -> NDArray:
    """The structure of an element with the neutral element at each of its leaves."""
    if cell.dtype == object:
        return objects([_of_identity(e, identity) for e in elements(cell)], cell.shape)
    return np.full(cell.shape, identity)


def _known_reduction(glyph: str, y: NDArray, at: int) -> NDArray:
    plain = y.astype(np.int64) if y.dtype.kind in "biu" else y
    made = np.asarray(KNOWN[glyph][1].reduce(plain, axis=at))
    if plain.dtype.kind == "i" and glyph in "+×":
        exact = np.asarray(KNOWN[glyph][1].reduce(plain.astype(float), axis=at))
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
        """An array of the same shape."""
        if x is not None:
            raise errors.syntax("a scan takes one argument")
        y = settled(y)
        if not rank_of(y):
            return y
        at = axis_value(y, self.axis, self.settings, self.first)
        glyph = glyph_of(self.f)
        if isinstance(y, Handle) and glyph in KNOWN:
            array: Any = as_numbers(lifted(y)) if kind_of(y) == "b" else y
            return KNOWN[glyph][2](array, axis=at)
        count = shape_of(y)[at]
        if not isinstance(count, int):
            raise errors.of_data("a scan", "a dim", "+\\ ×\\ ⌈\\ ⌊\\, or a fixed extent")
        if not count:
            return y
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

    def _two(self, a: Value, b: Value) -> Value:
        if rank_of(a) == 0 and isinstance(a, np.ndarray) and not is_scalar_verb(self.f):
            return own_elements(self.f, b, a)
        return between(self.f, a, b)


def _restacked(rows: Sequence[Value], at: int) -> Value:
    if any(is_traced(r) for r in rows):
        return pb.stack([lifted(r) for r in rows], axis=at)
    if any(is_nested(r) for r in rows) or len({r.dtype.kind == "U" for r in rows}) > 1:
        boxes = [objects(elements(r), r.shape) for r in rows]
        return simplified(np.stack(boxes, axis=at))
    return np.stack(rows, axis=at)


@dataclass
class Each(Verb):
    """`f¨`: f of the elements, without their boxes."""

    f: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """An array of the same shape whose elements are the results."""
        given = [y] if x is None else [y, x]
        given = [_single(a, given) for a in given]
        if any(isinstance(a, Nested | Handle) and (rank_of(a) or isinstance(a, Nested)) for a in given):
            if not any(isinstance(a, np.ndarray) and a.dtype == object and a.ndim for a in given):
                return self._traced(*given)
            given = [_as_objects(a) for a in given]
        frames = [shape_of(a) for a in given if rank_of(a)]
        if len(frames) == 2 and frames[0] != frames[1]:
            wrong = errors.rank if len(frames[0]) != len(frames[1]) else errors.length
            raise wrong("¨ takes arrays of one shape", [shape_text(a) for a in given])
        shape = frames[0] if frames else ()
        if 0 in shape:
            return self._of_nothing(given, shape)
        columns = [elements(a) if rank_of(a) else [element(a, ())] * max(int(np.prod(shape)), 1) for a in given]
        return simplified(objects([self.f(*row) for row in zip(*columns)], shape))

    def _of_nothing(self, given: Sequence[Value], shape: tuple[int, ...]) -> Value:
        try:
            made = self.f(*(prototype(a) for a in given))
        except errors.AplError:
            return np.zeros(shape, np.int64)
        return filled(shape, fills(made))

    def _traced(self, *given: Value) -> Value:
        lead = next(a for a in given if isinstance(a, Nested) or rank_of(a))
        frame = shape_of(lead)
        for a in given:
            own = shape_of(a)
            if own and len(own) != len(frame):
                raise errors.rank("¨ takes arrays of one rank", [shape_text(b) for b in given])
            if any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(own, frame)):
                raise errors.length("¨ takes arrays of one shape", [shape_text(b) for b in given])
        at = lambda *i: self.f(*(element(a, i if rank_of(a) else ()) for a in given))
        made = Nested(frame, at)
        if all(isinstance(a, Handle) or not is_nested(a) for a in given):
            return verbs.each(lambda *cells: lifted(self.f(*map(from_python, cells))))(*map(lifted, given))
        return made


def _as_objects(a: Value) -> Value:
    a = settled(a)
    return objects(elements(a), known_shape(a)) if isinstance(a, Handle) and rank_of(a) else a


def _single(a: Value, given: Sequence[Value]) -> Value:
    """A single element, to go with all of the other argument."""
    if (
        len(given) == 2
        and rank_of(a)
        and count_of(a) == 1
        and not all(count_of(b) == 1 and rank_of(b) <= rank_of(a) for b in given)
    ):
        found = element(settled(a), (0,) * rank_of(a))
        return found if rank_of(found) == 0 and not is_nested(found) else objects([found], ())
    return a


@dataclass
class Commute(Verb):
    """`f⍨`: with arguments exchanged; with one argument, between it and itself."""

    f: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Y f x, or y f y."""
        return self.f(y, y) if x is None else self.f(x, y)

    def identity(self) -> Any:
        """That of the verb."""
        return self.f.identity()


@dataclass
class Over(Verb):
    """`f⍥g`: f between the results of g."""

    f: Verb
    g: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """F g y, or (g x) f g y."""
        return self.f(self.g(y)) if x is None else self.f(self.g(y), self.g(x))


@dataclass
class Beside(Verb):
    """`f∘g`: g of the right argument, then f."""

    f: Verb
    g: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """F g y, or x f g y."""
        return self.f(self.g(y), x)


class _NoCounterError(Exception):
    """A part of the state does not count the steps."""


@dataclass
class Power(Verb):
    """`f⍣n`: f so many times; `f⍣g` until g holds between a result and the one before."""

    f: Verb
    times: Any

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The last result."""

        def step(state: Value) -> Value:
            return self.f(state, x)

        if isinstance(self.times, Verb):
            return self._until(step, y)
        count = simple_list(self.times, "⍣")
        if len(count) != 1:
            raise errors.length("⍣ takes one number")
        (n,) = count
        if isinstance(n, Handle) or (holds_traced(y) and isinstance(n, int) and n > UNROLLED):
            return self._folded(step, y, n)
        n = whole(self.times, "⍣")
        if n < 0:
            raise errors.domain("⍣ takes no negative number: inverses are not derived")
        for _ in range(n):
            y = step(y)
        return y

    def _folded(self, step: Callable[[Value], Value], y: Value, n: Any) -> Value:
        """A loop of the compiled function; the state is an array, or a nest of them."""
        before, rebuild = flattened(y)
        counters = {k: b.index for k, b in enumerate(before) if b.weak == "integer" and b.index is not None}
        after, _ = flattened(step(rebuild(before)))
        counters = {k: i for k, i in counters.items() if after[k].index is not None}
        start = [_like(b, a) for b, a in zip(before, after)]
        try:
            found = self._loop(step, rebuild, start, counters, n)
        except _NoCounterError:
            counters = {}
            found = self._loop(step, rebuild, start, counters, n)
        ends = {k: from_index(i + extent_of(n, "⍣")) for k, i in counters.items()}
        return rebuild([ends.get(k, x) for k, x in enumerate(found)])

    def _loop(
        self,
        step: Callable[[Value], Value],
        rebuild: Callable[[list[Any]], Value],
        start: list[Any],
        counters: dict[int, Any],
        n: Any,
    ) -> list[Any]:
        """The states after n steps; what only counts them is the loop's index, which is checked by induction."""
        kept = [k for k in range(len(start)) if k not in counters]

        def body(state: Any, trip: Any) -> Any:
            full = dict(zip(kept, state)) | {k: from_index(i + trip.index) for k, i in counters.items()}
            after, _ = flattened(step(rebuild([full[k] for k in range(len(start))])))
            if any(after[k].index is not i + trip.index + 1 for k, i in counters.items()):
                raise _NoCounterError
            return tuple(_like(after[k], x) for k, x in zip(kept, state))

        if not kept:
            return start
        found = dict(zip(kept, pb.fold(n, tuple(start[k] for k in kept), body)))
        return [found.get(k, start[k]) for k in range(len(start))]

    def _until(self, step: Callable[[Value], Value], y: Value) -> Value:
        if is_traced(y):

            def test(state: Any) -> Any:
                return pb.logical_not(_as_test(self.times(state[1], state[0])))

            first = lifted(step(y))
            start = (first, _like(lifted(y), first))
            return pb.while_loop(test, lambda s: (_like(lifted(step(s[0])), s[0]), s[0]), start)[0]
        for _ in range(LIMIT):
            after = step(y)
            held = self.times(y, after)
            if whole(held, "⍣"):
                return after
            y = after
        raise errors.AplError("LIMIT ERROR", f"⍣ has made {LIMIT} steps, and its test has not held")


def _as_test(x: Value) -> Any:
    made = x if is_traced(x) else lifted(x)
    return made if kind_of(made) == "b" else made != 0


def flattened(x: Value) -> tuple[list[Any], Callable[[list[Any]], Value]]:
    """The arrays in a nest, and how to put them back."""
    if not (isinstance(x, np.ndarray) and x.dtype == object):
        return [lifted(x)], lambda parts: parts[0]
    inner = [flattened(e) for e in x.ravel()]

    def rebuild(parts: list[Any]) -> Value:
        made, at = [], 0
        for own, again in inner:
            made.append(again(parts[at : at + len(own)]))
            at += len(own)
        return objects(made, x.shape)

    return [p for own, _ in inner for p in own], rebuild


def _like(x: Any, other: Any) -> Any:
    """X with the element type of another array."""
    x = lifted(x)
    wanted = other.settled
    if kind_of(x) == "b" and not wanted.is_bool:
        return as_numbers(x, wanted)
    return x if x.strong is wanted else pb.astype(x, wanted)


@dataclass
class Inner(Verb):
    """`f.g`: g between rows and columns, reduced by f."""

    f: Verb
    g: Verb
    settings: Settings

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The inner product."""
        if x is None:
            raise errors.syntax("an inner product takes two arguments")
        x, y = settled(x), settled(y)
        a, b = shape_of(x), shape_of(y)
        m, n = a[-1] if a else 1, b[0] if b else 1
        if isinstance(m, int) and isinstance(n, int) and m != n and 1 not in (m, n):
            raise errors.length(
                f"an inner product takes as many columns as rows: {m} and {n}", [shape_text(x), shape_text(y)]
            )
        if glyph_of(self.f) == "+" and glyph_of(self.g) == "×" and (is_traced(x) or is_traced(y)) and a and b:
            return self._product(x, y)
        left = arrange.enclosed_axes(x, [len(a) - 1]) if a else x
        right = arrange.enclosed_axes(y, [0]) if b else y
        reduce = Reduce(self.f, self.settings, False)
        if isinstance(left, Nested) or isinstance(right, Nested) or is_traced(x) or is_traced(y):
            return self._cells(x, y, reduce)

        def one(p: Value, q: Value) -> Value:
            return arrange.first(self.settings, reduce(self._between(p, q)))

        rows = _vectors(left, a)
        columns = _vectors(right, b)
        frame = (*a[:-1], *b[1:])
        made = [one(p, q) for p in rows for q in columns]
        return simplified(objects(made, frame)) if made else np.zeros(frame, np.int64)

    def _between(self, p: Value, q: Value) -> Value:
        n = max(count_of(p) or 0, count_of(q) or 0) if 0 not in (count_of(p), count_of(q)) else 0
        if not is_scalar_verb(self.g):
            ps, qs = elements(p), elements(q)
            ps, qs = (ps * n if len(ps) == 1 else ps), (qs * n if len(qs) == 1 else qs)
            return vector([self.g(b, a) for a, b in zip(ps, qs)])
        made = self.g(q, p)
        return made if rank_of(made) else arrange.ravel(self.settings, made)

    def _product(self, x: Value, y: Value) -> Value:
        from pullback.apl.numbers import converted

        (p, q), _ = converted([x, y], "number")
        return pb.tensordot(lifted(p), lifted(q), axes=1)

    def _cells(self, x: Value, y: Value, reduce: Reduce) -> Value:
        a, b = lifted(x), lifted(y)
        rows, columns = max(a.rank - 1, 0), max(b.rank - 1, 0)

        def at(*i: Any) -> Any:
            p = subscript(a, i[:rows]) if rows else a
            q = subscript(b, (slice(None), *i[rows:])) if columns else b
            return lifted(reduce(self.g(q, p)))

        frame = (*a.shape[:rows], *(b.shape[1:] if b.rank else ()))
        return pb.build(frame, at) if frame else at()


def _vectors(x: Value, shape: Sequence[int]) -> list[Value]:
    return elements(x) if shape else [x]


@dataclass
class Outer(Verb):
    """`∘.f`: f between every element of the left argument and every one of the right."""

    f: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """An array of the shapes of both, one after another."""
        if x is None:
            raise errors.syntax("an outer product takes two arguments")
        x, y = settled(x), settled(y)
        a, b = shape_of(x), shape_of(y)
        if is_traced(x) or is_traced(y):
            if not any(isinstance(v, np.ndarray) and v.dtype == object for v in (x, y)):
                return verbs.table(lambda p, q: lifted(self.f(from_python(q), from_python(p))))(lifted(x), lifted(y))
        if is_scalar_verb(self.f) and isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and plain(x) and plain(y):
            left = np.broadcast_to(x.reshape((*a, *(1,) * len(b))), (*a, *b))
            return self.f(np.broadcast_to(y, (*a, *b)), left)
        made = [self.f(q, p) for p in elements(x) for q in elements(y)]
        return simplified(objects(made, (*a, *b))) if made else np.zeros((*a, *b), np.int64)


@dataclass
class Rank(Verb):
    """`f⍤k`: f of the cells of rank k; `⍤(k l)` for the left and the right argument."""

    f: Verb
    ranks: Value

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The results, put together along the frame."""
        numbers = whole_list(self.ranks, "⍤")
        if not 1 <= len(numbers) <= 3:
            raise errors.length(f"⍤ takes one, two or three numbers, not {len(numbers)}")
        one, left, right = (
            (numbers * 3)[:3] if len(numbers) == 1 else ([numbers[1], *numbers] if len(numbers) == 2 else numbers)
        )
        arguments = [(y, one)] if x is None else [(x, left), (y, right)]
        given = [_unsettled(a) for a, _ in arguments]
        ranks = [_cell_rank(r, a) for (_, r), a in zip(arguments, given)]
        frames = [shape_of(a)[: rank_of(a) - r] for a, r in zip(given, ranks)]
        if len(frames) == 2 and frames[0] and frames[1]:
            if len(frames[0]) != len(frames[1]):
                raise errors.rank("the frames of ⍤ have one rank", [f"left: {frames[0]}", f"right: {frames[1]}"])
            if any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(*frames)):
                raise errors.length("the frames of ⍤ are equal", [f"left: {frames[0]}", f"right: {frames[1]}"])
        frame = max(frames, key=len)

        def call(*cells: Value) -> Value:
            return self.f(cells[-1], None if x is None else cells[0])

        if not frame:
            return call(*given)
        if any(is_traced(a) for a in given):
            return self._traced(call, given, ranks, frame)
        if 0 in frame:
            return self._of_nothing(call, given, ranks, frame)
        cells = [call(*(_sub(a, i) if rank_of(a) > r else a for a, r in zip(given, ranks))) for i in np.ndindex(*frame)]
        return arrange.assembled(cells, frame)

    def _of_nothing(
        self, call: Callable[..., Value], given: Sequence[NDArray], ranks: Sequence[int], frame: tuple[int, ...]
    ) -> Value:
        cells = [
            np.zeros(a.shape[rank_of(a) - r :], np.int64)
            if a.dtype.kind != "U"
            else np.full(a.shape[rank_of(a) - r :], " ")
            for a, r in zip(given, ranks)
        ]
        try:
            made = settled(call(*cells))
        except errors.AplError:
            return np.zeros(frame, np.int64)
        return np.zeros((*frame, *shape_of(made)), made.dtype if made.dtype != object else np.int64)

    def _traced(
        self, call: Callable[..., Value], given: Sequence[Value], ranks: Sequence[int], frame: tuple[Any, ...]
    ) -> Value:
        """Traced once, for a cell at symbolic indices; unrolled where a cell is known, such as a shape."""
        unrolled = any(isinstance(a, np.ndarray) and rank_of(a) > r for a, r in zip(given, ranks))
        if unrolled and all(isinstance(n, int) for n in frame):
            cells = [
                call(*(_sub(a, i) if rank_of(a) > r else a for a, r in zip(given, ranks))) for i in np.ndindex(*frame)
            ]
            return arrange.assembled(cells, frame)
        own = [lifted(a) if is_traced(a) or rank_of(a) > r else a for a, r in zip(given, ranks)]
        at = lambda *i: lifted(
            call(*(subscript(a, i[: rank_of(a) - r]) if rank_of(a) > r else a for a, r in zip(own, ranks)))
        )
        return pb.build(tuple(frame), at)


def _unsettled(a: Value) -> Value:
    return lifted(a) if isinstance(a, Nested) and rank_of(a) != 0 else settled(a)


def _cell_rank(k: Any, a: Value) -> int:
    if not isinstance(k, int):
        raise errors.domain("⍤ takes numbers")
    return min(k, rank_of(a)) if k >= 0 else max(rank_of(a) + k, 0)


def _sub(a: Value, i: tuple[int, ...]) -> Value:
    return _cell(a, i) if isinstance(a, np.ndarray) else subscript(a, i)


@dataclass
class Stencil(Verb):
    """`f⌺w`: f of a window that slides over the leading axes, zeros around; f also gets how far it reaches over."""

    f: Verb
    window: Value

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The results, put together along the places."""
        if x is not None:
            raise errors.syntax("⌺ takes one argument")
        y = settled(y)
        spec = settled(self.window)
        if rank_of(spec) > 2:
            raise errors.rank("⌺ takes a vector, or a matrix of two rows")
        rows = [spec] if rank_of(spec) < 2 else slices(spec, 0)
        if len(rows) not in (1, 2):
            raise errors.length("⌺ takes one row, the window, or two, the window and the step")
        window = whole_list(rows[0], "⌺")
        step = whole_list(rows[1], "⌺") if len(rows) == 2 else [1] * len(window)
        if len(window) > rank_of(y):
            raise errors.rank(f"⌺ takes at most one number for each axis: {len(window)} for {shape_text(y)}")
        if any(isinstance(n, int) and n < 1 for n in (*window, *step)):
            raise errors.domain("⌺ takes numbers from 1")
        if any(
            isinstance(w, int) and isinstance(n, int) and w > n + (1 if w % 2 == 0 else 0) + 2 * ((w - 1) // 2)
            for w, n in zip(window, shape_of(y))
        ):
            raise errors.length("⌺ takes a window that fits")
        if isinstance(y, Handle):
            return verbs.stencil(lambda cell: lifted(self._call(from_python(cell), None)), tuple(window), tuple(step))(
                y
            )
        return self._known(y, window, step)

    def _call(self, cell: Value, over: Value | None) -> Value:
        takes_left = getattr(self.f, "takes_left", False)
        if not takes_left:
            return self.f(cell)
        if over is None:
            raise errors.domain("a window's overhang is not known in a compiled function")
        return self.f(cell, over)

    def _known(self, y: NDArray, window: Sequence[int], step: Sequence[int]) -> Value:
        pads = [(w - 1) // 2 for w in window]
        places = [(n + 2 * p - w) // t + 1 for n, p, w, t in zip(y.shape, pads, window, step)]
        wide = arrange.take(Settings(), vector([scalar(-(n + p)) for n, p in zip(y.shape, pads)]), y)
        wide = arrange.take(Settings(), vector([scalar(n + 2 * p) for n, p in zip(y.shape, pads)]), wide)
        cells = []
        for i in np.ndindex(*places):
            at = [k * t for k, t in zip(i, step)]
            cell = simplified(wide[tuple(slice(a, a + w) for a, w in zip(at, window))])
            over = [max(p - a, 0) - max(a + w - (n + p), 0) for a, w, n, p in zip(at, window, y.shape, pads)]
            cells.append(self._call(cell, np.array(over, np.int64)))
        return arrange.assembled(cells, places) if cells else np.zeros(places, np.int64)


@dataclass
class At(Verb):
    """`f@i`: f of the cells at indices, or where a verb gives 1; the others as they are."""

    f: Any
    where: Any
    settings: Settings

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The array with those elements changed."""
        y = settled(y)
        s = self.settings
        if isinstance(self.where, Verb):
            mask = self.where(y)
            if is_traced(mask) or is_traced(y):
                return self._masked(y, mask, x)
            if shape_of(mask) != shape_of(y):
                raise errors.length("the mask of @ has the shape of the array")
            if mask.size and (is_nested(mask) or is_characters(mask) or not np.isin(mask, (0, 1)).all()):
                raise errors.domain("the mask of @ consists of 0 and 1")
            chosen: Any = np.flatnonzero(mask)
            return self._changed(y, [int(k) for k in chosen], (len(chosen),), (), x)
        if is_traced(y):
            if not rank_of(y):
                raise errors.rank("@ takes an array with an axis")
            return self._at_places(y, x)
        where = settled(self.where)
        rest: tuple[int, ...]
        if is_nested(where):
            tuples = [arrange.places(p, y.shape, s) for p in (whole_list(e, "@") for e in elements(where))]
            if any(len(t) != rank_of(y) for t in tuples):
                raise errors.rank("@ takes as many numbers as axes")
            flat = [int(np.ravel_multi_index(t, y.shape)) for t in tuples]
            return self._changed(y, flat, where.shape, (), x)
        if not rank_of(y):
            raise errors.rank("@ takes an array with an axis")
        rows = arrange.places(whole_list(where.reshape(-1), "@"), [len(y)] * where.size, s)
        rest = y.shape[1:]
        size = int(np.prod(rest))
        flat = [r * size + k for r in rows for k in range(size)]
        return self._changed(y, flat, where.shape, rest, x)

    def _changed(
        self, y: NDArray, flat: Sequence[int], frame: tuple[int, ...], rest: tuple[int, ...], x: Value | None
    ) -> Value:
        own = y.reshape(-1)
        selected = simplified(own[list(flat)]).reshape((*frame, *rest)) if flat else own[:0].reshape((*frame, *rest))
        new = self.f(selected, x) if isinstance(self.f, Verb) else self.f
        new = settled(new)
        if rank_of(new) and shape_of(new) != (*frame, *rest) and count_of(new) != 1 and shape_of(new) != rest:
            raise errors.length(f"@ puts as many elements as there are places: {shape_text(new)}")
        if rank_of(new) and shape_of(new) != (*frame, *rest):
            new = np.broadcast_to(new if count_of(new) != 1 else new.reshape(()), (*frame, *rest))
        values = elements(new) if rank_of(new) else [element(new, ()) if is_nested(new) else new] * len(flat)
        made = elements(y)
        for k, v in zip(flat, values):
            made[k] = v
        return simplified(objects(made, y.shape)) if made else y

    def _masked(self, y: Value, mask: Value, x: Value | None) -> Value:
        new = self.f(y, x) if isinstance(self.f, Verb) else self.f
        from pullback.apl.numbers import converted, truth

        (a, b), _ = converted([new, y], "number")
        return pb.where(truth(mask), a, b)

    def _at_places(self, y: Handle, x: Value | None) -> Value:
        s = self.settings
        rows = arrange.places(whole_list(settled(self.where), "@"), [shape_of(y)[0]] * 99999, s)
        made: Any = y
        selected = arrange.chosen(y, [vector([scalar(r + s.io) for r in rows]), *(None,) * (y.rank - 1)], s)
        new = self.f(selected, x) if isinstance(self.f, Verb) else self.f
        if rank_of(new) > y.rank:
            raise errors.rank(f"@ puts an array of at most {y.rank} axes there", [shape_text(new)])
        for k, r in enumerate(rows):
            row = subscript(lifted(new), (k,)) if rank_of(new) == y.rank else lifted(new)
            at = pb.reshape(pb.arange(shape_of(y)[0]), (-1, *(1,) * (y.rank - 1))) == r
            made = pb.where(at, _like(row, y), made)
        return made


def derive(glyph: str, left: Any, right: Any, s: Settings, axis: Value | None = None) -> Verb:
    """The verb that an operator of the language makes.

    Raises:
        AplError: [E801] the operator takes other operands.
    """
    lefts, rights = isinstance(left, Verb), isinstance(right, Verb)
    match glyph:
        case "/" | "⌿" if lefts:
            return Reduce(left, s, glyph == "⌿", axis)
        case "\\" | "⍀" if lefts:
            return Scan(left, s, glyph == "⍀", axis)
        case "¨" if lefts:
            return Each(left)
        case "⍨":
            return Commute(left) if lefts else _Constantly(left)
        case "∘" if lefts and rights:
            return Beside(left, right)
        case "∘" if lefts:
            return Bound(left, right=right)
        case "∘" if rights:
            return Bound(right, left=left)
        case "⍤" if lefts and rights:
            return Atop(left, right)
        case "⍤" if lefts:
            return Rank(left, right)
        case "⍥" if lefts and rights:
            return Over(left, right)
        case "⍣" if lefts:
            return Power(left, right)
        case "." if lefts and rights:
            return Inner(left, right, s)
        case "∘." if rights:
            return Outer(right)
        case "⌺" if lefts and not rights:
            return Stencil(left, right)
        case "@":
            return At(left, right, s)
        case _:
            raise errors.syntax(f"{glyph} takes other operands")


@dataclass
class _Constantly(Verb):
    """`a⍨`: the value, whatever the arguments."""

    value: Value

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The value."""
        return self.value
