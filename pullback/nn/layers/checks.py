"""Checks of layer settings, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.nn.layers.windows import setting
from pullback.tracing.array import Array

__all__ = ["check_count", "check_one_of", "check_setting"]


def check_setting(layer: str, holds: bool, what: str, remedy: str) -> None:
    """Raise TraceError [E163] unless a setting is valid."""
    if not holds:
        raise setting(layer, what, remedy)


def check_count(layer: str, **settings: Any) -> None:
    """Raise TraceError [E163] unless each setting is a positive integer, or a symbolic size."""
    for name, value in settings.items():
        extent = isinstance(value, Array) and value.index is not None
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        check_setting(
            layer, extent or (whole and value > 0), f"{name} is {value!r}", f"a whole number from 1 up: `{name}=1`"
        )


def check_one_of(layer: str, name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise TraceError [E163] unless a setting is one of some words."""
    check_setting(layer, value in choices, f"{name} is {value!r}", f"one of {', '.join(map(repr, choices))}")
