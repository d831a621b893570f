"""Calls in C: known structures run without Python from an operator to the kernel (`runtime/c/lazy.c`).

The extension is built, or loaded from the cache, when the first kernel has code. Until then, and where it cannot be
built, all is done by the Python code that it stands for, with the same results.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

from pullback.calls import policy
from pullback.lazy.counts import FURTHER
from pullback.lazy.node import BUSY, LOCK, SERIALS, Array
from pullback.lazy.operation import Application
from pullback.lazy.plugins import Plugin
from pullback.runtime.shim import compiled_module, extension
from pullback.single_flight import single_flight
from pullback.state import registered

__all__ = ["both", "hold", "is_on", "is_wanted", "learn", "offer", "prepare", "turn", "watch"]

NAME: Final = "_pullback_lazy"
MOST: Final = 4096  # as in `c/lazy.c`
_FOUND: Final[list[ModuleType | None]] = registered([], 1, stays="with the process: loaded code")
_PYTHON: Final[dict[tuple[type, str], Any]] = registered({}, "methods of the classes", stays="with the process")
_IN_C: Final[dict[tuple[type, str], Any]] = registered({}, "the same in C", stays="with the process")
_MODE: Final[list[bool]] = registered([], 1, stays="with the process: whether known calls are made in C")
_WATCHED: Final[list[bool]] = registered([], 1, stays="until no plugin has a forward pass")
COMPUTING: Final = ("forced", "numpy")  # what computes values
_OFFERED: Final[dict[str, Any]] = registered({}, 5, stays="with the process: set on import")


class _Structures:
    """The structures that C knows."""

    def __len__(self) -> int:
        module = _FOUND[0] if _FOUND else None
        return 0 if module is None else int(module.known())

    def clear(self) -> None:
        """Drop them: Python runs the next call of each, and notes it again."""
        if _FOUND and _FOUND[0] is not None:
            _FOUND[0].forget()


STRUCTURES: Final = registered(_Structures(), MOST)


def offer(**found: Any) -> None:
    """Take what C needs of modules above this one, for `prepare`."""
    _OFFERED.update(found)


def prepare() -> None:
    """Load the extension, once, and use it."""
    if not _FOUND:
        with single_flight(NAME):
            if not _FOUND:
                _FOUND.append(_module())
                turn(True)


def _module() -> ModuleType | None:
    if not is_wanted() or sysconfig.get_config_var("Py_GIL_DISABLED") or extension() is None:
        return None
    module = compiled_module(NAME, "lazy.c")
    if module is None:
        return None
    weight, force = _OFFERED["weight"], _OFFERED["force"]
    module.bind(Array, Application, weight, LOCK.acquire, LOCK.release, BUSY, SERIALS, _OFFERED["unsettled"], force,
                Array.watched, _OFFERED["tape"], _OFFERED["thread_count"])  # fmt: skip
    _note(Array, "forced", module.force, staticmethod(force))
    _note(Array, "numpy", module.method(vars(Array)["numpy"], None, None, False), vars(Array)["numpy"])
    for name, value in (*vars(Array).items(),):
        for owner in (Array, weight) if hasattr(value, "known") else ():
            own = vars(owner)[name]
            _note(owner, name, module.method(own, *value.known), own)
    FURTHER.append(module.counted)
    return module


def is_wanted() -> bool:
    """Whether calls may be made in C.

    Raises:
        UsageError: [E602] PULLBACK_LAZY_CALLS is neither `c` nor `python`.
    """
    return policy.word("PULLBACK_LAZY_CALLS", ("c", "python"), "is no way to call") == "c"


def is_on() -> bool:
    """Whether calls are made in C."""
    return bool(_IN_C) and vars(Array)["numpy"] is _IN_C[Array, "numpy"]


def turn(on: bool) -> None:
    """Make calls in C, if there is the extension, or in Python."""
    _MODE[:] = [on]
    for (owner, name), value in (_IN_C if on else _PYTHON).items():
        if not (_WATCHED and name in COMPUTING):
            setattr(owner, name, value)


def watch(on: bool) -> None:
    """Compute values in Python, or as before."""
    _WATCHED[:] = [True] if on else []
    for name in COMPUTING if _MODE else ():
        found = (_PYTHON if on or not _MODE[0] else _IN_C).get((Array, name))
        if found is not None:
            setattr(Array, name, found)


def _note(owner: type, name: str, in_c: Any, in_python: Any) -> None:
    _IN_C[owner, name], _PYTHON[owner, name] = in_c, in_python


def both(loss: Array) -> tuple[int, tuple[Array, ...], tuple[Any, ...]] | None:
    """Compute an array, and the cotangents of leaves below it, where C knows how.

    The caller holds LOCK.

    Returns:
        The number of stored arrays, the leaves and their cotangents; None where nothing was computed.
    """
    if not is_on():
        return None
    found: tuple[int, tuple[Array, ...], tuple[Any, ...]] | None = _FOUND[0].both(loss)  # type: ignore[union-attr]
    return found


def hold(weights: list[Any], values: tuple[Any, ...]) -> bool:
    """Put arrays into weights, and drop their cotangents; False where C does not."""
    if not is_on():
        return False
    _FOUND[0].hold(weights, values)  # type: ignore[union-attr]
    return True


def learn(key: list[int], outputs: int, wrt: Sequence[int], entry: Callable[..., Any], piece: Any,
          places: tuple[int, ...] | None, alone: bool, light: bool) -> None:  # fmt: skip
    """Let C run calls of a structure.

    Args:
        key: that of the piece.   outputs: the number of its results.   wrt: the numbers of the tracked leaves.
        entry: the compiled kernel.   piece: what a tape is of, or None without one.
        places: if the kernel computes cotangents, too, the leaves that they are of.
        alone: whether more than one thread would cut the nodes apart.
        light: whether it may run twice where two threads ask for it at once.
    """
    module = _FOUND[0] if _FOUND else None
    if module is not None:
        module.learn(key, outputs, tuple(wrt), entry, piece, places, alone, light)


Plugin.watching = staticmethod(watch)
