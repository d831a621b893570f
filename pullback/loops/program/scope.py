"""Where statements are written while an expression is lowered, and indices once their data is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pullback.ir.expr import Scalar
from pullback.ir.index import (
    ZERO_INDEX,
    Atom,
    Cond,
    Data,
    Floor,
    Index,
    Mod,
    Var,
    as_index,
    floor_divide,
    modulo,
    polynomial,
)
from pullback.loops.program.nodes import Stmt, Value


@dataclass(eq=False)
class Scope:
    """Statements being written, inside the loops and guards of `parent`.

    Attributes:
        introduced: index variables bound by this scope itself.
        known: all index conditions that hold here.
        certain: whether the scope runs whenever its parent does (a loop of at least one trip).
        loop: whether it is a loop body (else a guard, or the root).
    """

    parent: Scope | None = None
    introduced: frozenset[Var] = frozenset()
    known: tuple[Cond, ...] = ()
    certain: bool = True
    loop: bool = False
    statements: list[Stmt] = field(default_factory=list)
    temps: dict[Scalar, Value] = field(default_factory=dict)
    data: dict[Data, Data] = field(default_factory=dict)

    def guard(self, conds: Iterable[Cond] = ()) -> Scope:
        """A scope inside this one that runs only sometimes."""
        return Scope(self, known=(*self.known, *conds), certain=False)

    def inside(self, var: Var, certain: bool, conds: Iterable[Cond] = ()) -> Scope:
        """The body of a loop over `var`."""
        return Scope(self, frozenset((var,)), (*self.known, *conds), certain, loop=True)


def replace_atoms(i: Index, mapping: dict[Data, Index]) -> Index:
    """The index with atoms replaced, those under floor and mod included."""
    out = ZERO_INDEX
    for monomial, coefficient in i.terms:
        term = as_index(coefficient)
        for a in monomial:
            term = term * _replaced(a, mapping)
        out = out + term
    return out


def _replaced(a: Atom, mapping: dict[Data, Index]) -> Index:
    match a:
        case Data():
            return mapping.get(a, as_index(a))
        case Floor() | Mod():
            n, d = replace_atoms(a.numerator, mapping), replace_atoms(a.denominator, mapping)
            return floor_divide(n, d) if isinstance(a, Floor) else modulo(n, d)
        case _:
            return polynomial({(a,): 1})
