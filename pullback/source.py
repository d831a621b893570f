"""Source locations of expressions in the user's file.

A `Position` keeps a code object and an instruction offset, which is all a traced operation has time for; file,
line, columns and the source line are worked out when a message needs them (Python 3.11 keeps columns per
instruction).
"""

from __future__ import annotations

import dis
import linecache
import sys
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, cast

from pullback.records import dataclass
from pullback.state import PerThread, cached, setting

_PACKAGE = str(Path(__file__).parent)
_PROGRAM = str(Path(__file__).parent / "cli")
_MODELS = str(Path(__file__).parent / "nn" / "models")  # networks that come along are written as users write theirs


@dataclass(frozen=True, eq=False)
class Position:
    """An instruction of the user's code. Columns count from 1, as editors do."""

    code: CodeType
    offset: int

    @cached_property
    def _span(self) -> tuple[int | None, int | None, int | None, int | None]:
        return next(islice(self.code.co_positions(), self.offset // 2, None), (None, None, None, None))

    @property
    def file(self) -> str:
        """The file's name as the interpreter knows it."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line, counted from 1."""
        return self._span[0] or self.code.co_firstlineno

    @property
    def column(self) -> int:
        """The column, counted from 1."""
        return (self._span[2] or 0) + 1

    @property
    def end_column(self) -> int:
        """One past the last column on the first line."""
        line, end_line, _, end = self._span
        if end is None or line != end_line:
            return len(self.source_line or "") + 1
        return end + 1

    @property
    def source_line(self) -> str | None:
        """The line of text, None where the file cannot be read."""
        return linecache.getline(self.file, self.line).rstrip("\n") or None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def source_text(position: Position | None) -> str:
    """The user's text at a position, within one line; empty if the file cannot be read."""
    line = position.source_line if position is not None else None
    return line[position.column - 1 : position.end_column - 1] if position is not None and line else ""


def called(position: Position | None) -> str | None:
    """`math.sin` where the user wrote a call of it there."""
    text = source_text(position)
    name, opened, _ = text.partition("(")
    return name if opened and name.replace(".", "").replace("_", "").isalnum() else None


@cached(4096)  # notebooks make a file of every cell
def is_ours(file: str) -> bool:
    """Whether a file is one of this package, and not one written as users write theirs."""
    return file.startswith(_PACKAGE) and not file.startswith(_MODELS)


@cached(4096)
def _is_program(file: str) -> bool:
    return file.startswith(_PROGRAM)


@cached(4096)
def _is_inner(file: str) -> bool:
    """Whether a file is one of this package outside its command line, whose frames are not the user's."""
    return is_ours(file) and not _is_program(file)


class _Standing(PerThread):
    code: CodeType | None = None  # of the function whose results are looked at
    place: Any = None  # in another language's text, which no frame is of
    defined: Position | None = None  # where the function is defined that the command line works on
    floor: FrameType | None = None  # a frame of this package that waits for the operation,
    above: FrameType | None = None  # and the user's frame around it


_STANDING = _Standing()


def returning_from(code: CodeType | None) -> setting:
    """Attribute inner operations to the `return` of this code, which no longer has a frame."""
    return setting(_STANDING, code=code)


def place_kept() -> setting:
    """Keep the place even if the block is interrupted in another language's text."""
    return setting(_STANDING, place=_STANDING.place)


def working_on(position: Position | None) -> None:
    """Attribute operations without a place to this definition, for the command line."""
    _STANDING.defined = position


_RETURNS = [dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in dis.opmap]


def return_position(code: CodeType) -> Position | None:
    """The `return` of a function; None where it has several."""
    operations = code.co_code[::2]
    found = [operations.index(o) for o in _RETURNS for _ in range(operations.count(o))]
    return Position(code, 2 * found[0]) if len(found) == 1 else None


def user_position() -> Position | None:
    """The innermost frame outside this package: where the user wrote the operation being traced."""
    if _STANDING.place is not None:
        return cast(Position, _STANDING.place)  # another language's text
    if _STANDING.code is not None and (place := return_position(_STANDING.code)) is not None:
        return place
    frame = user_frame()
    if frame is None or _is_program(frame.f_code.co_filename):
        return None if frame is None else _STANDING.defined
    return Position(frame.f_code, frame.f_lasti)


def user_frame() -> FrameType | None:
    """The innermost frame outside this package, or of its command line."""
    frame: FrameType | None = sys._getframe(1)
    floor = _STANDING.floor
    while frame is not None and (_is_inner(frame.f_code.co_filename) or _is_generated(frame)):
        if frame is floor:
            return _STANDING.above
        frame = frame.f_back
    return frame


def walked() -> setting:
    """Find the user's frame around the caller once for all operations in the block.

    Layers nest deeply, and the user's frame waits while they run.
    """
    return setting(_STANDING, floor=sys._getframe(1), above=user_frame())


def _is_generated(frame: FrameType) -> bool:
    """Whether a frame runs a method that a dataclass of this package generated."""
    if frame.f_code.co_filename != "<string>":
        return False
    return str(frame.f_globals.get("__name__")).startswith("pullback.")


def standing_at(place: Any) -> setting:
    """Attribute inner operations to a `Place` in another language's text."""
    return setting(_STANDING, place=place or _STANDING.place)
