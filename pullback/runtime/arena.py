"""Arena pool: working memory kept between calls and shared by all functions, also for large results.

A call takes the most recently used arena that is large enough and not much too large. Otherwise it allocates a new one,
which replaces one that is nearly large enough. After the call the arena is kept for others. There are at most 32 idle
arenas, with at most PULLBACK_IDLE_BYTES in total, by default 1 GiB. The most recently used one is kept in any case.
Results of 1 MiB and more come from the pool too. They return to it when nothing refers to them, because pages that a
process has touched before cost nothing. A result larger than the limit is freed at once.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np

from pullback.errors import UsageError
from pullback.runtime.buffer import NDArray, address, aligned_bytes
from pullback.runtime.shim import extension
from pullback.state import cached

IDLE_BYTES = 1 << 30
MOST_IDLE, LEAST_ARENA, MOST_UNUSED = 32, 4096, 4  # as in `c/call.c`


class Lender(Protocol):
    """The source of working memory for calls from Python."""

    def lend(self, count: int, /) -> tuple[int, int]:
        """Lend an arena of at least `count` bytes; return its address and size."""

    def give_back(self, start: int, count: int, /) -> None:
        """Take an arena back."""


class Arenas(Lender, Protocol):
    """The arena pool: `c/call.c`, shared by calls from C and from Python, or `Idle`."""

    def keep_idle(self, count: int, /) -> int:
        """Set the limit of idle bytes; return the current number."""


class Idle:
    """The arena pool without the extension. Each step is atomic in the interpreter, so it needs no lock."""

    def __init__(self) -> None:
        self._arenas: dict[int, NDArray] = {}
        self._idle: list[tuple[int, int]] = []  # the most recently used last
        self._most = IDLE_BYTES

    def lend(self, count: int, /) -> tuple[int, int]:  # noqa: D102
        count = max(count, LEAST_ARENA)
        small = None
        for found in reversed(self._idle.copy()):
            if count <= found[1] <= MOST_UNUSED * count and self._take(found):
                return found
            if found[1] < count <= MOST_UNUSED * found[1]:
                small = small or found
        if small is not None and self._take(small):
            del self._arenas[small[0]]
        count += count // 8
        made = aligned_bytes(count)
        start = address(made)
        self._arenas[start] = made
        return start, count

    def _take(self, arena: tuple[int, int]) -> bool:
        try:
            self._idle.remove(arena)
        except ValueError:  # another thread took it
            return False
        return True

    def give_back(self, start: int, count: int, /) -> None:  # noqa: D102
        self._idle.append((start, count))
        for oldest in self._idle[:-1]:
            if len(self._idle) <= MOST_IDLE and self._bytes() <= self._most:
                break
            if self._take(oldest):
                del self._arenas[oldest[0]]

    def keep_idle(self, count: int, /) -> int:  # noqa: D102
        self._most = count
        return self._bytes()

    def _bytes(self) -> int:
        return sum(count for _, count in self._idle.copy())


@cached(1, stays="with the process: results live in them")
def arenas() -> Arenas:
    """The arenas of this process."""
    found: Any = extension() or Idle()
    found.keep_idle(most_idle())
    made: Arenas = found
    return made


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray:
    """An array for a result, not initialized."""
    found: Any = arenas()
    if isinstance(found, Idle):
        return np.empty(shape, dtype)
    made: NDArray = found.empty(shape, dtype.num, dtype.itemsize)
    return made


def most_idle() -> int:
    """The most idle bytes to keep.

    Raises:
        UsageError: [E601] PULLBACK_IDLE_BYTES is not a number of bytes.
    """
    text = os.environ.get("PULLBACK_IDLE_BYTES", str(IDLE_BYTES))
    if not text.isdecimal():
        raise UsageError("E601", f"PULLBACK_IDLE_BYTES={text} is not a number of bytes", remedy="a whole number from 0")
    return int(text)
