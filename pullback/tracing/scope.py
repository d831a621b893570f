"""Blocks under construction, and recipes to rebuild their statements."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var
from pullback.records import dataclass
from pullback.source import Position
from pullback.tracing.printing import Entry

__all__ = ["Recipe", "Scope"]


class Scope:
    """A block under construction.

    `lifted` are the variables of the builds and reductions around the current expression, outermost first. `parameters`
    are fixed while the block runs: the variables around it, and its own loop variable. `prints` are its prints; None if
    the block cannot print.
    """

    def __init__(self, parameters: frozenset[Var] = frozenset()) -> None:
        self.statements: list[ir.Statement] = []
        self.lifted: list[Var] = []
        self.parameters = parameters
        self.prints: list[Entry] | None = None


@dataclass(frozen=True)
class Recipe:
    """The ingredients to rebuild a statement."""

    outs: tuple[ir.Ref, ...]
    variables: tuple[Var, ...]
    values: tuple[ir.Scalar, ...]
    names: tuple[str, ...]
    position: Position | None
    bounds: Sequence[tuple[Index, Index] | None] | None
    scope: Scope
    lifted: tuple[Var, ...]
