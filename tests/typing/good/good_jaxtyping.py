"""jaxtyping's annotations: names for the run time, types for checkers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jaxtyping import Float64

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
row: lazy.Array[tuple[Literal[4]], np.float64] = lazy.asarray(np.ones(4))


@lazy.layer
def head(
    a: Float64[lazy.Array[tuple[Any, Any], np.float64], "N 4"], b: Float64[lazy.Array, "4"]
) -> Float64[lazy.Array, "N"]:
    return a @ b


print(head(x, row))
