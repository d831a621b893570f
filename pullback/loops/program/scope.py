"""Scopes for the statements of a lowered expression, and indices whose data is loaded."""

from __future__ import annotations

from collections.abc import Iterable

from pullback.ir import nodes as ir
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
from pullback.loops.program.nodes import Stmt
from pullback.loops.program.values import Value
from pullback.records import dataclass, field


@dataclass(eq=False)
class Scope:
    """Statements being written, inside the loops and guards of `parent`.

    Attributes:
        introduced: index variables bound by this scope itself.
        known: all index conditions that hold here.
        certain: whether the scope runs whenever its parent does (a loop of at least one trip).
        loop: whether it is a loop body, or lanes (else a guard, or the root).
        lane: the variable that varies over the lanes of a vector; None without vectors.
        mask: the active lanes; None if all are.
    """

    parent: Scope | None = None
    introduced: frozenset[Var] = frozenset()
    known: tuple[Cond, ...] = ()
    certain: bool = True
    loop: bool = False
    lane: Var | None = None
    mask: Value | None = None
    statements: list[Stmt] = field(default_factory=list)
    temps: dict[ir.Scalar, Value] = field(default_factory=dict)
    data: dict[Data, Data] = field(default_factory=dict)
    wide: dict[Var, Scope] = field(default_factory=dict)

    def guard(self, conds: Iterable[Cond] = ()) -> Scope:
        """A scope inside this one that runs only under a condition."""
        return Scope(self, known=(*self.known, *conds), certain=False, lane=self.lane, mask=self.mask)

    def inside(self, var: Var, certain: bool, conds: Iterable[Cond] = ()) -> Scope:
        """The body of a loop over `var`."""
        return Scope(self, frozenset((var,)), (*self.known, *conds), certain, True, self.lane, self.mask)

    def step(self, start: Index, certain: bool = True) -> Scope:
        """One step of a loop in this scope, from an index that depends on the loop's variable alone."""
        return Scope(self, start.free, self.known, certain, bool(start.free))

    def vectors(self, lane: Var) -> Scope:
        """A vector scope: values that depend on the lane's variable are vectors, others are scalars."""
        if lane not in self.wide:
            inside = Scope(self, frozenset((lane,)), self.known, True, True, lane, statements=self.statements)
            self.wide[lane] = inside
        return self.wide[lane]

    def after(self, total: ir.Scalar, value: Value) -> Scope:
        """A scope in which `total` has this value, for an expression that contains it."""
        return Scope(self, total.free, self.known, statements=self.statements, temps={total: value})

    def masked(self, mask: Value) -> Scope:
        """A scope for some lanes of this scope's vectors."""
        return Scope(self, known=self.known, certain=False, lane=self.lane, mask=mask, statements=self.statements)


def replace_atoms(i: Index, mapping: dict[Data, Index]) -> Index:
    """Replace atoms of an index, also under floor and mod."""
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
