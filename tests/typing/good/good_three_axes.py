"""Batches: three axes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
row: lazy.Array[tuple[Literal[4]], np.float64] = lazy.asarray(np.ones(4))

Batch = lazy.Array[tuple[Literal[2], Literal[3], Literal[4]], np.float64]
batch: Batch = lazy.asarray(np.ones((2, 3, 4)))
a: Batch = batch + x
b: Batch = row * batch
c: lazy.Array[tuple[Literal[2], Literal[3]], np.float64] = batch.sum(axis=-1)
d: lazy.Array[tuple[Literal[2], Literal[3], Literal[3]], np.float64] = batch @ x.T
e: lazy.Array[Any, np.float64] = batch / batch.sum(axis=-1, keepdims=True)
print(a, b, c, d, e, batch[0] + x)
