"""Values of expressions in vector kernels; loads and functions become temporaries, once each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pullback.ir import expr
from pullback.ir.expr import Add, Const, FromIndex, Get, Mul, Ref, Scalar, Zero
from pullback.ir.index import Index, Var
from pullback.ir.traverse import Substitution
from pullback.loops.nest import Nest, stride
from pullback.loops.nodes import (
    Apply,
    Binary,
    Broadcast,
    Buffer,
    Gather,
    IndexValue,
    Invoke,
    Let,
    Literal,
    Load,
    Read,
    Stmt,
    Temp,
    Type,
    Value,
)
from pullback.loops.vector_math import vector_source


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

    def value(self, e: Scalar, element: Element, known: Mapping[Scalar, Value], out: list[Stmt]) -> Value:
        """The value of e at an element: a vector where it varies along the lanes, else a scalar."""
        memo: dict[Scalar, Value] = dict(known)
        return self._value(e, element, Substitution(variables=element.at), memo, out)

    def _value(self, e: Scalar, at: Element, m: Substitution, memo: dict[Scalar, Value], out: list[Stmt]) -> Value:
        found = memo.get(e)
        if found is None:
            found = memo[e] = self._make(e, at, m, memo, out)
        return found

    def _make(self, e: Scalar, at: Element, m: Substitution, memo: dict[Scalar, Value], out: list[Stmt]) -> Value:
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
                return self._chain("+", [self._value(a, at, m, memo, out) for a in e.args])
            case Mul():
                return self._chain("*", [self._value(a, at, m, memo, out) for a in e.args])
            case expr.Apply():
                args = [self._value(a, at, m, memo, out) for a in e.args]
                return self._function(e, args, out)
            case _:
                raise AssertionError(f"no vector form: {type(e).__name__}")

    def _function(self, e: expr.Apply, args: list[Value], out: list[Stmt]) -> Value:
        name = e.primitive.name
        if name == "divide":
            return self._chain("/", args)
        if name in ("maximum", "minimum"):
            return self._chain("max" if name == "maximum" else "min", args)
        lanes = max(a.type.lanes for a in args)
        type_ = Type(self.nest.dtype, lanes)
        if lanes == 1:
            made: Value = Apply(e.primitive, tuple(args), type_)
        else:
            made = Invoke(f"pb_{name}_{type_}", tuple(args), type_, vector_source(name, self.nest.dtype, lanes))
        t = Temp(name, type_)
        out.append(Let(t, made))
        return Read(t)

    def _chain(self, op: str, args: list[Value]) -> Value:
        """Scalars first among themselves, then with the vectors, in order."""
        lanes = max(a.type.lanes for a in args)
        type_ = Type(self.nest.dtype, lanes)
        if op in ("+", "*") and lanes > 1:
            args = [*(a for a in args if a.type.lanes == 1), *(a for a in args if a.type.lanes > 1)]
        value = args[0]
        for a in args[1:]:
            wide = max(value.type.lanes, a.type.lanes)
            value = Binary(op, self.widen(value, wide), self.widen(a, wide), Type(self.nest.dtype, wide))  # type: ignore[arg-type]
        assert value.type == type_
        return value

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

    @staticmethod
    def widen(value: Value, lanes: int) -> Value:
        """The value in all lanes."""
        if value.type.lanes == lanes:
            return value
        if isinstance(value, Literal):
            return Literal(value.value, Type(value.type.dtype, lanes))
        return Broadcast(value, Type(value.type.dtype, lanes))
