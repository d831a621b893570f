"""APL errors by name, with a caret under the glyph, in Pullback's common form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pullback.errors import PullbackError

CODES: Final = {
    "SYNTAX ERROR": "E801",
    "LENGTH ERROR": "E802",
    "RANK ERROR": "E803",
    "DOMAIN ERROR": "E804",
    "INDEX ERROR": "E805",
    "VALUE ERROR": "E806",
    "LIMIT ERROR": "E807",
    "FILE ERROR": "E808",
    "SHAPE OF DATA": "E809",
    "WS FULL": "E810",
    "INTERRUPT": "E811",
    "SYSTEM ERROR": "E812",
}


@dataclass(frozen=True)
class Spot:
    """A range of one line of APL text. Columns count from 1.

    Attributes:
        assigned: the name that is assigned there, for programs.
    """

    file: str
    line: int
    column: int
    end_column: int
    source_line: str
    assigned: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class AplError(PullbackError):
    """An APL error: its kind, the finding, and the glyph.

    Attributes:
        kind: the name that APL gives it, such as "LENGTH ERROR".
    """

    def __init__(
        self,
        kind: str,
        what: str,
        *,
        position: Spot | None = None,
        facts: Sequence[str] = (),
        remedy: str | None = None,
        also: Sequence[PullbackError] = (),
    ) -> None:
        headline = f"{kind}: {what}"
        super().__init__(CODES[kind], headline, position=position, facts=facts, remedy=remedy, also=also)
        self.kind = kind
        self.plain = what

    def at(self, position: Spot | None) -> AplError:
        """Return the error with a place, unless it already has one."""
        if self.position is not None or position is None:
            return self
        return AplError(self.kind, self.plain, position=position, facts=self.facts, remedy=self.remedy, also=self.also)

    def including(self, others: Sequence[PullbackError]) -> AplError:
        """A copy of this error that shows `others` below it."""
        spot = self.position if isinstance(self.position, Spot) else None
        also = (*self.also, *others)
        return AplError(self.kind, self.plain, position=spot, facts=self.facts, remedy=self.remedy, also=also)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.kind, self.plain, self.position, self.facts, self.remedy)


def _rebuild(kind: str, what: str, position: Spot | None, facts: Sequence[str], remedy: str | None) -> AplError:
    return AplError(kind, what, position=position, facts=facts, remedy=remedy)


def syntax(what: str, position: Spot | None = None, remedy: str | None = None) -> AplError:
    """The error for text that is not APL."""
    return AplError("SYNTAX ERROR", what, position=position, remedy=remedy)


def length(what: str, facts: Sequence[str] = (), remedy: str | None = None) -> AplError:
    """The error for sizes that do not match."""
    return AplError("LENGTH ERROR", what, facts=facts, remedy=remedy)


def rank(what: str, facts: Sequence[str] = (), remedy: str | None = None) -> AplError:
    """The error for ranks that do not match, or an axis that does not exist."""
    return AplError("RANK ERROR", what, facts=facts, remedy=remedy)


def domain(what: str, facts: Sequence[str] = (), remedy: str | None = None) -> AplError:
    """The error for values that a verb is not defined for."""
    return AplError("DOMAIN ERROR", what, facts=facts, remedy=remedy)


def index(what: str, facts: Sequence[str] = (), remedy: str | None = None) -> AplError:
    """The error for an index that is out of range."""
    return AplError("INDEX ERROR", what, facts=facts, remedy=remedy)


def at_compilation(what: str) -> AplError:
    """The error for a value that changes from call to call, inside a compiled function."""
    return domain(
        f"{what} in a compiled function, which would have its value from when it was compiled",
        remedy="its value as an argument",
    )


def of_data(what: str, value: str, instead: str) -> AplError:
    """The error for a data-dependent shape in a compiled function: `value` decides it; `instead` helps."""
    return AplError(
        "SHAPE OF DATA",
        f"{what}: the shape of the result follows from the values of {value}, which are not known when the function "
        "is compiled",
        remedy=instead,
    )
