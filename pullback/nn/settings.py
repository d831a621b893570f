"""Settings of optimizers, schedules and initializers: frozen, validated, printed as source text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from fnmatch import fnmatchcase
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from pullback.errors import TraceError
from pullback.source import user_position
from pullback.tracing.array import Array
from pullback.tracing.public import Answers

__all__ = [
    "Rate",
    "Settings",
    "check_fraction",
    "check_matches",
    "check_number",
    "check_rate",
    "check_whole",
    "listed",
    "matched",
    "refused",
]

Rate = float | Callable[[Any], Any] | Array  # a number, a schedule, or a scalar of the traced function
Value = TypeVar("Value")
SCHEDULE = "`nn.cosine_decay_schedule(0.1, decay_steps=1000)`"


class Settings(Answers):
    """The base of settings classes: frozen dataclasses printed as the call that makes them, `adam(0.001)`."""

    def __repr__(self) -> str:
        shown = []
        for f in fields(self):  # type: ignore[arg-type] # subclasses are dataclasses
            value = getattr(self, f.name)
            if f.default is MISSING and f.default_factory is MISSING:
                shown.append(repr(value))
            elif value is not f.default:
                if isinstance(value, Array) or value != f.default:
                    shown.append(f"{f.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))


def refused(where: object, name: str, value: object, remedy: str) -> TraceError:
    """The error for an invalid setting."""
    return TraceError(
        "E170",
        f"{kind_of(where)}: {name} is {value!r}",
        position=user_position(),
        remedy=remedy,
    )


def check_seed(where: object, seed: object) -> None:
    """Raise TraceError [E170] unless a seed is a nonnegative integer."""
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise refused(where, "seed", seed, "a whole number from 0 up: equal seeds give equal results")


def kind_of(x: Any) -> str:
    """The public name of a value's class, or of a function."""
    if isinstance(x, str):
        return x
    name: str = x.__name__ if isinstance(x, FunctionType) else type(x).__name__
    return name


def check_number(where: object, name: str, value: Any, low: float = 0.0, *, above: bool = False) -> None:
    """Refuse values that are not finite numbers >= `low`, or > `low` with `above`.

    Raises:
        TraceError: [E170] the value is invalid.
    """
    if not _is_number(value) or value < low or (above and value == low):
        raise refused(where, name, value, _wanted(low, above))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def _wanted(low: float, above: bool) -> str:
    if low == -math.inf:
        return "a finite number"
    return f"a number above {low:g}" if above else f"a number of at least {low:g}"


def check_fraction(where: object, name: str, value: Any) -> None:
    """Refuse values outside [0, 1).

    Raises:
        TraceError: [E170] the value is invalid.
    """
    check_number(where, name, value)
    if value >= 1:
        raise refused(where, name, value, "a number from 0 to below 1")


def check_whole(where: object, name: str, value: Any, low: int = 1) -> None:
    """Refuse values that are not ints >= `low`.

    Raises:
        TraceError: [E170] the value is invalid.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise refused(where, name, value, f"a whole number of at least {low}")


def check_rate(where: object, name: str, value: Any, low: float = 0.0) -> None:
    """Refuse a value that is not a number >= `low`, a schedule, or a scalar of a traced function.

    Raises:
        TraceError: [E170] the value is invalid.
    """
    if isinstance(value, Array) or (callable(value) and not isinstance(value, type)):
        return
    if not _is_number(value) or value < low:
        raise refused(where, name, value, f"{_wanted(low, False)}, or a schedule such as {SCHEDULE}")


def matched(patterns: Mapping[str, Value], names: Iterable[str]) -> dict[str, Value]:
    """The value of the first matching pattern for each name; names that match none are left out."""
    found: dict[str, Value] = {}
    for name in names:
        fits = next((p for p in patterns if fnmatchcase(name, p)), None)
        if fits is not None:
            found[name] = patterns[fits]
    return found


def check_matches(where: object, patterns: Iterable[str], names: Sequence[str]) -> None:
    """Refuse patterns that no name matches.

    Raises:
        TraceError: [E108] a pattern matches no name.
    """
    unused = [p for p in patterns if not any(fnmatchcase(n, p) for n in names)]
    if unused:
        raise TraceError(
            "E108",
            f"{kind_of(where)}: no parameter is called {' or '.join(map(repr, unused))}",
            position=user_position(),
            facts=(f"parameters: {listed(names)}",),
            remedy='a name, or a pattern such as "*/b": `*` stands for any letters, / too',
        )


def listed(names: Sequence[str], most: int = 8) -> str:
    """The names separated by commas, only the first ones if there are many."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) + rest) or "none"
