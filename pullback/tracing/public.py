"""Guards of public modules and calls: wrong arguments, unknown names, and short tracebacks."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, TypeVar

from pullback.errors import Place, PullbackError, TraceError, UsageError
from pullback.source import Position, is_ours, user_position
from pullback.tracing import elsewhere

__all__ = ["WRONG_CALL", "Answers", "explaining", "frames", "guarded", "last_frame", "present", "presented",
           "public_module", "unguarded", "wrong_arguments"]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")

WRONG_CALL: Final = re.compile(
    r"(?:[\w.<>]*\.)?(\w+)\(\) (got an unexpected keyword argument '(\w+)'|(?:missing|takes|got multiple|got some) .*)"
    r"(?:\. Did you mean '\w+'\?)?"  # of Python since 3.13
)
_FULL: Final = "PULLBACK_TRACEBACK"  # `full` keeps our own frames
_MARK: Final = "_explains_calls"


def wrong_arguments(
    function: Callable[..., Any], name: str, problem: str, keyword: str | None, position: Place | None
) -> TraceError:
    """The error for a call that the function's parameters do not allow; `name` is as in `pb.sum`."""
    parameters = inspect.signature(function).parameters
    own = elsewhere.section(name)
    remedy = elsewhere.parameter(own, keyword, list(parameters)) if keyword else elsewhere.call(own, problem)
    return TraceError("E145", f"{name}() {problem}", position=position,
                      remedy=remedy or f"`{elsewhere.form(name, function)}`")  # fmt: skip


def is_guard(frame: FrameType) -> bool:
    """Whether a frame belongs to the wrapper of a guarded function."""
    return frame.f_code.co_filename == __file__


def wrong_call(
    error: Exception, function: Callable[..., Any], name: str, given: Iterable[str] = ()
) -> TraceError | None:
    """The error for a call that does not match the parameters; None if `error` has another cause.

    Args:
        given: the keywords of the call; old names are reported even if `**` accepts them.
    """
    if old := next((k for k in given if elsewhere.renamed_to(elsewhere.section(name), k)), ""):
        if old not in inspect.signature(function).parameters:
            problem = f"got an unexpected keyword argument {old!r}"
            return wrong_arguments(function, name, problem, old, user_position())
    found = WRONG_CALL.fullmatch(str(error)) if isinstance(error, TypeError) else None
    if found is None or found[1] not in (function.__name__, "__init__"):
        return None
    if any(not is_ours(frame.f_code.co_filename) for frame, _ in frames(error.__traceback__)):
        return None  # a function of the user's raised it
    return wrong_arguments(function, name, found[2], found[3], user_position())


def guarded(function: Callable[P, R], name: str) -> Callable[P, R]:
    """Guard a public function: explain wrong arguments, and remove our frames from the traceback."""

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*args, **keywords)
        except Exception as error:
            if better := wrong_call(error, function, name, keywords):
                raise better from None
            hide_frames(error)
            raise

    return explaining(call)


def explaining(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that explains wrong arguments by itself; return it."""
    setattr(function, _MARK, True)
    return function


def guarded_function(value: Any, name: str) -> Any:
    """Guard a public function, also where it is defined, as `pickle` looks there; keep other values."""
    if not isinstance(value, FunctionType) or hasattr(value, "__signature__"):  # layers answer for themselves
        return value
    if getattr(value, _MARK, False):
        return value
    home = sys.modules[value.__module__]
    there = vars(home).get(value.__name__)
    if getattr(there, "__wrapped__", None) is value:  # another module holds the function itself
        return there
    better = guarded(value, name)
    if there is value:
        setattr(home, better.__name__, better)
    return better


def unguarded(f: Callable[P, R]) -> Callable[P, R]:
    """The function inside a guard, which tables use as key; other functions are returned unchanged."""
    inside = isinstance(f, FunctionType) and f.__code__.co_filename == __file__
    return f.__wrapped__ if inside else f  # type: ignore[attr-defined]


def guard_methods(kind: type, name: str) -> None:
    """Guard the public methods of a class, and the making and calling of its instances."""
    if issubclass(kind, tuple):  # a NamedTuple has no other base
        type.__setattr__(kind, "__getattr__", vars(Answers)["__getattr__"])
    for key, member in list(vars(kind).items()):
        if key in ("__init__", "__call__") or not key.startswith("_"):
            written = name if key == "__init__" else f"{name}.{key}"
            if isinstance(member, FunctionType):
                type.__setattr__(kind, key, guarded(member, written))
            elif isinstance(member, staticmethod):
                type.__setattr__(kind, key, staticmethod(guarded(member.__func__, written)))


def public_module(module: str, *unguarded: type) -> None:
    """Guard the functions and classes that a module lists, and explain the names that it lacks.

    Args:
        module: the name of the module, which calls this at its end.
        unguarded: classes that only the package instantiates, often.
    """
    here = sys.modules[module]
    for name in here.__all__:
        value = getattr(here, name)
        if f"{getattr(value, '__module__', '')}.".startswith(f"{module}.") and value not in unguarded:
            written = f"{elsewhere.short(module)}.{name}"
            if isinstance(value, type):
                guard_methods(value, written)
            else:
                setattr(here, name, guarded_function(value, written))

    def missing(name: str) -> NoReturn:
        raise AttributeError(name) if name.startswith("_") else elsewhere.unknown(name, module)

    here.__dict__.setdefault("__getattr__", missing)


class Answers:
    """The base of classes whose errors for unknown attributes say what to write instead."""

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


def presented(f: Callable[P, R]) -> Callable[P, R]:
    """Wrap a method that users call, so that its errors are presented."""

    @functools.wraps(f)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return f(*args, **keywords)
        except Exception as error:
            present(error)
            raise

    return call


def hide_frames(error: Exception) -> None:
    """Remove our frames from the traceback of an error.

    Errors from mistakes in our own code keep all frames, as do all errors if PULLBACK_TRACEBACK is `full`.
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
