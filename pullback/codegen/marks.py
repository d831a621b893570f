r"""Source origins of C lines: marks printed as separate lines and removed at the end.

    "\x03k"   the text up to a line "\x03" comes from the k-th of the places

A kernel that several statements share has the origins of all these statements.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from pullback.records import dataclass
from pullback.source import Position

__all__ = ["Marks", "Place"]

_MARK: Final = "\x03"


@dataclass(frozen=True)
class Place:
    """A range of C lines, from 1, both ends included, and its source locations in the user's files."""

    first: int
    last: int
    positions: tuple[Position, ...]


class Marks:
    """The marks of one text."""

    end: Final = _MARK

    def __init__(self) -> None:
        self._positions: list[dict[Position, None]] = []
        self._numbers: dict[Hashable, int] = {}

    def add(self, key: Hashable, positions: Iterable[object]) -> int:
        """Add positions to the origin of a key; return its number."""
        number = self._numbers.setdefault(key, len(self._positions))
        if number == len(self._positions):
            self._positions.append({})
        self._positions[number].update((p, None) for p in positions if isinstance(p, Position))
        return number

    def begin(self, key: Hashable, positions: Iterable[object]) -> str:
        """The mark before text from these places."""
        return f"{_MARK}{self.add(key, positions)}"

    def around(self, key: Hashable, text: str) -> str:
        """Surround whole lines with their marks."""
        return f"{self.begin(key, ())}\n{text}{_MARK}\n"

    def taken_from(self, text: str) -> tuple[str, tuple[Place, ...]]:
        """Remove the marks from a text; return it with the places of its lines in order, inner ones last."""
        lines: list[str] = []
        open_: list[tuple[int, int]] = []
        found: list[Place] = []
        for line in text.split("\n"):
            if not line.startswith(_MARK):
                lines.append(line)
            elif line == _MARK:
                first, number = open_.pop()
                if self._positions[number] and len(lines) >= first:
                    found.append(Place(first, len(lines), tuple(self._positions[number])))
            else:
                open_.append((len(lines) + 1, int(line[1:])))
        return "\n".join(lines), tuple(sorted(found, key=lambda p: (p.first, -p.last)))
