"""Functions of the namespace keep shapes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pullback import lazy

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
a: Matrix = lazy.exp(-x) * lazy.softmax(x, axis=-1)
b: Matrix = lazy.maximum(lazy.relu(x), 0.5)
c: Matrix = lazy.zeros_like(x)
e: lazy.Array = lazy.concat([x, a], axis=0)
f: lazy.Array[tuple[Any, Any], np.float64] = lazy.zeros((2, 3))
g: lazy.Array[tuple[Any], np.float32] = lazy.ones(3, dtype=np.float32)
print(a, b, c, e, f, g, lazy.linalg.solve(x[:, :3] + lazy.eye(3) * 20, x[:, 0]), lazy.pi)
