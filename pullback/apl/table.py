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
    """The system variables: index origin, comparison tolerance, and the others of `system.VARIABLES`."""

    io: int = 1
    ct: float = 1e-14
    ml: int = 1  # the migration level, 0 to 3: `MIGRATED` says what it changes
    pp: int = 10
    div: int = 0
    rl: int = 16807
    fr: int = 645  # floating-point type of compiled functions: 645 for 64 bits, 325 for 32


@dataclass
class Row:
    """A glyph with its meanings, which take the settings, the arguments, and an axis if allowed."""

    glyph: str
    monadic: Meaning | None = None
    dyadic: Meaning | None = None
    takes_axis: tuple[bool, bool] = (False, False)


MIGRATED: Final[dict[tuple[str, bool], tuple[str, str, str, str]]] = {
    ("∊", False): ("∊ type", "∊", "∊", "∊"),
    ("≡", False): ("≡", "≡", "≡ depth", "≡ depth"),
    ("⊃", False): ("⊃", "⊃", "↑", "↑"),
    ("↑", False): ("↑", "↑", "⊃", "⊃"),
    ("⊂", True): ("⊂", "⊂", "⊂", "⊆"),
}
"""For glyphs, without or with a left argument, the row that has its meaning at the migration levels 0 to 3."""


def migrated(glyph: str, both: bool, s: Settings) -> str:
    """Return the row of the table that a glyph means at the present migration level."""
    levels = MIGRATED.get((glyph, both))
    return glyph if levels is None else levels[s.ml]


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
