"""Element types by NumPy's types; numbers by Python's."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
half: lazy.Array[tuple[Literal[3], Literal[4]], np.float32] = x.astype(np.float32)
counts: lazy.Array[tuple[Literal[3], Literal[4]], np.int64] = x.astype(np.int64)
ratio: lazy.Array[tuple[Literal[3], Literal[4]], np.float64] = counts / 2
mixed: lazy.Array[Any, np.float64] = half + x
number: float = float(x.sum())
print(half, ratio, mixed, number, complex(x[0, 0]), x.tolist(), x.item if x.size == 1 else 0)
