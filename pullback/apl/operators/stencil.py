"""The stencil operator ⌺, which slides windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pullback import verbs
from pullback.apl import errors
from pullback.apl.functions import Verb
from pullback.apl.operators.parts import slices
from pullback.apl.table import Settings
from pullback.apl.values import (
    NDArray,
    Value,
    from_python,
    lifted,
    rank_of,
    scalar,
    settled,
    shape_of,
    simplified,
    vector,
    whole_list,
)
from pullback.apl.verbs import arrange
from pullback.apl.verbs.scalar import shape_text
from pullback.apl.watch import handed
from pullback.tracing.array import Array


@dataclass
class Stencil(Verb):
    """The stencil `f⌺w`: f between a window's overhang and the window, sliding over the leading axes."""

    f: Verb
    window: Value

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the results, assembled along the window positions."""
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
        if isinstance(y, Array):
            over = np.zeros(len(window), np.int64) if all(isinstance(n, int) and n < 3 for n in window) else None
            call = lambda cell: handed(lifted(self._call(from_python(cell), over)))
            return verbs.stencil(call, tuple(window), tuple(step))(y)
        return self._known(y, window, step)

    def _call(self, cell: Value, over: Value | None) -> Value:
        if not getattr(self.f, "takes_left", True):  # a dfn that does not use it
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
        if cells:
            return arrange.assembled(cells, places)
        made = settled(self._call(np.zeros((*window, *y.shape[len(window) :])), np.zeros(len(window), np.int64)))
        return np.zeros((*places, *shape_of(made)), np.int64)
