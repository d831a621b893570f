"""The pickled form of functions.

A function that a module holds under its own name is pickled by that name, like Python functions. A derivative is
pickled by its recipe. `cloudpickle`, which joblib uses, pickles Python functions by value if no module holds them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from pullback.errors import TraceError

Recipe = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

BY_VALUE = ("cloudpickle", "dill")  # libraries that pickle Python functions by value


def reduced(function: Any, recipe: Recipe | None, again: Recipe) -> Any:
    """The result of a function's `__reduce__`.

    Args:
        recipe: the recipe of a derivative.
        again: a recipe that makes the function from its Python function.

    Raises:
        TraceError: [E151] no module holds the function.
    """
    writer = sys._getframe(2).f_globals.get("__name__", "")
    by_value = any(name in writer for name in BY_VALUE)
    module, name = function.__module__, getattr(function, "__qualname__", "?")
    held = held_by(module, name) is function
    if held and not (by_value and module == "__main__"):
        return name
    if recipe is not None:
        return _made, recipe
    python = again[1][0]
    while isinstance(python, functools.partial):
        python = python.func
    python = getattr(python, "__func__", python)  # of a method
    local = held_by(python.__module__, getattr(python, "__qualname__", "")) is not python
    if local and not by_value and hasattr(python, "__code__"):
        raise TraceError(
            "E151",
            f"{function.name} cannot be pickled: no module holds it under its name {name!r}",
            remedy="define it at the top of a module; `cloudpickle`, which joblib uses, carries it by value",
        )
    return _made, again


def _made(make: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return make(*args, **keywords)


def held_by(module: str | None, name: str) -> Any:
    """The object at a dotted name in a module; None if there is none."""
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def item(make: Callable[..., Any], k: int, /, *args: Any, **keywords: Any) -> Any:
    """Select one of several functions that are made together."""
    return make(*args, **keywords)[k]
