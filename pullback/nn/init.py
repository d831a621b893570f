"""Initialisers: how the first value of a parameter is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Start = Callable[[np.random.Generator, tuple[int, ...], Any], np.ndarray[Any, Any]]


def zeros() -> Start:
    """Zeros."""
    return lambda random, shape, dtype: np.zeros(shape, dtype)


def ones() -> Start:
    """Ones."""
    return lambda random, shape, dtype: np.ones(shape, dtype)


def he_normal() -> Start:
    """Normal numbers of variance 2 / fan in (He et al. 2015)."""
    return lambda random, shape, dtype: (random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(dtype)
