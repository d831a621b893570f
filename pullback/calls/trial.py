"""When C for all sizes gives way to C for the dims of its calls: once these have cost about what compiling would.

Whoever waits until then does at most twice the work of someone who knew all calls beforehand (the ski rental problem:
Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching", 1988). Operations are counted, not seconds: the same
calls run the same code each time, so that their results are the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pullback.calls.traced import Traced

__all__ = ["Trial"]

PAYS = 3 * 10**8  # operations in C for all sizes: some tenths of a second, as compiling takes
CALL = 2000  # operations that go by in calling


class Trial:
    """Counts the calls of a program for some dims; `executable` makes what takes over, None where nothing does."""

    __slots__ = ("_calls", "_dims", "_left", "_traced", "executable")

    def __init__(self, traced: Traced, dims: Mapping[str, int], executable: Callable[[], Any]) -> None:
        self._traced = traced
        self._dims = dims
        self._calls = 0
        self._left: float = 0.0
        self.executable = executable

    def is_over(self) -> bool:
        """Whether one more call is one too many."""
        self._calls += 1
        if self._calls == 2:  # many dims come once: nothing is counted for these
            from pullback.passes.operations import operation_count  # no pass is needed by a start from the cache

            self._left = PAYS / (operation_count(self._traced.program, self._dims) + CALL)
        return self._calls > 1 and self._calls > self._left
