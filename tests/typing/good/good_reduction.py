"""Reductions over all axes, one axis, and with `keepdims`."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
total: lazy.Array[tuple[()], np.float64] = x.sum()
down: lazy.Array[tuple[Literal[4]], np.float64] = x.mean(axis=0)
across: lazy.Array[tuple[Literal[3]], np.float64] = lazy.max(x, axis=-1)
wide: lazy.Array[tuple[Literal[3], Literal[1]], np.float64] = lazy.logsumexp(x, axis=1, keepdims=True)
known: lazy.Array[tuple[()], np.bool_] = lazy.all(x >= 0)
print(float(total), down, across, wide, bool(known))
