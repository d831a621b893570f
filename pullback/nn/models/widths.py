"""Width factors for networks narrower or wider than the paper's."""

from __future__ import annotations

from collections.abc import Callable

from pullback.errors import TraceError
from pullback.source import user_position

__all__ = ["scaled"]


def scaled(width_mult: float) -> Callable[[int], int]:
    """Scale a paper's number of channels or units by the width multiplier of a network.

    Raises:
        TraceError: [E163] the multiplier is not a positive number.

    >>> scaled(0.25)(96)
    24
    """
    if not 0 < width_mult < float("inf"):
        remedy = "a positive number: 1 is the paper's width"
        raise TraceError("E163", f"width_mult is {width_mult!r}", position=user_position(), remedy=remedy)
    return lambda count: max(1, round(count * width_mult))
