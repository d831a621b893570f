"""The operator @, which changes selected elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pullback as pb
from pullback.apl import changes, errors
from pullback.apl.functions import Verb
from pullback.apl.operators.parts import like
from pullback.apl.table import Settings
from pullback.apl.values import (
    NDArray,
    Value,
    count_of,
    holds_traced,
    is_characters,
    is_nested,
    is_traced,
    lifted,
    rank_of,
    settled,
    shape_of,
    simplified,
    whole_list,
)
from pullback.apl.verbs import indexing, nesting
from pullback.apl.verbs.scalar import shape_text
from pullback.apl.watch import refuse
from pullback.arrays.subscript import subscript
from pullback.tracing.array import Array


@dataclass
class At(Verb):
    """`f@i`: apply f to the cells at indices, or where a verb returns 1; keep the others."""

    f: Any
    where: Any
    settings: Settings

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the array with the selected elements changed."""
        y = settled(y)
        if holds_traced(y):
            refuse("@ has no test")
        s = self.settings
        if isinstance(self.where, Verb):
            mask = self.where(y)
            if rank_of(mask) != rank_of(y) or any(
                isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(shape_of(mask), shape_of(y))
            ):
                raise errors.length("the mask of @ has the shape of the array")
            if is_traced(mask) or is_traced(y):
                return self._masked(y, mask, x)
            if mask.size and (is_nested(mask) or is_characters(mask) or not np.isin(mask, (0, 1)).all()):
                raise errors.domain("the mask of @ consists of 0 and 1")
            chosen = np.flatnonzero(mask)
            return self._changed(y, lambda v: simplified(v.reshape(-1)[chosen]), chosen.shape, (), x)
        if is_traced(y):
            if not rank_of(y):
                raise errors.rank("@ takes an array with an axis")
            return self._at_places(y, x)
        where = settled(self.where)
        if is_nested(where):
            return self._changed(y, lambda v: indexing.chosen_points(v, where, s, "@"), where.shape, (), x)
        if not rank_of(y):
            raise errors.rank("@ takes an array with an axis")
        cells = [where, *(None,) * (rank_of(y) - 1)]
        return self._changed(y, lambda v: indexing.chosen(v, cells, s), where.shape, y.shape[1:], x)

    def _changed(
        self, y: NDArray, chosen: Callable[[NDArray], Value], frame: tuple[int, ...], rest: tuple[int, ...], x: Any
    ) -> Value:
        new = settled(self.f(chosen(y), x) if isinstance(self.f, Verb) else self.f)
        _check_fits(new, frame, rest)
        if rank_of(new) and count_of(new) != 1 and shape_of(new) != (*frame, *rest):  # one cell for all places
            new = np.broadcast_to(new, (*frame, *rest))
        numbers = changes.numbered(y)
        return changes.changed(y, numbers, chosen(numbers), new)

    def _masked(self, y: Value, mask: Value, x: Value | None) -> Value:
        new = self.f(y, x) if isinstance(self.f, Verb) else self.f
        from pullback.apl.numbers import converted, truth

        (a, b), _ = converted([new, y], "number")
        return pb.where(truth(mask), a, b)

    def _at_places(self, y: Array, x: Value | None) -> Value:
        s = self.settings
        where = settled(self.where)
        rows = nesting.places(whole_list(where.reshape(-1), "@"), [shape_of(y)[0]] * where.size, s)
        frame, rest = shape_of(where), shape_of(y)[1:]
        selected = indexing.chosen(y, [where, *(None,) * (y.rank - 1)], s)
        new = self.f(selected, x) if isinstance(self.f, Verb) else self.f
        if rank_of(new) > len(frame) + len(rest):
            raise errors.rank(f"@ puts an array of at most {len(frame) + len(rest)} axes there", [shape_text(new)])
        if is_nested(new):
            raise errors.domain("@ puts no nested arrays into one of a compiled function")
        new = lifted(new)
        _check_fits(new, frame, rest)
        own = new.rank == len(frame) + len(rest) and count_of(new) != 1
        cells = pb.reshape(new, (len(rows), *rest)) if own and frame else new
        made: Any = y
        for k, r in enumerate(rows):
            row = subscript(cells, (k,)) if own and frame else cells if own or not new.rank else _only(new, rest)
            at = pb.reshape(pb.arange(shape_of(y)[0]), (-1, *(1,) * (y.rank - 1))) == r
            made = pb.where(at, like(row, y), made)
        return made


def _only(new: Any, rest: tuple[Any, ...]) -> Any:
    """Return the single element of an array, for all places; other arrays stay, one cell for each."""
    return pb.reshape(new, ()) if count_of(new) == 1 else new


def _check_fits(new: Value, frame: tuple[Any, ...], rest: tuple[Any, ...]) -> None:
    """Refuse a replacement whose sizes differ from the selection's.

    Raises:
        AplError: [E802] the sizes differ.
    """
    full = (*frame, *rest)
    if rank_of(new) and count_of(new) != 1 and not any(_same(shape_of(new), n) for n in (full, rest)):
        raise errors.length(f"@ puts as many elements as there are places: {shape_text(new)}")


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(m == n for m, n in zip(a, b) if isinstance(m, int) and isinstance(n, int))
