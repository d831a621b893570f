"""Shared libraries as callables: ctypes with addresses, which releases the interpreter lock during the call."""

from __future__ import annotations

import _ctypes
import ctypes
import sys
from collections.abc import Callable
from pathlib import Path

from pullback.clock import stage
from pullback.errors import CompilerError
from pullback.runtime.compile import Text, build_library, compiled_library

Entry = Callable[..., int]


class Library(ctypes.CDLL):
    """A shared library that is unloaded when none of its functions is used any more: each holds it."""

    _handle = 0  # of one that could not be loaded

    def __del__(self) -> None:
        if self._handle and not sys.is_finalizing():  # else a thread that never ends may be inside
            _ctypes.dlclose(self._handle)


def open_entry(path: Path, name: str, arity: int) -> Entry:
    """The function `name` of a library, taking `arity` addresses as integers and returning int."""
    with stage("load"):
        entry = Library(str(path))[name]
    entry.argtypes = [ctypes.c_void_p] * arity
    entry.restype = ctypes.c_int
    return entry


def compiled_entry(text: Text, name: str, arity: int, more: tuple[str, ...] = ()) -> Entry:
    """The function `name` of the text, compiled or cached; a damaged library in the cache is made anew.

    Args:
        more: flags after the usual ones.

    Raises:
        CompilerError: [E410] no compiler. [E411] it failed, or what it made cannot be loaded.
    """
    path = compiled_library(text, more)
    try:
        return open_entry(path, name, arity)
    except (OSError, AttributeError):
        pass
    try:
        return open_entry(build_library(text, more), name, arity)
    except (OSError, AttributeError) as error:
        raise CompilerError("E411", f"a compiled library cannot be loaded: {error}",
                            remedy="delete the cache folder, or set CC to another compiler") from error
