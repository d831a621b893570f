"""Single-flight: one thread makes what several need at once, while the others wait.

    found = known.get(key)
    if found is None:
        with single_flight((owner, key)):
            found = known.get(key)          # somebody may have made it meanwhile
            if found is None:
                found = known[key] = make()

Inside, a thread may enter another key only for what its own is made of, so that nobody waits in a circle.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Lock

from pullback.state import registered

__all__ = ["deep_recursion", "is_under_way", "single_flight"]

_UNDER_WAY: dict[Hashable, Lock] = registered({}, "single flights", stays="with the flight")
_LIMITS: list[int] = registered([], "blocks under way", stays="with the block")


@contextmanager
def single_flight(key: Hashable) -> Iterator[None]:
    """One thread at a time is inside for a key."""
    while True:
        lock = _UNDER_WAY.setdefault(key, Lock())
        lock.acquire()
        if _UNDER_WAY.get(key) is lock:
            break
        lock.release()  # the previous owner took it away: another thread is inside now
    try:
        yield
    finally:
        _UNDER_WAY.pop(key, None)
        lock.release()


def is_under_way(key: Hashable) -> bool:
    """Whether a thread is inside for a key, so that another one would wait."""
    return key in _UNDER_WAY


@contextmanager
def deep_recursion(depth: int = 20_000) -> Iterator[None]:
    """Raise the recursion limit for deep expressions, within the thread's stack.

    All threads have one limit: it only grows while any of them is inside, and the last to leave puts it back.
    """
    with single_flight(sys.setrecursionlimit):
        _LIMITS.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(_LIMITS[-1], depth))
    try:
        yield
    finally:
        with single_flight(sys.setrecursionlimit):
            before = _LIMITS.pop()
            if not _LIMITS:
                sys.setrecursionlimit(before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_UNDER_WAY.clear)  # owners of locks do not exist in the new process
