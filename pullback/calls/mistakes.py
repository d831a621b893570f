"""Python errors in a user's function: reworded, without the package's frames in tracebacks."""

from __future__ import annotations

import dis
import functools
import inspect
import re
from collections.abc import Callable
from math import prod
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

from pullback.calls.carried import item
from pullback.errors import (
    MissingKeyError,
    OutOfMemoryError,
    PullbackError,
    ShapeError,
    TraceError,
    UndefinedNameError,
    UnknownNameError,
)
from pullback.ir.types import dtype_named
from pullback.source import Position, is_ours, source_text, user_position
from pullback.tracing import elsewhere, tree
from pullback.tracing.public import WRONG_CALL, explaining, frames, last_frame, present, wrong_arguments, wrong_call

P = ParamSpec("P")
R = TypeVar("R")


def explained(error: Exception, name: str, arguments: dict[str, Any]) -> Exception:
    """Convert an error that Python raised in the function `name` to one of ours, if ours is clearer.

    Only errors raised by the user's own lines are converted, not those from inside another library.
    """
    if isinstance(error, PullbackError):
        return error
    if isinstance(error, RecursionError):
        return _endless(error, name)
    frame, position = last_frame(error.__traceback__)
    if frame is not None and is_ours(frame.f_code.co_filename) and WRONG_CALL.fullmatch(str(error)):
        frame, position = _before_last(error.__traceback__)  # a decorated function passes its arguments on
    if frame is None or is_ours(frame.f_code.co_filename):
        return error
    if position.code.co_code[position.offset] == dis.opmap["RAISE_VARARGS"]:
        return error  # errors raised by the user are left unchanged
    text, line = str(error), position.source_line or ""
    match error:
        case UnboundLocalError():
            return error
        case NameError() if error.name is not None:
            return _undefined(name, error.name, position, frame, arguments)
        case TypeError() if (found := WRONG_CALL.fullmatch(text)) is not None:
            return _wrong_call(found, position, frame) or error
        case TypeError() if text.endswith("object is not callable") and (
            found := re.search(r"\.(size|shape|ndim|dtype|T)\(", source_text(position))
        ):
            return TraceError("E145", f"`{found[1]}` of an array is no function", position=position,
                              remedy=f"without brackets: `x.{found[1]}`")  # fmt: skip
        case ValueError() if text.startswith("setting an array element"):
            return TraceError("E147", "an element of a NumPy array cannot become a traced value", position=position,
                              remedy="`pb.zeros(n)` inside the function is an array whose elements can")  # fmt: skip
        case AttributeError() if "'Array'" in text:
            return UnknownNameError(
                "E146", "a traced array has no attribute that could be set", position=position,
                remedy="`x.reshape(...)` and `x.astype(...)` make other arrays",
            )
        case ValueError() | IndexError() if ".shape" in line and ("to unpack" in text or "tuple index" in text):
            return ShapeError(
                "E104", f"{source_text(position) or line.strip()}: {text}", position=position,
                remedy="`x.shape` has one size for each axis of x",
            )
        case KeyError() if len(error.args) == 1 and (held := _dicts(arguments)):
            return _missing(error.args[0], held, position)
    return error


def _before_last(tb: TracebackType | None) -> tuple[FrameType | None, Position]:
    """The frame that called the frame that raised."""
    found = list(frames(tb))
    return found[-2] if len(found) > 1 else last_frame(None)


def _endless(error: RecursionError, name: str) -> TraceError:
    last = [p for frame, p in frames(error.__traceback__) if not is_ours(frame.f_code.co_filename)]
    position = last[-1] if last else user_position()
    return TraceError(
        "E142", f"{name} calls itself without an end", position=position,
        remedy="a condition on a `pb.Static` argument or another Python value ends it; `fold` and `while_loop` repeat",
    )


def _undefined(
    name: str, missing: str, position: Position, frame: FrameType, arguments: dict[str, Any]
) -> UndefinedNameError:
    from pullback.tracing.array import Array

    for argument, value in arguments.items():
        extents = [str(e) for e in value.shape] if isinstance(value, Array) else []
        if missing in extents:
            remedy = f"`{missing} = {argument}.shape[{extents.index(missing)}]`: a dim is no name of Python"
            break
    else:
        close = elsewhere.nearest(missing, {*frame.f_locals, *frame.f_globals})
        remedy = f"did you mean `{close[0]}`?" if close else "define it before the first call"
    made = UndefinedNameError("E148", f"{name}: the name {missing!r} is not defined", position=position, remedy=remedy)
    made.name = missing
    return made


def _wrong_call(found: re.Match[str], position: Position, frame: FrameType) -> TraceError | None:
    """The error for a public function called with arguments that it does not accept."""
    from pullback.tracing.array import Array

    name, problem, keyword = found.groups()
    package = elsewhere.public_names()
    function = getattr(package, name, None) if name in package.__all__ else getattr(Array, name, None)
    if not inspect.isroutine(function) or name in frame.f_globals:
        return None
    return wrong_arguments(function, name, problem, keyword, position)


def _dicts(arguments: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """The dicts among and inside the arguments, by path, with their keys."""
    found: dict[str, tuple[Any, ...]] = {}

    def walk(x: Any, path: str) -> None:
        node = tree.open_node(x)
        if node is None:
            return
        if node[0].kind == "dict":
            found[path] = node[0].keys
        for key, child in zip(node[0].keys, node[1]):
            walk(child, path + tree.step(node[0].kind, key))

    for name, value in arguments.items():
        walk(value, name)
    return found


def _missing(key: Any, held: dict[str, tuple[Any, ...]], position: Position) -> MissingKeyError:
    return MissingKeyError(
        "E139", f"there is no key {key!r}", position=position,
        facts=[f"{path} has {', '.join(map(repr, keys)) or 'no keys'}" for path, keys in held.items()],
        remedy="pass a tree with this key, or read another",
    )


def out_of_memory(name: str, executable: Any, error: MemoryError, remedy: str = "") -> OutOfMemoryError:
    """The error for a call whose results or working memory cannot be allocated.

    Args:
        executable: the code to run; None for the interpreter.
        remedy: the advice; by default how to inspect a function's memory.
    """
    found: list[tuple[int, str]] = []
    if executable is not None:
        record = executable.record
        for p in record.outputs:
            count = prod(p.shape) * dtype_named(p.dtype).numpy.itemsize
            found.append((count, f"the result {p.name} : {p.dtype}[{', '.join(map(str, p.shape))}], {count:,} bytes"))
        if executable.arena_bytes:
            found.append((executable.arena_bytes, f"working memory: {executable.arena_bytes:,} bytes"))
    needed = f"{sum(count for count, _ in found):,} bytes" if found else str(error)
    remedy = remedy or f'smaller arguments; `{name}.memory(...)` lists what needs memory, `memory="least"` needs less'
    return OutOfMemoryError(
        "E405", f"{name}: there is no memory for what a call with these arguments makes: {needed}",
        position=user_position(),
        facts=[text for _, text in sorted(found, key=lambda f: -f[0])[:4]],
        remedy=remedy,
    )


def public(f: Callable[P, R]) -> Callable[P, R]:
    """Wrap a public function, so that wrong arguments and errors inside are presented.

    Functions that it returns keep their recipe, for `pickle`.
    """

    @functools.wraps(f)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            made = f(*args, **keywords)
            several = isinstance(made, tuple)
            for k, one in enumerate(made if isinstance(made, tuple) else (made,)):
                if getattr(one, "made_by", one) is None and getattr(one, "is_derivative", False):
                    one.made_by = (item, (call, k, *args), keywords) if several else (call, args, keywords)
            return made
        except Exception as error:
            if better := wrong_call(error, f, f"pb.{f.__name__}"):
                raise better from None
            present(error)
            raise

    return explaining(call)


__all__ = ["explained", "out_of_memory", "present", "public"]
