"""Networks narrower or wider than the paper's."""

from __future__ import annotations

from collections.abc import Callable

from pullback.errors import TraceError
from pullback.source import user_position

__all__ = ["scaled"]


def scaled(width: float) -> Callable[[int], int]:
    """Scale a paper's number of channels or units by the width of a network.

    Raises:
        TraceError: [E163] the width is no number above 0.

    >>> scaled(0.25)(96)
    24
    """
    if not 0 < width < float("inf"):
        raise TraceError("E163", f"a network of width {width!r}", position=user_position(), remedy="1 for the paper's")
    return lambda count: max(1, round(count * width))
