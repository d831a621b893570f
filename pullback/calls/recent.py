"""A table that keeps the most recently used values."""

from __future__ import annotations

import os
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

from pullback.errors import UsageError

__all__ = ["Recent"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEPT = 256
_CLOCK = count()


def most_kept() -> int:
    """The maximal number of values in a table.

    Raises:
        UsageError: [E601] PULLBACK_KEPT_SIZES is not a number.
    """
    text = os.environ.get("PULLBACK_KEPT_SIZES", str(KEPT))
    if not text.isdecimal() or int(text) < 1:
        raise UsageError("E601", f"PULLBACK_KEPT_SIZES={text} is not a number of sizes", remedy="a whole number from 1")
    return int(text)


class _Used(Generic[V]):
    """A value, and the time of its last use."""

    __slots__ = ("last", "value")

    def __init__(self, value: V) -> None:
        self.value = value
        self.last = next(_CLOCK)


class Recent(Generic[K, V]):
    """A table that, above PULLBACK_KEPT_SIZES values, drops the least recently used quarter.

    Threads may share a table, because each step is atomic in the interpreter.
    """

    __slots__ = ("_most", "_values")

    def __init__(self) -> None:
        self._most = most_kept()
        self._values: dict[K, _Used[V]] = {}

    def get(self, key: K) -> V | None:
        """The value, if it is kept."""
        found = self._values.get(key)
        if found is None:
            return None
        found.last = next(_CLOCK)
        return found.value

    def put(self, key: K, value: V) -> V:
        """Keep a value, unless there is one already; return the kept one."""
        found = self._values.setdefault(key, _Used(value))
        if len(self._values) > self._most:
            known = sorted(self._values.copy().items(), key=lambda item: item[1].last)
            for old, _ in known[: max(1, self._most // 4)]:
                self._values.pop(old, None)
        return found.value

    def items(self) -> list[tuple[K, V]]:
        """The current items, in insertion order."""
        return [(key, used.value) for key, used in self._values.copy().items()]
