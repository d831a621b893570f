"""Names from the user's code: lambda parameters, assigned variables, dims as index variables."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, TypeGuard

from pullback.errors import TraceError
from pullback.source import Position, user_frame, user_position
from pullback.state import cached


@cached(512)
def _stores(code: CodeType) -> dict[int, str]:
    """Map each instruction offset to the variable in which the next instruction stores its result."""
    out: dict[int, str] = {}
    previous = 0
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith("STORE_") and isinstance(instruction.argval, str):
            # an offset may point at an inline cache of the previous instruction
            out.update(dict.fromkeys(range(previous, instruction.offset, 2), instruction.argval))
        previous = instruction.offset
    return out


def assigned_name(position: Position | None) -> str | None:
    """The variable to which the result of the instruction at `position` is assigned directly."""
    if not isinstance(position, Position):  # none, or in another language's text, which has its own names
        return getattr(position, "assigned", None)
    return _stores(position.code).get(position.offset)


def captured_name(value: object) -> str | None:
    """The name of a value in the running user code: a variable that is the value or contains it."""
    frame = user_frame()
    if frame is None:
        return None
    used = {n: frame.f_globals[n] for n in frame.f_code.co_names if n in frame.f_globals}
    variables = {**used, **frame.f_locals}
    for name, found in variables.items():
        if found is value:
            return name
    for name, found in variables.items():
        for key, item in _inside(found).items():
            if item is value and f"{name}_{key}".isidentifier():
                return f"{name}_{key}"
    return None


def _inside(x: object) -> Mapping[Any, object]:
    """The items of a dict, or the attributes of an object, bypassing its class."""
    try:
        found = x if isinstance(x, dict) else object.__getattribute__(x, "__dict__")
    except Exception:
        return {}
    return found if isinstance(found, dict | MappingProxyType) else {}


def parameter_names(f: Callable[..., Any], count: int, taken: Iterable[str] = ()) -> list[str]:
    """Names for `count` index variables, taken from the parameters of f if possible."""
    names = [n if n.isidentifier() and not n.startswith("_") else "i" for n in _positional(f)[:count]]
    return names + axis_names(count)[len(names) :] if len(names) < count else names


def takes(f: Callable[..., Any], count: int) -> bool:
    """Whether f can be called with this number of arguments, according to its signature."""
    if _is_plain(f):
        most = f.__code__.co_argcount
        return most - len(f.__defaults__ or ()) <= count <= most
    try:
        inspect.signature(f).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        pass  # a builtin without a signature
    return True


def check_callable(f: object, what: str, wanted: Sequence[str]) -> None:
    """Refuse an object that cannot be called with the arguments in `wanted`.

    Raises:
        TraceError: [E137] the object is not a function, or the number of parameters differs.
    """
    if callable(f) and takes(f, len(wanted)):
        return
    if callable(f):
        own = len(_positional(f))
        needed = f"{len(wanted)} {'is' if len(wanted) == 1 else 'are'} given" if wanted else "none is given"
        problem = f"the function takes {own} argument{'' if own == 1 else 's'}, and {needed}"
    else:
        found = type(f).__name__
        problem = f"{'an' if found[0] in 'AEIOaeio' else 'a'} {found} was given where a function is needed"
    remedy = f"`lambda{' ' if wanted else ''}{', '.join(wanted)}: ...`"
    raise TraceError("E137", f"{what}: {problem}", position=user_position(), remedy=remedy)


def _positional(f: Callable[..., Any]) -> Sequence[str]:
    if _is_plain(f):
        return f.__code__.co_varnames[: f.__code__.co_argcount]
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return ()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _is_plain(f: Callable[..., Any]) -> TypeGuard[FunctionType]:
    """Whether f is a plain function whose code describes its parameters: the common, fast case."""
    if type(f) is not FunctionType or f.__dict__:
        return False
    return not f.__code__.co_kwonlyargcount and not f.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)


def axis_names(count: int) -> list[str]:
    """Names i, j, k, ... for the axes of an array."""
    letters = "ijklmnpqrs"
    return [letters[a] if a < len(letters) else f"i{a}" for a in range(count)]
