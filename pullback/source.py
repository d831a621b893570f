"""Where in the user's file an expression was written.

A `Position` keeps a code object and an instruction offset, which is all a traced operation has time for; file,
line, columns and the source line are worked out when a message needs them (Python 3.11 keeps columns per
instruction).
"""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType

_PACKAGE = str(Path(__file__).parent)
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


@cache
def _is_ours(file: str) -> bool:
    return file.startswith(_PACKAGE) and not file.startswith(_MODELS)


def user_position() -> Position | None:
    """The innermost frame outside this package: where the user wrote the operation being traced."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else Position(frame.f_code, frame.f_lasti)
