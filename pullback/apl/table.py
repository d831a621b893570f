"""The table of verbs: the monadic and dyadic meaning of each glyph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pullback.apl.values import Value
from pullback.state import IMPORTED, registered

Meaning = Callable[..., Value]


@dataclass(frozen=True)
class Settings:
    """The system variables: index origin, comparison tolerance, migration level."""

    io: int = 1
    ct: float = 1e-14
    ml: int = 1  # the only supported level
    pp: int = 10
    fr: int = 645  # floating-point type of compiled functions: 645 for 64 bits, 325 for 32


@dataclass
class Row:
    """A glyph with its meanings, which take the settings, the arguments, and an axis if allowed."""

    glyph: str
    monadic: Meaning | None = None
    dyadic: Meaning | None = None
    takes_axis: tuple[bool, bool] = (False, False)


TABLE: Final[dict[str, Row]] = registered({}, "one for each glyph", stays=IMPORTED)


def monadic(glyph: str, axis: bool = False) -> Callable[[Meaning], Meaning]:
    """Register the monadic meaning of a glyph."""

    def enter(f: Meaning) -> Meaning:
        row = TABLE.setdefault(glyph, Row(glyph))
        row.monadic, row.takes_axis = f, (axis, row.takes_axis[1])
        return f

    return enter


def dyadic(glyph: str, axis: bool = False) -> Callable[[Meaning], Meaning]:
    """Register the dyadic meaning of a glyph."""

    def enter(f: Meaning) -> Meaning:
        row = TABLE.setdefault(glyph, Row(glyph))
        row.dyadic, row.takes_axis = f, (row.takes_axis[0], axis)
        return f

    return enter
