"""Shared libraries as callables: ctypes with addresses, without the interpreter lock."""

from __future__ import annotations

import _ctypes
import ctypes
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from pullback.clock import stage
from pullback.errors import CompilerError
from pullback.runtime.cache import runnable_copy
from pullback.runtime.compile import Text, build_library, compiled_library

Entry = Callable[..., int]
T = TypeVar("T")


class Library(ctypes.CDLL):
    """A shared library, unloaded with the last of its functions; each function holds it."""

    _handle = 0  # the value if loading failed

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._handle and not is_ending():  # otherwise an endless thread may still be inside
            _ctypes.dlclose(self._handle)

    def entry(self, name: str, arity: int) -> Entry:
        """The function of this name, taking `arity` addresses as integers and returning int."""
        packed = getattr(self, f"{name}_packed", None)  # if the entry has more parameters than can be passed
        if packed is not None:
            packed.restype = ctypes.c_int
            array = ctypes.c_void_p * arity
            return lambda *arguments: packed(array(*arguments))
        entry = self[name]
        entry.argtypes = [ctypes.c_void_p] * arity
        entry.restype = ctypes.c_int
        return entry


def loaded(text: Text, more: tuple[str, ...] = (), load: Callable[[str], T] = Library) -> T:  # type: ignore[assignment]
    """The library of a text, compiled or cached; `load` opens it by path.

    A library that cannot be loaded is copied to a folder where it may run. If that does not help, it is removed from
    the cache and compiled again.

    Args:
        more: flags after the usual ones.

    Raises:
        CompilerError: [E410] there is no compiler. [E411] the compiler failed, or the library cannot be loaded.
    """
    reason: Exception | None = None
    for path in _attempts(text, more):
        try:
            with stage("load"):
                return load(str(path))
        except (OSError, ImportError) as error:
            reason = reason or error
    raise CompilerError("E411", f"a compiled library cannot be loaded: {reason}",
                        remedy="set PULLBACK_CACHE_DIR or TMPDIR to a folder where programs may run, or CC to another "
                        "compiler") from reason


def _attempts(text: Text, more: tuple[str, ...]) -> Iterator[Path]:
    for find in (compiled_library, build_library):
        path = find(text, more)
        yield path
        try:
            yield runnable_copy(path)
            path.unlink(missing_ok=True)
        except OSError:
            pass


def compiled_entry(text: Text, name: str, arity: int, more: tuple[str, ...] = ()) -> Entry:
    """The function `name` of the text, compiled or cached; see `loaded`."""
    return loaded(text, more).entry(name, arity)
