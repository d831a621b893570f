"""`await` and `predict` give the value."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))


async def score(a: Matrix) -> float:
    value: np.ndarray[tuple[Literal[3], Literal[4]], np.dtype[np.float64]] = await a
    same = await a.predict()
    if await (a.sum() > 3.0):
        return float(value[0, 0] + same.max())
    return 0.0


found: float = lazy.run(score(x))
print(found)
