"""The rows of a table of memory: arrays and statements."""

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
    """One statement.

    Attributes:
        name, mathematics: what it is called, and the head of its text.
        depth: how many loops and branches it is in.
        dims: of what it writes.
        workspace: bytes that it needs for itself: packed operands, partial sums.
        allocated: bytes of the arrays that begin to live with it.
        live: bytes alive while it runs.
        total: bytes of the arena that have been used by then.
        moment: when it runs, in the count of the arrays' lives.
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
