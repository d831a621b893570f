"""Operators that apply verbs to cells: each ¨ and rank ⍤."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pullback as pb
from pullback import verbs
from pullback.apl import errors
from pullback.apl.functions import Verb
from pullback.apl.operators.parts import cell_at
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
    settled,
    shape_of,
    simplified,
    whole_list,
)
from pullback.apl.verbs import arrange
from pullback.apl.verbs.scalar import shape_text
from pullback.apl.watch import handed, watching
from pullback.arrays.subscript import subscript
from pullback.errors import PullbackError
from pullback.tracing.array import Array
from pullback.verbs.nested import Nested


@dataclass
class Each(Verb):
    """`f¨`: apply f to each element, unboxed."""

    f: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return an array of the same shape whose elements are the results."""
        given = [y] if x is None else [y, x]
        given = [_single(a, given) for a in given]
        made = self._counted(given)
        if made is not None:
            return made
        if any(isinstance(a, Nested | Array) and (rank_of(a) or isinstance(a, Nested)) for a in given):
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

    def _counted(self, given: Sequence[Value]) -> Value | None:
        """Compute the results for evenly spaced integers such as ⍳5 in one traced array.

        Return None without such integers, or if a shape depends on them: the elements are then computed one by one.
        """
        if watching() is not None:
            return None
        steps = [_steps(a) for a in given]
        one = [a for a, s in zip(given, steps) if s is None]
        if not any(steps) or len(one) != 1 or rank_of(one[0]) or not holds_traced(one[0]):
            return None
        try:
            found = self._traced(*(a if s is None else s for a, s in zip(given, steps)))
            return lifted(found) if found.array.rank == 1 else found
        except PullbackError:
            return None

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
        if all(isinstance(a, Array) or not is_nested(a) for a in given):
            call = lambda *cells: handed(lifted(self.f(*map(from_python, cells))))
            return verbs.each(call)(*map(lifted, given))
        made = Nested(frame, at)
        watch = watching()
        return made if watch is None else watch.nest(made)


def _steps(a: Value) -> Nested | None:
    """Return evenly spaced integers as a function of the index; None for other values."""
    if not isinstance(a, np.ndarray) or a.ndim != 1 or a.dtype.kind != "i" or len(a) < 2:
        return None
    first, step = int(a[0]), int(a[1]) - int(a[0])
    if not step or (np.diff(a) != step).any():
        return None
    return Nested((len(a),), lambda k: from_python(k * step + first))


def _as_objects(a: Value) -> Value:
    a = settled(a)
    return objects(elements(a), known_shape(a)) if isinstance(a, Array) and rank_of(a) else a


def _single(a: Value, given: Sequence[Value]) -> Value:
    """Return a single element, which is paired with all elements of the other argument."""
    if (
        len(given) == 2
        and rank_of(a)
        and count_of(a) == 1
        and not all(count_of(b) == 1 and rank_of(b) <= rank_of(a) for b in given)
    ):
        found = element(settled(a), (0,) * rank_of(a))
        return found if rank_of(found) == 0 and not is_nested(found) else objects([found], ())
    return a


class _NestError(Exception):
    """The exception for nested results, which are computed one by one."""


@dataclass
class Rank(Verb):
    """`f⍤k`: apply f to the cells of rank k; `⍤(k l)` gives the ranks of the left and right argument."""

    f: Verb
    ranks: Value

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the results, assembled along the frame."""
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
        if any(isinstance(n, int) and not n for n in frame):
            return self._of_nothing(call, given, ranks, frame)
        if any(is_traced(a) for a in given):
            return self._traced(call, given, ranks, frame)
        cells = [call(*(_sub(a, i) if rank_of(a) > r else a for a, r in zip(given, ranks))) for i in np.ndindex(*frame)]
        return arrange.assembled(cells, frame)

    def _of_nothing(
        self, call: Callable[..., Value], given: Sequence[NDArray], ranks: Sequence[int], frame: tuple[int, ...]
    ) -> Value:
        cells = [
            np.full(known_shape(a)[rank_of(a) - r :], " " if is_characters(a) else 0) for a, r in zip(given, ranks)
        ]
        try:
            made = settled(call(*cells))
        except errors.AplError:
            return np.zeros(frame, np.int64)
        return np.full((*frame, *shape_of(made)), " " if is_characters(made) else 0)

    def _traced(
        self, call: Callable[..., Value], given: Sequence[Value], ranks: Sequence[int], frame: tuple[Any, ...]
    ) -> Value:
        """Trace the call once, for a cell at symbolic indices; unroll it if cells are known constants."""
        unrolled = any(isinstance(a, np.ndarray) and rank_of(a) > r for a, r in zip(given, ranks))
        if not unrolled:
            try:
                return self._at_once(call, given, ranks, frame)
            except _NestError:
                unrolled = True
        if all(isinstance(n, int) for n in frame):
            cells = [
                call(*(_sub(a, i) if rank_of(a) > r else a for a, r in zip(given, ranks))) for i in np.ndindex(*frame)
            ]
            return arrange.assembled(cells, frame)
        return self._at_once(call, given, ranks, frame)

    def _at_once(
        self, call: Callable[..., Value], given: Sequence[Value], ranks: Sequence[int], frame: tuple[Any, ...]
    ) -> Value:
        own = [lifted(a) if is_traced(a) or rank_of(a) > r else a for a, r in zip(given, ranks)]

        def at(*i: Any) -> Any:
            made = call(*(subscript(a, i[: rank_of(a) - r]) if rank_of(a) > r else a for a, r in zip(own, ranks)))
            if isinstance(made, np.ndarray) and made.dtype == object and made.ndim:
                raise _NestError
            return handed(lifted(made))

        return pb.build(tuple(frame), at)


def _unsettled(a: Value) -> Value:
    return lifted(a) if isinstance(a, Nested) and rank_of(a) != 0 else settled(a)


def _cell_rank(k: Any, a: Value) -> int:
    if not isinstance(k, int):
        raise errors.domain("⍤ takes numbers")
    return min(k, rank_of(a)) if k >= 0 else max(rank_of(a) + k, 0)


def _sub(a: Value, i: tuple[int, ...]) -> Value:
    return cell_at(a, i) if isinstance(a, np.ndarray) else subscript(a, i)
