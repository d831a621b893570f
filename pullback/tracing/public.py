"""Public modules and calls as users meet them: wrong arguments, unknown names, and tracebacks without our frames."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, TypeVar

from pullback.errors import Place, PullbackError, TraceError, UsageError
from pullback.source import Position, is_ours, user_position
from pullback.tracing import elsewhere

__all__ = ["WRONG_CALL", "Answers", "frames", "guarded", "last_frame", "present", "public_module", "wrong_arguments"]

P = ParamSpec("P")
R = TypeVar("R")

WRONG_CALL: Final = re.compile(
    r"(?:[\w.<>]*\.)?(\w+)\(\) (got an unexpected keyword argument '(\w+)'|(?:missing|takes|got multiple|got some) .*)"
)
_FULL: Final = "PULLBACK_TRACEBACK"  # `full` keeps our own frames


def wrong_arguments(
    function: Callable[..., Any], name: str, problem: str, keyword: str | None, position: Place | None
) -> TraceError:
    """The error for a call that the function's parameters do not allow; `name` as in `pb.sum` or `nn.adam`."""
    parameters = inspect.signature(function).parameters
    own = elsewhere.section(name)
    remedy = elsewhere.parameter(own, keyword, list(parameters)) if keyword else elsewhere.call(own, problem)
    facts = [(function.__doc__ or "").strip().splitlines()[0]] if "." in name and function.__doc__ else []
    return TraceError("E145", f"{name}() {problem}", position=position, facts=facts,
                      remedy=remedy or f"`{elsewhere.form(name, function)}`")  # fmt: skip


def wrong_call(error: Exception, function: Callable[..., Any], name: str) -> TraceError | None:
    """The error for a call that the parameters do not allow, where `error` says that of this function."""
    found = WRONG_CALL.fullmatch(str(error)) if isinstance(error, TypeError) else None
    if found is None or found[1] not in (function.__name__, "__init__"):
        return None
    if any(not is_ours(frame.f_code.co_filename) for frame, _ in frames(error.__traceback__)):
        return None  # a function of the user's raised it
    return wrong_arguments(function, name, found[2], found[3], user_position())


def guarded(function: Callable[P, R], name: str) -> Callable[P, R]:
    """The function as users call it: wrong arguments are explained, and our frames leave the traceback."""

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*args, **keywords)
        except Exception as error:
            if better := wrong_call(error, function, name):
                raise better from None
            hide_frames(error)
            raise

    return call


def public_module(module: str) -> Callable[[str], NoReturn]:
    """Guard the functions and classes that a module lists, and return its `__getattr__`.

    A function is replaced where it is defined, too, so that `pickle` finds it there.
    """
    here = sys.modules[module]
    for name in here.__all__:
        value: Any = getattr(here, name)
        own = getattr(value, "__module__", None) or ""
        if not f"{own}.".startswith(f"{module}."):
            continue
        written = f"{elsewhere.short(module)}.{name}"
        if isinstance(value, type) and inspect.isfunction(start := value.__dict__.get("__init__")):
            type.__setattr__(value, "__init__", guarded(start, written))
        elif isinstance(value, FunctionType) and not hasattr(value, "__signature__"):  # layers answer for themselves
            better = guarded(value, written)
            for home in (here, sys.modules[own]):
                if home.__dict__.get(better.__name__) is value:
                    setattr(home, better.__name__, better)
    return lookup(module)


def lookup(module: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module of the package: its error says what to write instead."""

    def missing(name: str) -> NoReturn:
        raise AttributeError(name) if name.startswith("_") else elsewhere.unknown(name, module)

    return missing


class Answers:
    """A base of classes whose unknown attributes are answered with what to write instead."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name in dir(type(self)):
                return object.__getattribute__(self, name)  # the error that a property raised, again
            raise elsewhere.attribute(self, name)


# Tracebacks -----------------------------------------------------------------------------------------------------


def frames(tb: TracebackType | None) -> Iterator[tuple[FrameType, Position]]:
    """The frames of a traceback, outermost first, each with the place that it had reached."""
    while tb is not None:
        yield tb.tb_frame, Position(tb.tb_frame.f_code, tb.tb_lasti)
        tb = tb.tb_next


def last_frame(tb: TracebackType | None) -> tuple[FrameType | None, Position]:
    """The frame that raised, and its place."""
    return ([(None, Position((lambda: None).__code__, 0)), *frames(tb)])[-1]


def present(error: Exception) -> None:
    """Prepare an error for the user: attach its place, and remove our frames from its traceback."""
    if isinstance(error, PullbackError) and error.position is None and not isinstance(error, UsageError):
        error.position = user_position()
    hide_frames(error)


def hide_frames(error: Exception) -> None:
    """Remove our frames from the traceback of an error.

    What our own code raises by mistake keeps them all, and so does everything where PULLBACK_TRACEBACK is `full`.
    """
    frame, _ = last_frame(error.__traceback__)
    own = isinstance(error, PullbackError) or (frame is not None and not is_ours(frame.f_code.co_filename))
    if own and os.environ.get(_FULL) != "full":
        error.__traceback__ = _outside(error.__traceback__)


def _outside(tb: TracebackType | None) -> TracebackType | None:
    """The frames of the user's own files."""
    made: TracebackType | None = None
    for frame, position in reversed(list(frames(tb))):
        if not is_ours(frame.f_code.co_filename):
            made = TracebackType(made, frame, position.offset, position.line)
    return made
