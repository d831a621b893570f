"""Hash-consing: structurally equal nodes are one object, so equality is identity.

A class derives from `Interned` and makes its nodes through `intern(cls, *fields)`; the fields are the slots
named in `_fields`, in order. The table holds nodes weakly: a program that is dropped takes its nodes with it. Threads
that make equal nodes at the same time get one.
"""

from __future__ import annotations

import gc
import os
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]  # as `weakref` has it, for the same purpose
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar
from weakref import ref

from pullback.state import registered

T = TypeVar("T", bound="Interned")
N = TypeVar("N")


class Interned:
    """A node compared by identity. `_fields` names the slots that define it."""

    __slots__ = ("__weakref__",)
    _fields: ClassVar[tuple[str, ...]] = ()

    def _prepare(self) -> None:
        """Compute the cached facts of a new node (free variables and the like)."""

    def __copy__(self: T) -> T:
        return self

    def __deepcopy__(self: T, memo: dict[int, Any]) -> T:
        return self


MANY = 100_000  # objects made in a block that are not worth looking through
_HELD: list[bool] = registered([], "blocks under way", stays="with the block")
# for each block of any thread: whether the collector was on before it
_LATELY: deque[Any] = registered(deque(maxlen=1 << 15), 1 << 15)  # nodes such blocks made last: many are wanted again


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn the garbage collector off in a block: nodes have no cycles, and it would rescan all of them."""
    _HELD.append(gc.isenabled())
    gc.disable()
    try:
        yield
    finally:
        last = len(_HELD) == 1
        if _HELD.pop():  # only the last of several blocks restores the collector
            if gc.get_count()[0] > MANY and not gc.get_freeze_count():
                gc.freeze()  # new nodes move to the oldest generation unscanned: scanning millions takes half a second
                gc.unfreeze()
            gc.enable()
        if last:
            _LATELY.clear()


def _collect_again() -> None:
    """Re-enable garbage collection in a forked process, where other threads cannot end their blocks."""
    if any(_HELD):
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_collect_again)


class _Entry(ref[Any]):
    """A weak reference with its key, so that the table drops the entry with the node."""

    __slots__ = ("key",)
    key: tuple[Hashable, ...]


_TABLE: dict[tuple[Hashable, ...], _Entry] = registered({}, "living nodes", stays="with the node")
# a WeakValueDictionary, at half its cost per lookup


def _forget(entry: Any, remove: Any = _remove_dead_weakref, table: Any = _TABLE) -> None:  # globals end before nodes do
    remove(table, entry.key)


def known(key: tuple[Hashable, ...]) -> Any:
    """The node under a key, or None."""
    entry = _TABLE.get(key)
    return None if entry is None else entry()


def intern(cls: type[T], *fields: Any, key: tuple[Hashable, ...] | None = None) -> T:
    """The unique node of class `cls` with these fields; `key` replaces fields with unsuitable equality."""
    full = (cls, *fields) if key is None else (cls, *key)
    entry = _TABLE.get(full)
    if entry is not None:
        found = entry()
        if found is not None:
            return found  # type: ignore[no-any-return]
    node = object.__new__(cls)
    for name, value in zip(cls._fields, fields, strict=True):
        setattr(node, name, value)
    node._prepare()
    return the_one(full, node)


def the_one(key: tuple[Hashable, ...], made: N) -> N:
    """The table's node under a key: `made`, unless another thread was first.

    Each step is atomic in the interpreter: insert an entry if there is none, remove it if its node is gone.
    """
    if _HELD:
        _LATELY.append(made)
    entry = _Entry(made, _forget)
    entry.key = key
    while True:
        found: N | None = _TABLE.setdefault(key, entry)()
        if found is not None:
            return found
        _remove_dead_weakref(_TABLE, key)


def kept(key: tuple[Hashable, ...], make: Callable[[], N]) -> N:
    """The unique object for a key, while it is referenced."""
    entry = _TABLE.get(key)
    found: N | None = None if entry is None else entry()
    return the_one(key, make()) if found is None else found
