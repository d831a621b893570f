"""The threads that compiled functions run on: `runtime/c/pool.c`, compiled once and kept in the cache.

There is one pool for each requested number of workers. Its threads start with the first task and stay.
"""

from __future__ import annotations

import ctypes
import warnings
from pathlib import Path

from pullback.errors import CompilerError
from pullback.runtime.compile import Ahead
from pullback.runtime.load import loaded
from pullback.runtime.shim import extension
from pullback.state import cached

FLAGS = ("-pthread",)


@cached(1)
def _text() -> str:
    return (Path(__file__).parent / "c" / "pool.c").read_text(encoding="utf-8")


def compile_pool(ahead: Ahead) -> None:
    """Compile the pool ahead of the first call that needs it; once is enough."""
    ahead.shared_library(_text(), FLAGS)


@cached(1, stays="with the process, as its threads do")
def _library() -> ctypes.CDLL | None:
    """The compiled pool; None if it cannot be compiled."""
    try:
        library = loaded(_text(), FLAGS, ctypes.CDLL)  # never unloaded: its threads stay
    except CompilerError as error:
        warnings.warn(f"threads cannot be had, calls run on one: {error.what}", RuntimeWarning, stacklevel=2)
        return None
    library.pb_pool_of.argtypes = [ctypes.c_int64]
    library.pb_pool_of.restype = ctypes.c_void_p
    calls = extension()
    if calls is not None:
        library.pb_pool_guard.argtypes = [ctypes.c_void_p]
        library.pb_pool_guard(calls.guard())
    return library


@cached(64)
def pool_address(workers: int) -> int:
    """The address of the pool with this many workers, including the caller; 0 without a pool."""
    library = _library() if workers > 1 else None
    return 0 if library is None else library.pb_pool_of(workers) or 0
