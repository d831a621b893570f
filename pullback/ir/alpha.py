"""Alpha equivalence: equal keys for statements that differ only in variable and array names.

    y = build n < N { x[n] * w[n] }     and     b = build i < N { a[i] * c[i] }     have one key

So work that depends only on the key is done once for all such statements. Index variables are numbered in the order of
their binders, arrays in the order of first reads. Free variables of the statement are not renamed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import assert_never

from pullback.ir import nodes as ir
from pullback.ir.expr import read_by
from pullback.ir.index import Atom, Data, DimSymbol, Floor, Index, Mod, Var

Key = Hashable


def alpha_key(*statements: ir.Elementwise) -> tuple[Key, tuple[ir.Ref, ...]]:
    """The key of statements, and their defined and read arrays in the key's order."""
    walker = _Walker()
    what = tuple(map(walker.statement, statements))
    return (what, tuple(walker.nodes)), tuple(walker.refs)


class _Walker:
    """A numbering walk; each scalar node is described once, by the numbers of its operands."""

    def __init__(self) -> None:
        self.refs: dict[ir.Ref, int] = {}
        self.nodes: list[Key] = []
        self._variables: dict[Var, int] = {}
        self._scalars: dict[ir.Scalar, int] = {}
        self._indices: dict[Index, Key] = {}

    def statement(self, s: ir.Elementwise) -> Key:
        """The key of a statement, by the numbers of its nodes."""
        outs = tuple([self.ref(r) for r in s.outs])
        extents = self.bind(s.vars)
        match s:
            case ir.Build():
                what: Key = tuple([self.scalar(v) for v in s.values])
            case ir.Scatter():
                what = (*[self.index(i) for i in s.indices], self.scalar(s.value))
            case ir.Sort():
                what = (s.what, self.scalar(s.value))
        return type(s), outs, extents, what

    def bind(self, variables: tuple[Var, ...]) -> tuple[Key, ...]:
        """Number the variables of a binder; return their sizes."""
        for v in variables:
            self._variables.setdefault(v, len(self._variables))
        return tuple([self.index(v.extent) for v in variables])

    def ref(self, r: ir.Ref) -> Key:
        """The key of an array: its number and properties."""
        return self.refs.setdefault(r, len(self.refs)), r.dtype.name, tuple([self.index(d) for d in r.shape])

    def index(self, i: Index) -> Key:
        """An index as a set of terms, because the order of its terms depends on the age of variables."""
        key = self._indices.get(i)
        if key is None:
            key = i.constant
            if key is None:
                key = frozenset((self._monomial(m), c) for m, c in i.terms)
            self._indices[i] = key
        return key

    def _monomial(self, m: tuple[Atom, ...]) -> Key:
        if len(m) == 1:
            return self._atom(m[0])
        return frozenset((self._atom(a), m.count(a)) for a in m)

    def _atom(self, a: Atom) -> Key:
        match a:
            case Var():
                return self._variables.get(a, a)
            case DimSymbol():
                return a
            case Floor() | Mod():
                return type(a), self.index(a.numerator), self.index(a.denominator)
            case Data():
                return Data, self.scalar(read_by(a)), a.extent and self.index(a.extent), a.checked
            case _:
                assert_never(a)

    def scalar(self, e: ir.Scalar) -> int:
        """The number of a node; its description is in `nodes`."""
        number = self._scalars.get(e)
        if number is None:
            assert isinstance(e, ir.Node)
            self.nodes.append(self._node(e))
            number = self._scalars[e] = len(self.nodes) - 1
        return number

    def _node(self, e: ir.Node) -> Key:
        match e:
            case ir.Const() | ir.Zero():
                return e  # one object for one number
            case ir.FromIndex():
                return ir.FromIndex, self.index(e.index), e.dtype.name
            case ir.Get():
                return ir.Get, self.ref(e.ref), tuple([self.index(i) for i in e.indices])
            case ir.Apply():
                return e.primitive.name, *[self.scalar(a) for a in e.args]
            case ir.Cast():
                return ir.Cast, self.scalar(e.arg), e.dtype.name
            case ir.Add() | ir.Mul():
                return type(e), *[self.scalar(a) for a in e.args]
            case ir.Bracket():
                return ir.Bracket, tuple((c.op, self.index(c.index)) for c in e.conds), self.scalar(e.arg)
            case ir.Select():
                return ir.Select, self.scalar(e.test), self.scalar(e.then), self.scalar(e.otherwise)
            case ir.Reduce():
                return e.op, self.bind(e.vars), self.scalar(e.arg), e.dtype.name
            case _:
                assert_never(e)
