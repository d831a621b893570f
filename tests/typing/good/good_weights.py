"""Weights are arrays, and trainers give losses as floats."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pullback import lazy, nn

Matrix = lazy.Array[tuple[Literal[3], Literal[4]], np.float64]
x: Matrix = lazy.asarray(np.arange(12.0).reshape(3, 4))
w = lazy.Weight(np.zeros((4, 3)), name="w")
kept: lazy.Weight[Any, np.float64] = w
loss = lazy.mean((x @ w - 1.0) ** 2)
trainer = lazy.Trainer([w], nn.sgd(0.1))
before: float = trainer.step(loss)
print(before, w.grad, w.name, kept.shape)
