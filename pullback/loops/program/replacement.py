"""Statements with other indices, places and temporaries.

They make a kernel part of its caller, and a second iteration of a loop from the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, Final, get_args

from pullback.ir.index import Cond, Index, Var
from pullback.ir.traverse import Substitution
from pullback.ir.types import bool_
from pullback.loops.program import nodes, values
from pullback.loops.program.ahead import Run
from pullback.loops.program.nodes import Fill, Stmt, Store
from pullback.loops.program.values import Buffer, Extreme, Gather, Holds, Literal, Load, Temp, View, scalar

_NODES: Final = (*get_args(nodes.Stmt), *get_args(values.Value), Extreme)


class Replacement:
    """A map over statements.

    Args:
        views: the place of each buffer that moves.
        indices: the index that replaces a variable.

    Attributes:
        temps: the temporary that replaces another one; empty at first.
    """

    def __init__(
        self,
        views: Mapping[Buffer, View] = MappingProxyType({}),
        indices: Mapping[Var, Index] = MappingProxyType({}),
    ) -> None:
        self.views = views
        self.indices = Substitution(variables=indices)
        self.temps: dict[Temp, Temp] = {}

    def body(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Map statements."""
        return tuple(self._mapped(s) for s in body)

    def _mapped(self, x: Any) -> Any:
        """A statement, a value, an index, or a tuple of them; anything else stays as it is."""
        match x:
            case Index():
                return self.indices.index(x)
            case Temp():
                return self.temps.get(x, x)
            case tuple():
                return tuple(map(self._mapped, x))
            case Load() | Store() | Fill() | Run():
                place = self.view(View(x.buffer, x.offset))
                others = {f.name: self._mapped(getattr(x, f.name)) for f in fields(x)}
                return replace(x, **others | {"buffer": place.buffer, "offset": place.offset})
            case View():
                return self.view(x)
            case Holds():
                found = [self.indices.condition(c) for c in x.conds]
                kept = tuple(c for c in found if isinstance(c, Cond))
                return Holds(kept) if kept and False not in found else Literal(False not in found, scalar(bool_))
            case Gather() if x.buffer in self.views:
                raise AssertionError("vectors do not move to other buffers")
            case _ if isinstance(x, _NODES):
                return replace(x, **{f.name: self._mapped(getattr(x, f.name)) for f in fields(x)})
            case _:
                return x

    def view(self, v: View) -> View:
        """The place of a view."""
        offset, home = self.indices.index(v.offset), self.views.get(v.buffer)
        return View(v.buffer, offset) if home is None else View(home.buffer, home.offset + offset)
