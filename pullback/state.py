"""State of the process: the one table of caches, registries, context variables and thread locals.

    @cached(4096)                                  # functools.lru_cache, entered into the table
    def is_ours(file): ...

    _PIECES = registered({}, 4096)                 # a container of a module, as it is
    _CLOCK = context_variable("clock", None)       # a ContextVar
    class _Active(PerThread): ...                  # a threading.local

Each keeps the type and the speed of what it stands for: its entry in the table is made once, when a module is imported.
`pullback.debug.caches` shows the table; `pullback.debug.clear` empties what may be emptied. State that belongs to an
object is not listed and ends with it: a `cached_property`, the compiled versions of a function.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sized
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["IMPORTED", "Entry", "PerThread", "cached", "clear", "context_variable", "entries", "registered",
           "setting", "temporary", "weakly_cached"]  # fmt: skip

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

Bound = int | str  # the largest number of entries, or the reason why there need be no such number

CLEARED: Final = "debug.clear()"
IMPORTED: Final = "never: it is filled when modules are imported"
temporary: Final = functools.cache  # the cache of a function that another one defines, which ends with that call


class _Container(Sized, Protocol):
    def clear(self) -> None: ...


C = TypeVar("C", bound=_Container)


class Entry(NamedTuple):
    """A row of the current table.

    Attributes:
        owner: the module.   name: the variable or function in it.   kind: `function`, `container`, `context`, `thread`.
        size: the number of entries; for a context or a thread, how many values are set in the present one.
        bound: the largest size, or the reason why there is none.   cleared: when entries go.
    """

    owner: str
    name: str
    kind: str
    size: int
    bound: Bound
    cleared: str


class _Held(NamedTuple):
    held: Any
    kind: str
    owner: str
    name: str  # "" where the module's variable says it
    bound: Bound
    cleared: str


_HELD: Final[list[_Held]] = []


def cached(bound: Bound, stays: str = "") -> Callable[[Callable[..., T]], functools._lru_cache_wrapper[T]]:
    """Cache the results of a function of a module, as `functools.lru_cache` does.

    Args:
        bound: the largest number of results, or the reason why no number is needed.
        stays: why `clear` leaves the results alone; it clears them where this is empty.

    >>> from pullback.state import cached
    >>> @cached(16)
    ... def square(n):
    ...     return n * n
    >>> square(3), square.cache_info().currsize
    (9, 1)
    """

    def wrap(f: Callable[..., T]) -> functools._lru_cache_wrapper[T]:
        made = functools.lru_cache(maxsize=bound if isinstance(bound, int) else None)(f)
        _HELD.append(_Held(made, "function", f.__module__, f.__qualname__, bound, stays or CLEARED))
        return made

    return wrap


def weakly_cached(find: Callable[[K], V]) -> Callable[[K], V]:
    """Cache the results of a function of one object, each as long as the object lives."""
    known: WeakKeyDictionary[K, V] = WeakKeyDictionary()

    @functools.wraps(find)
    def found(key: K) -> V:
        out = known.get(key)
        if out is None:
            out = known[key] = find(key)
        return out

    _HELD.append(_Held(known, "container", find.__module__, find.__qualname__, "living keys", CLEARED))
    return found


def registered(container: C, bound: Bound, stays: str = "") -> C:
    """Register a module's container in the table; return it.

    The module keeps the bound. `stays` says when entries go where `clear` must leave them alone.
    """
    _HELD.append(_Held(container, "container", _caller(), "", bound, stays or CLEARED))
    return container


def context_variable(name: str, default: T) -> ContextVar[T]:
    """Return a new context variable, entered into the table."""
    made = ContextVar(name, default=default)
    _HELD.append(_Held((made, default), "context", _caller(), name, 1, "with the block that set it"))
    return made


class PerThread(threading.local):
    """The base of objects whose attributes belong to a thread. Each instance is entered into the table."""

    def __new__(cls, *args: Any, **keywords: Any) -> PerThread:
        """Make the one instance that all threads share; `__init__` runs in each thread."""
        made = super().__new__(cls, *args, **keywords)
        _HELD.append(_Held(made, "thread", cls.__module__, "", "attributes of the class", "with the thread"))
        return made


class setting:
    """Set attributes of an object, such as a `PerThread`, for the length of a `with` block.

    A class and no generator: an interrupt may come between the change and the block. A generator that is left like that
    restores the old values when it is collected as garbage, long after another block has set its own. This one restores
    nothing then, and the nearest block around it does, when it ends.
    """

    __slots__ = ("_before", "_owner", "_values")

    def __init__(self, owner: object, **values: Any) -> None:
        self._owner, self._values, self._before = owner, values, {name: getattr(owner, name) for name in values}

    def __enter__(self) -> None:
        for name, value in self._values.items():
            setattr(self._owner, name, value)

    def __exit__(self, *about: object) -> None:
        for name, value in self._before.items():
            setattr(self._owner, name, value)


def entries() -> list[Entry]:
    """Return the table, sorted by module and name. Modules that are not imported have no state."""
    return sorted(Entry(h.owner, h.name or _name_of(h), h.kind, _size(h), h.bound, h.cleared) for h in _HELD)


def clear() -> int:
    """Empty the caches that may be emptied; return the number of dropped entries."""
    gone = 0
    for h in _HELD:
        if h.cleared is CLEARED:
            gone += _size(h)
            h.held.cache_clear() if h.kind == "function" else h.held.clear()
    return gone


def _size(h: _Held) -> int:
    match h.kind:
        case "function":
            return int(h.held.cache_info().currsize)
        case "context":
            variable, default = h.held
            return int(variable.get() is not default)
        case "thread":
            return len(vars(h.held))
        case _:
            return len(h.held)


def _caller() -> str:
    """The module whose code calls the caller of this function."""
    return str(sys._getframe(2).f_globals["__name__"])


def _name_of(h: _Held) -> str:
    """The variable that holds it, itself or in a dict by a key."""
    module = sys.modules.get(h.owner)  # none where it was run as a program and has ended
    for name, value in vars(module).items() if module is not None else ():
        if value is h.held:
            return name
        if isinstance(value, dict) and not name.startswith("__"):
            for key, inner in value.items():
                if inner is h.held:
                    return f"{name}[{key!r}]"
    return "?"
