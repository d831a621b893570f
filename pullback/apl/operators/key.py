"""The key operator ⌸, which groups equal cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.apl import errors
from pullback.apl.functions import Verb
from pullback.apl.table import Settings
from pullback.apl.values import Value, is_traced, rank_of, settled, shape_of
from pullback.apl.verbs import arrange, indexing
from pullback.apl.verbs.search import cells_of, first_cells, known


@dataclass
class Key(Verb):
    """`f⌸`: apply f between each distinct cell and its positions or values."""

    f: Verb
    settings: Settings

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return a result for each key, from its positions; if x has the keys, from the cells of y there.

        Raises:
            AplError: [E809] a compiled function computes the keys, which determine the number of results.
        """
        (keys,) = known("⌸", y if x is None else x)
        keys, y = arrange.with_shape(keys, (1,)) if not rank_of(keys) else keys, settled(y)
        if x is not None and shape_of(y)[:1] != shape_of(keys)[:1]:
            raise errors.length("⌸ takes as many cells to its right as there are keys")
        cells = cells_of(keys)
        first = first_cells(keys, self.settings.ct)
        made = [self.f(self._with(np.flatnonzero(first == k), y, x), cells[k]) for k in sorted(set(first.tolist()))]
        return arrange.assembled(made, (len(made),)) if made else self._of_nothing(keys, y, x)

    def _with(self, places: np.ndarray, y: Value, x: Value | None) -> Value:
        numbers = places + self.settings.io
        if x is None:
            return numbers
        return indexing.chosen(y, [numbers, *(None,) * (rank_of(y) - 1)], self.settings)

    def _of_nothing(self, keys: Value, y: Value, x: Value | None) -> Value:
        rest = np.zeros(0, np.int64) if x is None or is_traced(y) else y[:0]
        try:
            made = settled(self.f(rest, np.zeros(keys.shape[1:], np.int64)))
        except errors.AplError:
            return np.zeros(0, np.int64)
        return np.zeros((0, *shape_of(made)), np.int64)


__all__ = ["Key"]
