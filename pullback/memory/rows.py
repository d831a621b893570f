"""The rows of a memory table: arrays and statements."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BufferRow", "StatementRow"]


@dataclass(frozen=True)
class BufferRow:
    """An array: its name, shape and size; for arena arrays also offset and lifetime."""

    name: str
    dims: str
    bytes: int
    offset: int | None = None
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class StatementRow:
    """A statement of the program.

    Attributes:
        name, mathematics: its name, and the beginning of its formula.
        depth: the number of enclosing loops and branches.
        dims: the dims of its results.
        workspace: bytes of its own working memory: packed operands, partial sums.
        allocated: bytes of the arrays whose lifetime begins with it.
        live: bytes alive while it runs.
        total: bytes of the arena used so far.
        moment: its time, in the units of the arrays' lifetimes.
    """

    name: str
    mathematics: str
    depth: int
    dims: str
    workspace: int
    allocated: int
    live: int
    total: int
    moment: int = 0
