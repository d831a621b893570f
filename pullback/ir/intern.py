"""Hash-consing: structurally equal nodes are one object, so equality is identity and a hash costs one word.

A class derives from `Interned` and makes its nodes through `intern(cls, *fields)`; the fields are the slots
named in `_fields`, in order. The table holds nodes weakly: a program that is dropped takes its nodes with it.
"""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar
from weakref import ref

T = TypeVar("T", bound="Interned")


class Interned:
    """A node compared by identity. `_fields` names the slots that make it what it is."""

    __slots__ = ("__weakref__",)
    _fields: ClassVar[tuple[str, ...]] = ()

    def _prepare(self) -> None:
        """Compute the cached facts of a new node (free variables and the like)."""

    def __copy__(self: T) -> T:
        return self

    def __deepcopy__(self: T, memo: dict[int, Any]) -> T:
        return self


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold the garbage collector back: nodes have no cycles, and it would walk all of them time and again."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Entry(ref[Interned]):
    """A weak reference that knows its key, so that the table forgets a node when it goes."""

    __slots__ = ("key",)
    key: tuple[Hashable, ...]


def _forget(entry: ref[Interned]) -> None:
    assert isinstance(entry, _Entry)
    if _TABLE.get(entry.key) is entry:
        del _TABLE[entry.key]


_TABLE: dict[tuple[Hashable, ...], _Entry] = {}  # a WeakValueDictionary, at half its cost per look-up


def intern(cls: type[T], *fields: Any, key: tuple[Hashable, ...] | None = None) -> T:
    """The one node of class `cls` with these fields; `key` replaces fields that do not compare as they should."""
    full = (cls, *fields) if key is None else (cls, *key)
    entry = _TABLE.get(full)
    if entry is not None:
        found = entry()
        if found is not None:
            return found  # type: ignore[return-value]
    node = object.__new__(cls)
    for name, value in zip(cls._fields, fields, strict=True):
        setattr(node, name, value)
    node._prepare()
    entry = _Entry(node, _forget)
    entry.key = full
    _TABLE[full] = entry
    return node
