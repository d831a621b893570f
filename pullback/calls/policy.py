"""Settings around calls: threads, exactness, and the backend."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pullback.device import NAME
from pullback.errors import UsageError
from pullback.ir.expr import in_order
from pullback.ir.settings import SPECIALIZE, Specialize
from pullback.state import context_variable, registered

ASKED_THREADS: ContextVar[int | None] = context_variable("threads", None)


def is_count(x: object) -> bool:
    """Whether x is an int of at least 1."""
    return isinstance(x, int) and not isinstance(x, bool) and x >= 1


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Limit calls inside to `count` threads; results are the same bit for bit for any number of them.

    >>> import pullback as pb
    >>> with pb.threads(1):
    ...     pass
    """
    if not is_count(count):
        raise ValueError(f"threads({count!r}): the number of threads is an int of at least 1")
    token = ASKED_THREADS.set(count)
    try:
        yield
    finally:
        ASKED_THREADS.reset(token)


@contextmanager
def exact() -> Iterator[None]:
    """Make functions compute as written: sums and products in order, every division a division.

    This holds wherever they are called. Their C and the interpreter give the same bits, except for functions of libm
    such as `exp`, where NumPy has its own. A function made outside keeps its settings when called inside. A function
    called by another takes the caller's setting.

    >>> with pb.exact():
    ...     total = pb.function(lambda x: pb.sum(x))
    ...     float(total(np.array([1e16, 1.0, -1e16])))
    0.0
    """
    with in_order():
        yield


def device(own: str | None) -> str:
    """Return the device of calls: a function's own, then PULLBACK_DEVICE; "" for that of the arguments.

    Raises:
        ValueError: `own` is no device.   UsageError: [E601] PULLBACK_DEVICE names no device.
    """
    text = os.environ.get("PULLBACK_DEVICE", "") if own is None else own
    if text != "" and not NAME.fullmatch(str(text)):
        if own is not None:
            raise ValueError(f'device={own!r}: "cpu", "cuda", "cuda:1" or "opencl"; with "!" it runs nowhere else')
        raise UsageError("E601", f"PULLBACK_DEVICE={text} is no device", remedy="cpu, cuda, cuda:1 or opencl")
    return text


def swap_folder(wish: bool | str | os.PathLike[str]) -> str:
    """Return the folder of the file for arrays that move; "" if none may."""
    if isinstance(wish, bool):
        return tempfile.gettempdir() if wish else ""
    return os.fspath(wish)


def thread_count(own: int | None) -> int:
    """The thread count of a call: from the enclosing block, else the function, else the environment."""
    return ASKED_THREADS.get() or usual_threads(own)


def usual_threads(own: int | None) -> int:
    """The number of threads of a call without a block around it."""
    if own is not None:
        return own
    text = os.environ.get("PULLBACK_THREADS", "1")
    if not text.isdigit() or int(text) < 1:
        raise UsageError(
            "E601", f"PULLBACK_THREADS={text} is not a number of threads", remedy="a whole number from 1 up"
        )
    return int(text)


def is_debug(own: bool | None) -> bool:
    """Whether functions are compiled for debugging: their own setting, then the environment.

    Raises:
        UsageError: [E601] PULLBACK_DEBUG is neither 0 nor 1.
    """
    if own is not None:
        return own
    text = os.environ.get("PULLBACK_DEBUG", "0")
    if text not in ("0", "1"):
        raise UsageError("E601", f"PULLBACK_DEBUG={text} is neither 0 nor 1", remedy="1 for debug builds")
    return text == "1"


def specialize(own: Specialize | None) -> Specialize:
    """Whether functions get C for the dims of each call: their own setting, then the environment.

    Raises:
        UsageError: [E601] PULLBACK_SPECIALIZE is not in SPECIALIZE.
    """
    text = own if own is not None else os.environ.get("PULLBACK_SPECIALIZE", "auto")
    found = next((s for s in SPECIALIZE if s == text), None)
    if found is None:
        raise UsageError("E601", f"PULLBACK_SPECIALIZE={text} is none of {', '.join(SPECIALIZE)}", remedy="auto")
    return found


def word(variable: str, words: tuple[str, ...], wrong: str) -> str:
    """The word that the environment holds, by default the first one.

    Args:
        wrong: what another word is, such as "is no backend".

    Raises:
        UsageError: [E602] the environment holds another word.
    """
    found = os.environ.get(variable, words[0])
    if found not in words:
        raise UsageError("E602", f"{variable}={found} {wrong}", remedy=" or ".join(words))
    return found


def backend() -> str:
    """The backend that the environment selects: `c` or `interpreter`."""
    return word("PULLBACK_BACKEND", ("c", "interpreter"), "is no backend")


def has_tiers() -> bool:
    """Whether first calls may run in NumPy, before the C compiler has run."""
    return word("PULLBACK_TIERS", ("off", "on"), "is neither on nor off") == "on"


_said: set[str] = registered(set(), 1, stays="with the process: a warning is given once")


def warn_without_compiler(reason: object) -> None:
    """Warn once that calls run in the interpreter."""
    if not _said:
        _said.add("no compiler")
        warnings.warn(
            f"no C compiler: functions run in the interpreter, which is slow ({reason})", RuntimeWarning, stacklevel=4
        )
