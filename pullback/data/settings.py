"""The error for a setting of a transform that is out of range."""

from __future__ import annotations

import math
import sys
from numbers import Real
from typing import Any, Final

from pullback.errors import DataError

__all__ = ["POSITIVE", "check_settings", "is_pair", "is_range", "is_within"]

POSITIVE: Final = sys.float_info.min  # the lower bound of numbers above 0


def check_settings(function: str, *settings: tuple[str, Any, bool, str]) -> None:
    """Refuse settings that are out of range.

    Args:
        function: the name in the message.
        settings: for each its name, its value, whether the value fits, and the values that do.
    Raises:
        DataError: [E508] a setting is out of range.
    """
    for name, value, fits, remedy in settings:
        if not fits:
            raise DataError("E508", f"{function}: {name}={value!r}", remedy=remedy)


def is_within(x: object, low: float, high: float = math.inf) -> bool:
    """Whether a value is a finite number from `low` to `high`."""
    return isinstance(x, Real) and math.isfinite(x) and low <= float(x) <= high


def is_pair(x: object, low: float, high: float = math.inf) -> bool:
    """Whether a value is a pair of such numbers."""
    return isinstance(x, tuple | list) and len(x) == 2 and all(is_within(v, low, high) for v in x)


def is_range(x: Any, low: float = -math.inf, high: float = math.inf) -> bool:
    """Whether a value is a pair of such numbers, the smaller one first."""
    return is_pair(x, low, high) and bool(x[0] <= x[1])
