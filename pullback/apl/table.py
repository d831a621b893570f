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
    ml: int = 1  # the only one there is
    pp: int = 10
    fr: int = 645  # floating numbers of compiled functions: 645 of 64 bits, 325 of 32


@dataclass
class Row:
    """A glyph. Meanings take the settings, the arguments, and the axis where one may be given."""

    glyph: str
    monadic: Meaning | None = None
    dyadic: Meaning | None = None
    takes_axis: tuple[bool, bool] = (False, False)


TABLE: Final[dict[str, Row]] = registered({}, "one for each glyph", stays=IMPORTED)


def monadic(glyph: str, axis: bool = False) -> Callable[[Meaning], Meaning]:
    """Enter the meaning of a glyph with one argument."""

    def enter(f: Meaning) -> Meaning:
        row = TABLE.setdefault(glyph, Row(glyph))
        row.monadic, row.takes_axis = f, (axis, row.takes_axis[1])
        return f

    return enter


def dyadic(glyph: str, axis: bool = False) -> Callable[[Meaning], Meaning]:
    """Enter the meaning of a glyph with two arguments."""

    def enter(f: Meaning) -> Meaning:
        row = TABLE.setdefault(glyph, Row(glyph))
        row.dyadic, row.takes_axis = f, (row.takes_axis[0], axis)
        return f

    return enter
