"""Renewal: rebuild a program so that its history leaves no trace.

Terms of an index, and conditions, are sorted by the age of their variables and data. Equal programs with different
histories may differ in this order, and so in their C.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_never

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.expr import read_by
from pullback.ir.index import Atom, Cond, Data, DimSymbol, Floor, Index, Mod, Var, as_index
from pullback.ir.traverse import Substitution, children, indices_of

__all__ = ["renewed"]

Key = tuple[str, int, tuple[Any, ...]]


def renewed(program: ir.Program) -> ir.Program:
    """Return the program with new variables, arrays and data, made in order of binding or first use.

    >>> from pullback.ir.parser import parse_program
    >>> from pullback.ir.printer import print_program
    >>> from pullback.ir.renewal import renewed
    >>> program = parse_program("f(x: f32[N]) { y = build n < N { x[n] * 2.0 } return y }")
    >>> again = renewed(program)
    >>> print_program(again) == print_program(program)
    True
    >>> again.body.statements[0].vars[0] is program.body.statements[0].vars[0]
    False
    """
    renewal = _Renewal()
    inputs = tuple(renewal.define(r) for r in program.inputs)
    return replace(program, inputs=inputs, body=renewal.block(program.body))


class _Renewal(Substitution):
    """Makes every variable, array and datum anew, in an order that does not depend on their age."""

    def under(self, variables: tuple[Var, ...]) -> tuple[Substitution, tuple[Var, ...]]:
        """The map under a binder, all of whose variables are new."""
        made = tuple(Var(v.name, self.index(v.extent)) for v in variables)
        inner = _Renewal({**self.variables, **{v: as_index(w) for v, w in zip(variables, made, strict=True)}})
        inner.refs = self.refs
        inner._touches_refs = True
        return inner, made

    def _index(self, e: Index) -> Index:
        # a datum is created at its first use; holding it keeps its age
        held = [self._atom(a) for a in sorted(e.data, key=self._atom_key)] if len(e.data) > 1 else []
        out = super()._index(e)
        del held
        return out

    def _scalar(self, e: ir.Scalar) -> ir.Scalar:
        match e:
            case ir.Reduce():  # which keeps a variable of extent 1
                inner, variables = self.under(e.vars)
                return expr.reduce(e.op, variables, inner.scalar(e.arg))
            case ir.Bracket():  # creates their data in the order of first use
                conds = [self.condition(c) for c in sorted(e.conds, key=self._condition_key)]
                return expr.bracket(conds, self.scalar(e.arg))
            case _:
                return super()._scalar(e)

    # Keys in the rebuilt program: variables and arrays are compared by their replacements.

    def _index_key(self, e: Index) -> Key:
        return "index", 0, tuple(sorted(("term", c, tuple(sorted(map(self._atom_key, m)))) for m, c in e.terms))

    def _atom_key(self, a: Atom) -> Key:
        match a:
            case DimSymbol():
                return a.name, 0, ()
            case Var():
                new = self.variables.get(a)
                return "variable", new.single.serial if new is not None and isinstance(new.single, Var) else 0, ()
            case Floor() | Mod():
                return type(a).__name__, 0, (self._index_key(a.numerator), self._index_key(a.denominator))
            case Data():
                return "data", 0, (self._scalar_key(read_by(a)),)
            case _:
                assert_never(a)

    def _condition_key(self, c: Cond) -> Key:
        return c.op, 0, (self._index_key(c.index),)

    def _scalar_key(self, e: ir.Scalar) -> Key:
        name = e.primitive.name if isinstance(e, ir.Apply) else repr(e.value) if isinstance(e, ir.Const) else ""
        conds = map(self._condition_key, e.conds) if isinstance(e, ir.Bracket) else ()
        parts = (*map(self._index_key, indices_of(e)), *sorted(conds), *map(self._scalar_key, children(e)))
        return f"{type(e).__name__} {e.dtype} {name}", self.ref(e.ref).serial if isinstance(e, ir.Get) else 0, parts
