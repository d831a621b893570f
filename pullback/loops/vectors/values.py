"""Values of expressions in vector kernels; loads and functions become temporaries, once each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pullback.ir import expr
from pullback.ir.expr import Add, Const, FromIndex, Get, Mul, Ref, Scalar, Zero
from pullback.ir.index import Index, Var
from pullback.ir.traverse import Substitution, count_uses
from pullback.loops.plain.scalar import hint
from pullback.loops.program.nodes import (
    Binary,
    Broadcast,
    Buffer,
    Gather,
    IndexValue,
    Let,
    Literal,
    Load,
    Read,
    Stmt,
    Temp,
    Type,
    Value,
)
from pullback.loops.vectors.lanes import chain, function
from pullback.loops.vectors.nest import Nest, stride


@dataclass(frozen=True)
class Element:
    """One element of a tile: what its variables are, and its number of lanes."""

    at: Mapping[Var, Index]
    lanes: int


class ValueWriter:
    """Values of expressions for the elements of a tile; loads and functions become temporaries, once each."""

    def __init__(self, nest: Nest, axis: Var) -> None:
        self.nest = nest
        self.axis = axis
        self.done: dict[tuple[Ref, tuple[Index, ...]], Value] = {}
        self._uses: dict[Scalar, dict[Scalar, int]] = {}

    def value(self, e: Scalar, element: Element, known: Mapping[Scalar, Value], out: list[Stmt]) -> Value:
        """The value of e at an element: a vector where it varies along the lanes, else a scalar."""
        if e not in self._uses:
            self._uses[e] = count_uses((e,))
        return self._value(e, element, Substitution(variables=element.at), self._uses[e], dict(known), out)

    def _value(
        self, e: Scalar, at: Element, m: Substitution, uses: Mapping[Scalar, int], memo: dict[Scalar, Value],
        out: list[Stmt],
    ) -> Value:  # fmt: skip
        """The same, with `memo` of what is known of other parts; what is used again becomes a temporary."""
        found = memo.get(e)
        if found is None:
            found = self._make(e, at, m, lambda n: self._value(n, at, m, uses, memo, out), out)
            if uses[e] > 1 and isinstance(found, Binary):
                t = Temp(hint(e), found.type)
                out.append(Let(t, found))
                found = Read(t)
            memo[e] = found
        return found

    def _make(
        self, e: Scalar, at: Element, m: Substitution, value: Callable[[Scalar], Value], out: list[Stmt]
    ) -> Value:
        dtype = self.nest.dtype
        match e:
            case Const():
                return Literal(e.value, Type(dtype))
            case Zero():
                return Literal(0.0, Type(dtype))
            case FromIndex():
                return IndexValue(m.index(e.index), Type(dtype))
            case Get():
                return self._load(e, at, m, out)
            case Add():
                return chain("+", [value(a) for a in e.args])
            case Mul():
                return chain("*", [value(a) for a in e.args])
            case expr.Apply():
                return self._function(e, [value(a) for a in e.args], out)
            case _:
                raise AssertionError(f"no vector form: {type(e).__name__}")

    def _function(self, e: expr.Apply, args: list[Value], out: list[Stmt]) -> Value:
        made = function(e, args, self.nest.dtype)
        if isinstance(made, Binary):
            return made
        t = Temp(e.primitive.name, made.type)
        out.append(Let(t, made))
        return Read(t)

    def _load(self, e: Get, at: Element, m: Substitution, out: list[Stmt]) -> Value:
        """The element or vector of elements as a temporary, loaded once for the places of its lanes."""
        lanes = at.lanes if self.axis in e.indices[0].free else 1
        places = self._places(e, at, m, lanes)
        found = self.done.get((e.ref, places))
        if found is None:
            t = Temp(self.nest.buffers[e.ref].name, Type(self.nest.dtype, lanes))
            out.append(Let(t, self._read(self.nest.buffers[e.ref], places, t.type)))
            found = self.done[e.ref, places] = Read(t)
        return found

    def _places(self, e: Get, at: Element, m: Substitution, lanes: int) -> tuple[Index, ...]:
        """Where each lane's element lies."""
        first = m.index(e.indices[0])
        if lanes == 1:
            return (first,)
        if stride(e.indices[0], self.axis) == 1:
            return tuple(first + k for k in range(lanes))
        start = at.at[self.axis]
        return tuple(Substitution(variables={**at.at, self.axis: start + k}).index(e.indices[0]) for k in range(lanes))

    @staticmethod
    def _read(buffer: Buffer, places: tuple[Index, ...], type_: Type) -> Value:
        """A load of neighbours, one element in all lanes, or one element for each lane."""
        first = places[0]
        if all(p is first + k for k, p in enumerate(places)):
            return Load(buffer, first, type_)
        if all(p is first for p in places):
            return Broadcast(Load(buffer, first, Type(type_.dtype)), type_)
        return Gather(buffer, places, type_)
