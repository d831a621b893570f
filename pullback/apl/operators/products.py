"""Products: f.g and ∘.f."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pullback as pb
from pullback import verbs
from pullback.apl import errors
from pullback.apl.functions import Verb
from pullback.apl.operators.parts import glyph_of, is_scalar_verb, plain
from pullback.apl.operators.reductions import Reduce
from pullback.apl.table import Settings
from pullback.apl.values import (
    Value,
    count_of,
    elements,
    from_python,
    is_nested,
    is_traced,
    lifted,
    objects,
    rank_of,
    settled,
    shape_of,
    simplified,
    vector,
)
from pullback.apl.verbs import arrange, nesting
from pullback.apl.verbs.scalar import shape_text
from pullback.apl.watch import refuse, watching
from pullback.arrays.subscript import subscript
from pullback.verbs.nested import Nested


@dataclass
class Inner(Verb):
    """`f.g`: apply g between rows and columns, and reduce by f."""

    f: Verb
    g: Verb
    settings: Settings

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the inner product."""
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
        left = nesting.enclosed_axes(x, [len(a) - 1]) if a else x
        right = nesting.enclosed_axes(y, [0]) if b else y
        reduce = Reduce(self.f, self.settings, False)
        if isinstance(left, Nested) or isinstance(right, Nested) or is_traced(x) or is_traced(y):
            return self._cells(x, y, reduce)

        def one(p: Value, q: Value) -> Value:
            return nesting.first(self.settings, reduce(self._between(p, q)))

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
        made = pb.tensordot(lifted(p), lifted(q), axes=1)
        watch = watching()
        return made if watch is None else watch.product(p, q, made)

    def _cells(self, x: Value, y: Value, reduce: Reduce) -> Value:
        refuse("an inner product by other verbs than +.×")
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
    """`∘.f`: apply f between every pair of elements of the left and the right argument."""

    f: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return an array whose shape joins those of both arguments."""
        if x is None:
            raise errors.syntax("an outer product takes two arguments")
        x, y = settled(x), settled(y)
        a, b = shape_of(x), shape_of(y)
        if is_traced(x) or is_traced(y):
            if watching() is not None:
                return self._spread(x, y)
            if not any(isinstance(v, np.ndarray) and v.dtype == object for v in (x, y)):
                return verbs.table(lambda p, q: lifted(self.f(from_python(q), from_python(p))))(lifted(x), lifted(y))
        if is_scalar_verb(self.f) and isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and plain(x) and plain(y):
            left = np.broadcast_to(x.reshape((*a, *(1,) * len(b))), (*a, *b))
            return self.f(np.broadcast_to(y, (*a, *b)), left)
        made = [self.f(q, p) for p in elements(x) for q in elements(y)]
        return simplified(objects(made, (*a, *b))) if made else np.zeros((*a, *b), np.int64)

    def _spread(self, x: Value, y: Value) -> Value:
        """Apply a verb on numbers to traced arguments, spread to the shape of the result."""
        if not is_scalar_verb(self.f) or is_nested(x) or is_nested(y):
            refuse("an outer product by a verb that is not on numbers")
        a, b = shape_of(x), shape_of(y)
        left = pb.broadcast_to(pb.reshape(lifted(x), (*a, *(1,) * len(b))), (*a, *b))
        return self.f(pb.broadcast_to(lifted(y), (*a, *b)), left)
