"""Values of a group's expressions at places in its loops, each computed once, as far out as it can be.

A place is inside some of the loops and has so many lanes; a row is one value of each outer variable, with the places
on the way inwards. What does not depend on an inner loop is computed at a place further out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pullback.ir import expr
from pullback.ir.expr import Add, Apply, Const, FromIndex, Get, Mul, Scalar, Select, Zero
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var
from pullback.ir.traverse import Substitution, count_uses, walk
from pullback.ir.types import DType, bool_
from pullback.loops.plain.scalar import hint
from pullback.loops.program import nodes
from pullback.loops.program.nodes import (
    Across,
    Binary,
    Broadcast,
    Buffer,
    Choice,
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
from pullback.loops.vectors.group_nest import GroupNest, Out
from pullback.loops.vectors.lanes import (
    CLASSES,
    COMPARISONS,
    chain,
    compared,
    function,
    logic,
    mask_from,
    mask_of,
    widened,
)

NEUTRAL: Final[Mapping[str, float]] = {"sum": 0.0, "max": -float("inf"), "min": float("inf")}
OPERATOR: Final[Mapping[str, nodes.BinaryOp]] = {"sum": "+", "max": "max", "min": "min"}
TALL = 8  # what nests deeper than this gets a name


@dataclass
class Place:
    """Where values are written: inside so many loops, for so many lanes, with the space's variables so."""

    depth: int
    lanes: int
    at: dict[Var, Index]
    out: list[Stmt]
    memo: dict[Scalar, Value] = field(default_factory=dict)
    shared: dict[Scalar, Value] = field(default_factory=dict)


@dataclass
class PointRow:
    """One value of each outer variable: the places of values on the way inwards, outermost first, and accumulators."""

    at: dict[Var, Index]
    places: list[Place] = field(default_factory=list)
    sums: dict[Out, Sum] = field(default_factory=dict)

    def at_row(self, at: dict[Var, Index]) -> PointRow:
        """The row one loop further in."""
        return PointRow(at, list(self.places), dict(self.sums))


class PlaceWriter:
    """Writes values at places."""

    def __init__(self, nest: GroupNest, order: tuple[Var, ...] = ()) -> None:
        self.nest = nest
        self.dtype = nest.dtype
        self.order = order or nest.order
        self.axis = nest.axis
        self.uses: dict[Scalar, int] = {}
        self.heights: dict[Value, int] = {}

    def count_uses(self, values: Sequence[Scalar]) -> None:
        """Count how often each expression occurs in values: what occurs again gets a name."""
        self.uses = count_uses(values)

    def _depth(self, e: Scalar) -> int:
        """How many loops are around what e depends on."""
        return max((k + 1 for k, v in enumerate(self.order) if v in e.free), default=0)

    def value(self, e: Scalar, place: Place, row: PointRow) -> Value:
        """The value of e at a place; what an outer loop can compute is computed there, once."""
        if isinstance(e, Const):
            return Literal(e.value, Type(self.dtype))
        if isinstance(e, Zero):
            return Literal(0.0, Type(self.dtype))
        memo = place.shared if place.depth == len(self.order) and self.common(e) else place.memo
        found = memo.get(e)
        if found is not None:
            return found
        depth = self._depth(e)
        if depth < place.depth and not self._late(e):
            home = row.places[depth]
            found = home.memo[e] = self.named(self.value(e, home, row), hint(e), home.out)
            return found
        if isinstance(e, Get) and e.ref in self.nest.definitions:
            found = memo[e] = self.named(self.value(self.nest.definitions[e.ref], place, row), e.ref.name, place.out)
            return found
        made = self._make(e, place, row)
        height = 1 + max((self.heights.get(v, 1) for v in nodes.operands(made)), default=0)
        shared = self.uses.get(e, 1) > 1 or memo is place.shared
        costly = isinstance(made, Load | Gather) or (isinstance(made, nodes.Apply) and made.type.lanes > 1)
        if shared or costly or height > TALL:
            made = self.named(made, hint(e), place.out)
            height = 1
        self.heights[made] = height
        memo[e] = made
        return made

    def common(self, e: Scalar) -> bool:
        """Whether e is the same in all rows of the innermost loop."""
        return self.own(e) == {self.axis}

    def own(self, e: Scalar) -> frozenset[Var]:
        """The variables of the space in e: those of loops around the kernel are fixed here."""
        return e.free & frozenset(self.order)

    def _late(self, e: Scalar) -> bool:
        """Whether e needs the result of a reduction."""
        known = (self.nest.buffers, self.nest.definitions)
        return any(isinstance(n, Get) and not any(n.ref in k for k in known) for n in walk(e))

    @staticmethod
    def named(value: Value, name: str, out: list[Stmt]) -> Value:
        """The value as a temporary, unless it has a name or is a number."""
        if isinstance(value, Read | Literal):
            return value
        t = Temp(name, value.type)
        out.append(Let(t, value))
        return Read(t)

    def _make(self, e: Scalar, place: Place, row: PointRow) -> Value:
        match e:
            case Get():
                return self.element(self.nest.buffers[e.ref], e.indices[0], place)
            case FromIndex():
                return IndexValue(Substitution(variables=place.at).index(e.index), Type(self.dtype))
            case Add() | Mul():
                parts = self._by_depth(e)
                return chain("+" if isinstance(e, Add) else "*", [self.value(a, place, row) for a in parts])
            case Apply():
                return self._apply(e, [self.value(a, place, row) for a in e.args], place)
            case Select():
                return self._select(e, place, row)
            case _:
                raise AssertionError(f"no vector form: {type(e).__name__}")

    def _by_depth(self, e: Add | Mul) -> list[Scalar]:
        """The operands, those of outer loops joined so that they are computed there."""
        own = self._depth(e)
        outer = [a for a in e.args if self._depth(a) < own]
        if len(outer) < 2 or any(self._late(a) for a in e.args):
            return list(e.args)
        join = expr.add if isinstance(e, Add) else expr.mul
        return [join(*outer), *(a for a in e.args if self._depth(a) == own)]

    def element(self, buffer: Buffer, offset: Index, place: Place) -> Value:
        """What lies in a buffer at a place: where the vector variable's loop is around it, for all lanes."""
        first = Substitution(variables=place.at).index(offset)
        step = offset.coefficient(self.axis) if place.depth > self.order.index(self.axis) else ZERO_INDEX
        if place.lanes == 1 or step is ZERO_INDEX:
            return Load(buffer, first, Type(self.dtype))
        type_ = Type(self.dtype, place.lanes)
        if step is ONE_INDEX:
            return Load(buffer, first, type_)
        assert step is not None
        return Gather(buffer, tuple(first + step * k for k in range(place.lanes)), type_)

    def _apply(self, e: Apply, args: list[Value], place: Place) -> Value:
        return self._test(e, args, place) if e.dtype is bool_ else function(e, args, self.dtype)

    def _test(self, e: Apply, args: list[Value], place: Place) -> Value:
        """A comparison or logic: a mask of lanes, or one bool."""
        name = e.primitive.name
        lanes = max(a.type.lanes for a in args)
        if lanes == 1:
            return self.named(nodes.Apply(e.primitive, tuple(args), Type(bool_)), name, place.out)
        if name in COMPARISONS or name in CLASSES:
            x = self.named(args[0], "x", place.out) if name in CLASSES else args[0]
            return compared(name, [x, *args[1:]], self.dtype)
        mask = mask_of(self.dtype, lanes)
        return logic(name, [a if a.type.lanes > 1 else Broadcast(mask_from(a, self.dtype), mask) for a in args], mask)

    def _select(self, e: Select, place: Place, row: PointRow) -> Value:
        test, a, b = (self.value(x, place, row) for x in (e.test, e.then, e.otherwise))
        lanes = max(test.type.lanes, a.type.lanes, b.type.lanes)
        if lanes > 1 and test.type.lanes == 1:
            test = Broadcast(mask_from(test, self.dtype), mask_of(self.dtype, lanes))
        return Choice(test, widened(a, lanes), widened(b, lanes), Type(self.dtype, lanes))


class Sum:
    """The accumulators of one reduction, made as they are needed."""

    def __init__(self, o: Out, dtype: DType) -> None:
        self.op = o.op
        self.dtype = dtype
        self.temps: dict[tuple[int, int], Temp] = {}

    def temp(self, lanes: int, way: int) -> Temp:
        """The accumulator of this width, one for each of several vectors taken together."""
        key = (lanes, way)
        if key not in self.temps:
            self.temps[key] = Temp(self.op, Type(self.dtype, lanes))
        return self.temps[key]

    def start(self) -> list[Stmt]:
        """All of them with the neutral value."""
        return [Let(t, Literal(NEUTRAL[self.op], t.type), mutable=True) for t in self.temps.values()]

    def total(self, out: list[Stmt]) -> Value:
        """All of them and their lanes combined."""
        op = OPERATOR[self.op]
        by_lanes: dict[int, Value] = {}
        for t in self.temps.values():
            before = by_lanes.get(t.type.lanes)
            by_lanes[t.type.lanes] = Read(t) if before is None else Binary(op, before, Read(t), t.type)
        result: Value | None = None
        for lanes, wide in by_lanes.items():
            value = wide if lanes == 1 else Across(op, wide)  # type: ignore[arg-type]
            result = value if result is None else Binary(op, result, value, value.type)
        assert result is not None
        t = Temp("total", result.type)
        out.append(Let(t, result))
        return Read(t)
