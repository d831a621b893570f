"""Gradient functions."""

from __future__ import annotations

import numpy as np

from pullback import lazy


def energy(a: lazy.Array) -> lazy.Array:
    return lazy.sum(a**2)


gradient = lazy.grad(energy)(np.array([1.0, 2.0]))
print(gradient, lazy.value_and_grad(energy)(np.ones(3)), lazy.backward(energy(lazy.Weight([1.0]))))
