"""The user's names: of lambda parameters, of the variable a result is assigned to, of dims as index variables."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import CodeType
from typing import Any

from pullback.source import Position


@lru_cache(maxsize=512)
def _stores(code: CodeType) -> dict[int, str]:
    """Offset of an instruction -> name of the variable that the next instruction stores its result in."""
    out: dict[int, str] = {}
    previous = 0
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith("STORE_") and isinstance(instruction.argval, str):
            # an offset may point at an inline cache of the instruction before
            out.update(dict.fromkeys(range(previous, instruction.offset, 2), instruction.argval))
        previous = instruction.offset
    return out


def assigned_name(position: Position | None) -> str | None:
    """The variable that the result of the instruction at `position` is stored in, where it is stored at once."""
    if position is None:
        return None
    return _stores(position.code).get(position.offset)


def parameter_names(f: Callable[..., Any], count: int, taken: Iterable[str] = ()) -> list[str]:
    """Names for `count` index variables, from the parameters of f where they are written out."""
    names: list[str] = []
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names.extend(n if n.isidentifier() and not n.startswith("_") else "i" for n in positional[:count])
    return names + axis_names(count)[len(names) :]


def axis_names(count: int) -> list[str]:
    """i, j, k, ... for the axes of an array."""
    letters = "ijklmnpqrs"
    return [letters[a] if a < len(letters) else f"i{a}" for a in range(count)]
