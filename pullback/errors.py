"""The exception tree, and the common form of all errors.

    PullbackError
      ShapeError        (ValueError)   sizes, ranks and index ranges that disagree when a function is defined
      DTypeError        (TypeError)    element types that do not fit
      TraceError        (TypeError)    Python control flow and conversions on traced values, wrong calls
      UnknownNameError  (AttributeError)  a function or method that there is none of
      UndefinedNameError (NameError)   a name of the user's file that a traced function needs and that is not there
      MissingKeyError   (KeyError)     a key that a tree of arguments does not have
      OutOfMemoryError  (MemoryError)  arrays of a call for which there is no memory
      DerivativeError                  derivatives that do not exist or are not supported
      IndexRangeError   (IndexError)   an index that left its range while a program ran
      UnfinishedError   (RuntimeError) a loop that its limit of trips ended while its test still held
      NotFiniteError    (FloatingPointError)  NaN or infinity that a statement of a debug build made of finite numbers
      ParseError                       program text that is not well formed
      VerifyError                      a program that breaks a rule of the intermediate representation
      CompilerError                    no compiler, a failing compiler, a cache that cannot be written
      DeviceError       (RuntimeError) a missing or failing device, or arrays that it cannot take
      DataError         (ValueError)   data sets and parameter files
      UsageError                       the command line asked for something that does not exist

Every error has a code. Codes are stable and documented in docs/reference/errors.md:
E1xx language, E2xx derivatives, E3xx programs, E4xx compiler and run time, E5xx data, E6xx command line,
E7xx lazy arrays, E8xx APL.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol, Self

__all__ = [
    "CompilerError",
    "DTypeError",
    "DataError",
    "DerivativeError",
    "DeviceError",
    "IndexRangeError",
    "MissingKeyError",
    "NotFiniteError",
    "OutOfMemoryError",
    "ParseError",
    "Place",
    "PullbackError",
    "ShapeError",
    "TraceError",
    "UndefinedNameError",
    "UnfinishedError",
    "UnknownNameError",
    "UsageError",
    "VerifyError",
    "together",
]


class Place(Protocol):
    """A source location in a user's file. Columns count from 1; `end_column` is one past the last."""

    @property
    def file(self) -> str:
        """Path of the file."""
        ...

    @property
    def line(self) -> int:
        """Line, from 1."""
        ...

    @property
    def column(self) -> int | None:
        """First column, from 1, where known."""
        ...

    @property
    def end_column(self) -> int | None:
        """One past the last column, where known."""
        ...

    @property
    def source_line(self) -> str | None:
        """The text of the line, where the file could be read."""
        ...


class PullbackError(Exception):
    """Base of everything Pullback raises on purpose.

    Args:
        code: stable code such as "E102".
        what: the operation and the finding, in the user's names.
        position: where, or None.
        facts: facts about the values involved, one short phrase each.
        remedy: the remedy, without the word "try".
        also: further errors of the same function, shown below this one.

    >>> print(DataError("E501", "digits.gz: truncated", facts=("10 bytes promised", "7 found"), remedy="copy it again"))
    DataError [E501] digits.gz: truncated
       | 10 bytes promised      7 found
      try: copy it again      See `pullback explain-error E501`
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        position: Place | None = None,
        facts: Sequence[str] = (),
        remedy: str | None = None,
        also: Sequence[PullbackError] = (),
    ) -> None:
        super().__init__(code, what)
        self.code = code
        self.what = what
        self.position = position
        self.facts = tuple(facts)
        self.remedy = remedy
        self.also = tuple(also)

    @property
    def message(self) -> str:
        """The complete text: headline, place, source line with carets, facts, remedy, reference."""
        parts = [self._own_message()]
        parts += [error.message for error in self.also]
        return "\n".join(parts)

    def _own_message(self) -> str:
        lines = [f"{type(self).__name__} [{self.code}] {self.what}"]
        if self.position is not None:
            lines += _place_lines(self.position)
        if self.facts:
            lines.append("   | " + "      ".join(self.facts))
        see = f"See `pullback explain-error {self.code}`"
        lines.append(f"  try: {self.remedy}      {see}" if self.remedy else f"  {see}")
        return "\n".join(lines)

    def __str__(self) -> str:
        """The message; without the name of the class for those who print that before it, as tracebacks do."""
        try:
            asks = sys._getframe(1).f_globals.get("__name__", "")
        except ValueError:  # the interpreter itself, at the end of a program
            asks = "traceback"
        twice = asks.partition(".")[0] in ("traceback", "threading", "IPython")
        return self.message.removeprefix(f"{type(self).__name__} " if twice else "")

    def __reduce__(self) -> tuple[Any, ...]:
        keywords = {"position": self.position, "facts": self.facts, "remedy": self.remedy, "also": self.also}
        return _rebuild, (type(self), self.code, self.what, keywords)

    def including(self, others: Sequence[PullbackError]) -> Self:
        """A copy of this error that shows `others` below it."""
        return type(self)(
            self.code,
            self.what,
            position=self.position,
            facts=self.facts,
            remedy=self.remedy,
            also=(*self.also, *others),
        )


def _rebuild(kind: type[PullbackError], code: str, what: str, keywords: dict[str, Any]) -> PullbackError:
    return kind(code, what, **keywords)


def _place_lines(position: Place) -> list[str]:
    """The arrow line, and where the source is known the line itself with carets under the expression."""
    column = position.column
    where = f"{position.file}:{position.line}" + (f":{column}" if column is not None else "")
    lines = [f"  --> {where}"]
    text = position.source_line
    if text is None:
        return lines
    text = text.rstrip("\n")
    lines.append(f"   | {text}")
    if column is not None:
        end = position.end_column if position.end_column is not None else column + 1
        end = max(column + 1, min(end, len(text) + 1))
        # Tabs are kept, so that the carets stand under the expression however wide a tab is shown.
        margin = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
        lines.append(f"   | {margin}{'^' * (end - column)}")
    return lines


def counted(count: object, noun: str, many: str = "") -> str:
    """A count with its noun: `1 epoch`, `2 epochs`, `N rows`."""
    return f"{count} {noun if str(count) == '1' else many or noun + 's'}"


def together(errors: Sequence[PullbackError]) -> PullbackError:
    """One error that shows all of `errors`: the first, with the others below it.

    Raises:
        ValueError: `errors` is empty.
    """
    if not errors:
        raise ValueError("together() needs at least one error")
    first, *others = errors
    return first.including(others) if others else first


class ShapeError(PullbackError, ValueError):
    """The error for sizes, ranks or index ranges that disagree at a definition or call."""


class DTypeError(PullbackError, TypeError):
    """An element type does not fit."""


class TraceError(PullbackError, TypeError):
    """Python control flow or a Python conversion was applied to a traced value."""


class UnknownNameError(PullbackError, AttributeError):
    """The error for an unknown function or method."""


class UndefinedNameError(PullbackError, NameError):
    """A traced function needs a name of the user's file that is not there yet."""


class MissingKeyError(PullbackError, KeyError):
    """A tree of arguments has no such key."""


class OutOfMemoryError(PullbackError, MemoryError):
    """The error for a call whose arrays do not fit in memory."""


class DerivativeError(PullbackError):
    """A derivative does not exist or is not supported."""


class IndexRangeError(PullbackError, IndexError):
    """An index left its range while a program ran."""


class UnfinishedError(PullbackError, RuntimeError):
    """A loop reached its limit of trips while its test still held."""


class NotFiniteError(PullbackError, FloatingPointError):
    """A statement of a debug build made NaN or infinity of finite numbers."""


class ParseError(PullbackError):
    """Program text is not well formed."""


class VerifyError(PullbackError):
    """A program breaks a rule of the intermediate representation."""


class CompilerError(PullbackError):
    """The error for a missing or failing compiler, or an unwritable cache."""


class DeviceError(PullbackError, RuntimeError):
    """The error for a missing or failing device or driver, and for arrays on different devices."""


class DataError(PullbackError, ValueError):
    """The error for a data set or parameter file that is missing, damaged or unexpected."""


class UsageError(PullbackError):
    """The command line asked for something that does not exist."""
