"""Limits of nested arrays: depth, and the number of elements counted with repetitions.

`{⍵ ⍵}⍣40` makes a nest of 2*40 elements in forty steps and little memory; walking it would take forever. Nested arrays
are measured once, when they are made, and the measure is kept as long as they live.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from weakref import ref

import numpy as np

from pullback.apl.errors import AplError
from pullback.state import registered

__all__ = ["check_nest"]

DEEPEST: Final = 1500  # walks over a nest recurse once per level on the thread's stack
MOST: Final = 1 << 28  # elements

_KNOWN: dict[int, tuple[ref[Any], int, int]] = registered(
    {}, "one for each living array of nests", stays="with the array"
)  # by the array's id: depth and elements


def check_nest(made: np.ndarray[Any, Any], items: Iterable[Any]) -> None:
    """Measure an array of these items that was just made.

    Raises:
        AplError: [E807] the array is too deep, [E810] it has too many elements.
    """
    depth, count = _measured(items)
    if depth > DEEPEST:
        raise AplError("LIMIT ERROR", f"a nest is more than {DEEPEST} levels deep")
    if count > MOST:
        raise AplError("WS FULL", f"a nest has {count} elements", facts=(f"limit: {MOST}",))
    if depth > 1:
        key = id(made)
        _KNOWN[key] = ref(made, lambda _: _KNOWN.pop(key, None)), depth, count


def _measured(items: Iterable[Any]) -> tuple[int, int]:
    """The depth and the number of elements of an array of these items."""
    depth = count = 0
    for item in items:
        levels, elements = _measure(item)
        depth, count = max(depth, levels), count + elements
    return depth + 1, count


def _measure(x: Any) -> tuple[int, int]:
    if not isinstance(x, np.ndarray) or x.dtype != object:
        return 0, max(1, getattr(x, "size", 1)) if isinstance(x, np.ndarray) else 1
    known = _KNOWN.get(id(x))
    if known is not None and known[0]() is x:
        return known[1:]
    return _measured(x.reshape(-1))
