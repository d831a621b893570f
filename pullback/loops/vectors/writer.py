"""Values of expressions for one lane or many: scalars as in plain loops, lane variables as vectors.

A vector of n elements along an axis is the expression with the axis replaced by `start + lane`, where `lane` is a
variable of extent n that the scope introduces (`Scope.vectors`). So common parts of a tile's elements are one
expression, and values equal in all lanes leave the vector like loop invariants.

    x[i, j] * w[j], of lanes along i    -->  t = w[j];  x[i .. i + n - 1, j] * (t in all lanes)

A bool is a mask: integers with all bits set or none. An index, with its data, is a vector of integers. A guard
is a scope with a mask. Values that need the guard stay inside, where a load takes the lanes of the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, product
from math import prod
from typing import Final

from pullback.ir import nodes as ir
from pullback.ir.expr import POSITIONS, read_by
from pullback.ir.index import (
    ONE_INDEX,
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
    polynomial,
    prove_nonnegative,
)
from pullback.ir.reduction import neutral
from pullback.ir.traverse import Substitution, count_uses, walk
from pullback.ir.types import DType, dtype_named, i32, i64
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import flat_position
from pullback.loops.plain.candidates import Declined
from pullback.loops.plain.scalar import ScalarLowering, added, named, negated
from pullback.loops.program.nodes import Assign, Let, LetIndex, Site
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Apply as ApplyValue
from pullback.loops.program.values import (
    Binary,
    Broadcast,
    Buffer,
    Choice,
    Convert,
    Gather,
    Holds,
    IndexValue,
    Literal,
    Load,
    Read,
    Steps,
    Temp,
    Type,
    Value,
    largest,
    smallest,
)
from pullback.loops.vectors.lanes import (
    BITS,
    CLASSES,
    COMPARISONS,
    FLOATING,
    LOGIC,
    chain,
    compared,
    function,
    is_small,
    logic,
    mask_from,
    mask_of,
    widened,
)
from pullback.loops.vectors.nest import Nest, stride
from pullback.records import dataclass

__all__ = ["WINDOW", "Writer", "count_terms", "is_window", "makes_indices"]

WINDOW: Final = 64  # the most terms of a reduction whose condition varies along the lanes


@dataclass(frozen=True)
class Definition:
    """A named value: its index pattern, and the value there."""

    indices: tuple[Index, ...]
    value: ir.Scalar

    def at(self, indices: Sequence[Index]) -> ir.Scalar:
        """The value of the element at other indices."""
        pairs = zip(self.indices, indices, strict=True)
        return Substitution(variables={v: i for own, i in pairs if isinstance(v := own.single, Var)}).scalar(self.value)


class Writer(ScalarLowering):
    """Writes the values of one kernel.

    Args:
        place: returns the parameter buffer that holds an array.
        site: describes the statement in range checks.
        integer: the type of indices in lanes.
        near: the longest step between gathered lanes; None for any.

    Attributes:
        definitions: values that are not flattened, by their names.
        everywhere: whether all reads are in range at every point.
    """

    def __init__(
        self,
        place: Callable[[ir.Ref], Buffer],
        site: Callable[[str, int | None], Site],
        integer: DType = i32,
        near: int | None = None,
    ) -> None:
        super().__init__(place, site, beside=True)
        self.integer = integer
        self.near = near
        self.definitions: Mapping[ir.Ref, Definition] = {}
        self.everywhere = False
        self._lane: dict[int, Var] = {}

    @staticmethod
    def of(buffers: Mapping[ir.Ref, Buffer], dtype: DType) -> Writer:
        """A writer of values over flat arrays that all have one element type."""
        return Writer(buffers.__getitem__, lambda array, axis: Site(array, axis, ""), i64 if dtype.bits == 64 else i32)

    @staticmethod
    def of_group(nest: Nest, values: Sequence[ir.Scalar] = ()) -> Writer:
        """A writer of a group's values and of other given values."""
        out = Writer.of(nest.buffers, nest.dtype)
        gets = {n.ref: n for v in (*nest.values, *values) for n in walk(v) if isinstance(n, ir.Get)}
        out.definitions = {r: Definition(gets[r].indices, v) for r, v in nest.definitions.items() if r in gets}
        out.everywhere = True
        return out

    def inside(self, scope: Scope, start: Index, lanes: int) -> tuple[Scope, Index]:
        """A scope of this many lanes, and its position."""
        lane = self.lane(lanes)
        return (scope, start) if lanes == 1 else (scope.vectors(lane), start + as_index(lane))

    def first(self, i: Index, lanes: int) -> Index:
        """The index in the first of several lanes."""
        return i.without(self.lane(lanes))

    def lane_in(self, i: Index) -> Var | None:
        """The lanes' variable in an index."""
        return next((v for v in self._lane.values() if v in i.free), None)

    def lane(self, lanes: int) -> Var:
        """The variable of vectors of this many lanes."""
        if lanes not in self._lane:
            self._lane[lanes] = Var("lane", lanes)
        return self._lane[lanes]

    def count(self, values: Iterable[ir.Scalar]) -> None:
        """Count the uses of values' parts; repeated ones get a name."""
        for e, times in count_uses(tuple(values)).items():
            self.uses[e] = self.uses.get(e, 0) + times
            if (rest := negated(e)) is not None:  # it is subtracted wherever it is a term
                self.uses[rest] = self.uses.get(rest, 0) + times - 1

    def always_named(self, value: Value) -> bool:
        """Whether a value gets a name even if small: loads and functions of vectors do."""
        return value.type.lanes > 1 and isinstance(value, Load | Gather | ApplyValue)

    def total(self, e: ir.Scalar, known: tuple[Cond, ...]) -> bool:
        """Whether `e` may be evaluated wherever conditions hold."""
        return self.everywhere or super().total(e, known)

    def stored(self, e: ir.Scalar, scope: Scope) -> Value:
        """The value in its storage type, in all lanes."""
        value = self.value(e, scope)
        if e.dtype.is_bool and scope.lane is not None:
            kind = value.type if value.type.lanes > 1 else mask_of(e.dtype, _lanes(scope))
            one = Binary("&", self.mask(value, kind.dtype, scope), Literal(1, kind), kind)
            return Convert(one, Type(dtype_named("u8"), kind.lanes))
        return widened(value, _lanes(scope))

    def _build(self, e: ir.Scalar, scope: Scope) -> Value:
        """The value of an expression: a vector if it differs from lane to lane."""
        if isinstance(e, ir.Get) and e.ref in self.definitions:
            value = self.definitions[e.ref].at(e.indices)
            self.count([value])
            return named(self.value(value, scope), e.ref.name, scope)
        if scope.lane is None or scope.lane not in e.free:
            if scope.mask is not None and not self.total(e, scope.known):
                raise Declined
            return super()._build(e, scope)
        match e:
            case ir.Get():
                return self._load(e, scope)
            case ir.FromIndex() | ir.Reduce() if makes_indices(e):
                return self._converted(self._count(e, scope), e.dtype)
            case ir.Reduce():
                return self._reduce_lanes(e, scope)
            case ir.Add() | ir.Mul() if not e.dtype.is_bool:
                return chain("+" if isinstance(e, ir.Add) else "*", [self._operand(a, scope) for a in e.args])
            case ir.Cast():
                return self._cast(e, scope)
            case ir.Bracket():
                holds = self.holding(e.conds, scope)
                always = isinstance(e.arg, ir.Const) and e.arg.value is True
                return holds if always else self._where(holds, e.arg, scope)
            case ir.Select():
                return self._select(e, scope)
            case ir.Apply():
                return self._function(e, scope)
            case _:
                raise Declined

    def _operand(self, e: ir.Scalar, scope: Scope) -> Value:
        """The value of a term or factor; a negated one has no name, because it is subtracted."""
        rest = negated(e)
        if rest is None:
            return self.value(e, scope)
        value = self.value(rest, scope)
        return Binary("*", Literal(-1.0 if e.dtype.is_floating else -1, value.type), value, value.type)

    def _count(self, e: ir.Scalar, scope: Scope) -> Value:
        """A number made from indices, as index integers."""
        return self._lane_index(e.index, scope) if isinstance(e, ir.FromIndex) else self._position(e, scope)

    def _function(self, e: ir.Apply, scope: Scope) -> Value:
        name, dtype = e.primitive.name, e.args[0].dtype
        args = [self.value(a, scope) for a in e.args]
        if name in LOGIC or name == "logical_not" or (dtype.is_bool and name in ("equal", "not_equal")):
            kind = self._narrowest(args, scope)
            sides = [self.mask(a, kind.dtype, scope) for a in args]
            if dtype.is_bool and name == "equal":
                return Binary("==", sides[0], sides[1], kind)
            return logic({"not_equal": "logical_xor"}.get(name, name), sides, kind)
        if name in COMPARISONS:
            return compared(name, args, dtype)
        if name in CLASSES:
            return compared(name, [named(args[0], "x", scope)], dtype)
        if e.dtype.is_floating and name in FLOATING:
            return function(e, args, dtype)
        if e.dtype.is_integer and name in BITS:
            return chain(BITS[name], args)
        if name == "bitwise_right_shift" and isinstance(e.args[1], ir.Const) and 0 <= e.args[1].value < dtype.bits:
            return Binary(">>", args[0], args[1], args[0].type)
        raise Declined

    def _cast(self, e: ir.Cast, scope: Scope) -> Value:
        source, target = e.arg.dtype, e.dtype
        if makes_indices(e.arg) and not target.is_bool:
            return self._converted(self._count(e.arg, scope), target)
        value = self.value(e.arg, scope)
        if source.is_bool:
            kind = mask_of(target, _lanes(scope))
            return self._converted(Binary("&", self.mask(value, kind.dtype, scope), Literal(1, kind), kind), target)
        if target.is_bool:
            return compared("not_equal", [value, Literal(0, Type(source))], source)
        if source.is_floating and (target.is_integer or (target.is_half and source.bits == 64)):
            raise Declined
        return self._converted(value, target)

    @staticmethod
    def _converted(value: Value, dtype: DType) -> Value:
        if isinstance(value, Convert) and isinstance(value.value, Gather):  # not narrowed first
            value = value.value
        return value if value.type.dtype is dtype else Convert(value, Type(dtype, value.type.lanes))

    # Conditions -----------------------------------------------------------------------------------------------------

    def _kind(self, scope: Scope) -> Type:
        """The type of indices in lanes, and of masks."""
        return Type(self.integer, _lanes(scope))

    def _narrowest(self, masks: Iterable[Value], scope: Scope) -> Type:
        """The type of the narrowest mask among these."""
        return min((m.type for m in masks if m.type.lanes > 1), key=lambda t: t.dtype.size, default=self._kind(scope))

    def mask(self, test: Value, dtype: DType, scope: Scope) -> Value:
        """A test as a mask for elements of a type."""
        kind = mask_of(dtype, _lanes(scope))
        if test.type.lanes == 1:
            return widened(mask_from(test, dtype), kind.lanes)
        return self._converted(test, kind.dtype)

    def holding(self, conds: Iterable[Cond], scope: Scope) -> Value:
        """The mask where all index conditions hold."""
        masks: list[Value] = []
        kind = self._kind(scope)
        for c in conds:
            if scope.lane in c.free:
                masks.append(self._condition(c, scope))
            else:
                masks.append(self.mask(Holds(self.conditions((c,), scope)), kind.dtype, scope))
        return named(chain("&", masks), "holds", scope)

    def _condition(self, c: Cond, scope: Scope) -> Value:
        """The mask of a condition on the lane; for open sizes, by comparing the lane number."""
        kind, lane = self._kind(scope), scope.lane
        step = None if lane is None or is_small(c.index, kind.dtype, lane) else stride(c.index, lane)
        if lane is None or step is None or (c.op != ">=" and abs(step) != 1):
            return Binary(c.op, self._lane_index(c.index, scope), Literal(0, kind), kind)
        first = self.index(c.index.without(lane), scope)
        if c.op == ">=":  # step * lane + first >= 0
            n = floor_divide(first, as_index(-step)) + 1 if step < 0 else floor_divide(step - 1 - first, as_index(step))
            return Binary("<" if step < 0 else ">=", Steps(1, kind), self._lane_number(n, scope), kind)
        places = Binary("+", Steps(1, kind), Literal(1, kind), kind)
        return Binary(c.op, places, self._lane_number(1 - first * step, scope), kind)

    def _lane_number(self, n: Index, scope: Scope) -> Value:
        """Clamp a number to 0 .. lanes + 1; values beyond are equivalent."""
        lanes = _lanes(scope)
        least, near = Var("least", lanes + 2), Var("near", lanes + 2)
        scope.statements.append(LetIndex(least, largest(ZERO_INDEX, n)))
        scope.statements.append(LetIndex(near, smallest(as_index(lanes + 1), as_index(least))))
        return widened(IndexValue(as_index(near), Type(self.integer)), lanes)

    def _narrowed(self, scope: Scope, mask: Value) -> Scope:
        """The lanes of a scope where a mask holds too."""
        if scope.mask is None:
            return scope.masked(mask)
        kind = self._narrowest((scope.mask, mask), scope)
        both = Binary("&", self.mask(scope.mask, kind.dtype, scope), self.mask(mask, kind.dtype, scope), kind)
        return scope.masked(named(both, "wanted", scope))

    def _where(self, holds: Value, e: ir.Scalar, scope: Scope) -> Value:
        """The value of e where a mask holds, else zero; inactive lanes of a load are zero already."""
        value = self.value(e, self._narrowed(scope, holds))
        if isinstance(e, ir.Get) and e.dtype.is_floating and scope.lane in e.free and not self.total(e, scope.known):
            return value
        return self._choice(holds, value, Literal(0, Type(e.dtype)), scope)

    def _select(self, e: ir.Select, scope: Scope) -> Value:
        test = self.value(e.test, scope)
        kind = self._narrowest((test,), scope)
        holds = named(self.mask(test, kind.dtype, scope), "holds", scope)
        a = self.value(e.then, self._narrowed(scope, holds))
        if self.total(e.otherwise, scope.known):
            return self._choice(holds, a, self.value(e.otherwise, scope), scope)
        fails = named(Binary("==", holds, Literal(0, kind), kind), "fails", scope)
        return self._choice(holds, a, self.value(e.otherwise, self._narrowed(scope, fails)), scope)

    def _choice(self, test: Value, a: Value, b: Value, scope: Scope) -> Value:
        """Select `a` where the mask is set, else `b`."""
        dtype, kind = a.type.dtype, self._narrowest((test, a, b), scope)
        if dtype.is_bool or (b.type.dtype is not dtype and dtype.is_integer):  # two bools
            m = self.mask(test, kind.dtype, scope)
            yes = Binary("&", m, self.mask(a, kind.dtype, scope), kind)
            if isinstance(b, Literal) and not b.value:
                return yes
            no = Binary("==", m, Literal(0, kind), kind)
            return Binary("|", yes, Binary("&", no, self.mask(b, kind.dtype, scope), kind), kind)
        lanes = _lanes(scope)
        return Choice(self.mask(test, dtype, scope), widened(a, lanes), widened(b, lanes), Type(dtype, lanes))

    # Indices --------------------------------------------------------------------------------------------------------

    def _lane_index(self, i: Index, scope: Scope) -> Value:
        """Compute an index for all lanes: its first value, a common step per lane, and data-dependent terms."""
        lane, kind = scope.lane, self._kind(scope)
        if lane not in i.free:
            return widened(self._same_index(i, scope), kind.lanes)
        if not is_small(i, kind.dtype, lane):
            raise Declined
        base, steps, parts = ZERO_INDEX, 0, []
        for monomial, c in i.terms:
            varying = [a for a in monomial if lane in a.free]
            factor = polynomial({tuple(a for a in monomial if lane not in a.free): c})
            if not varying:
                base = base + factor
            elif varying == [lane] and factor.constant is not None:
                steps += factor.constant
            elif len(varying) == 1:
                atom = self._atom(varying[0], scope)
                parts.append(atom if factor.constant == 1 else chain("*", [self._same_index(factor, scope), atom]))
            else:
                raise Declined
        if base.terms or not (steps or parts):
            parts.append(widened(self._same_index(base, scope), kind.lanes))
        if steps:
            parts.append(Steps(steps, kind))
        return chain("+", parts)

    def _same_index(self, i: Index, scope: Scope) -> Value:
        """An index that is the same in all lanes."""
        kind = Type(self.integer)
        return Literal(i.constant, kind) if i.constant is not None else IndexValue(self.index(i, scope), kind)

    def _atom(self, a: Atom, scope: Scope) -> Value:
        """The value of a nonlinear atom in the lane: the lane itself, quotients, remainders, data."""
        kind = self._kind(scope)
        match a:
            case Var():
                return Steps(1, kind)
            case Data():
                return self._converted(widened(self.value(read_by(a), scope), kind.lanes), kind.dtype)
            case Floor() | Mod():
                return self._quotient(a, scope)
            case _:
                raise Declined

    def _quotient(self, a: Floor | Mod, scope: Scope) -> Value:
        d, kind = a.denominator.constant, self._kind(scope)
        n = named(self._lane_index(a.numerator, scope), "index", scope)
        if d is None:
            raise Declined
        if d & (d - 1) == 0:  # a power of two: shifts and masks round down for negative numbers too
            if isinstance(a, Mod):
                return Binary("&", n, Literal(d - 1, kind), kind)
            return Binary(">>", n, Literal(d.bit_length() - 1, kind), kind)
        if not prove_nonnegative(a.numerator):
            raise Declined
        quotient = Binary("/", n, Literal(d, kind), kind)
        if isinstance(a, Floor):
            return quotient
        return Binary("-", n, Binary("*", quotient, Literal(d, kind), kind), kind)

    # Memory ---------------------------------------------------------------------------------------------------------

    def _load(self, e: ir.Get, scope: Scope) -> Value:
        """Load neighboring elements, masked where others may not exist; or strided ones, lane by lane."""
        if any(scope.lane in d.free for i in e.indices for d in i.data):
            raise Declined
        everywhere = scope.mask is None or self.total(e, scope.known)
        mask = None if everywhere or scope.mask is None else self.mask(scope.mask, e.dtype, scope)
        type_ = Type(dtype_named("u8") if e.dtype.is_bool else e.dtype, _lanes(scope))
        value = self.elements(self.place(e.ref), self.flat(e.ref, e.indices, scope), type_, mask)
        return Binary("!=", value, Literal(0, type_), mask_of(e.dtype, type_.lanes)) if e.dtype.is_bool else value

    def elements(self, buffer: Buffer, flat: Index, type_: Type, mask: Value | None = None) -> Value:
        """Load the elements at an index per lane; with a mask, only in its lanes."""
        lane = self.lane_in(flat)
        if type_.lanes == 1 or lane is None:
            return Load(buffer, flat, type_)
        if flat.coefficient(lane) is ONE_INDEX:
            return Load(buffer, flat.without(lane), type_, mask)
        places = [Substitution(variables={lane: as_index(k)}).index(flat) for k in range(type_.lanes)]
        steps = {(b - a).constant for a, b in pairwise(places)}
        if mask is not None or (self.near is not None and any(s is None or abs(s) > self.near for s in steps)):
            raise Declined
        if steps == {1}:
            return Load(buffer, places[0], type_)
        if steps == {0}:
            return Broadcast(Load(buffer, places[0], Type(type_.dtype)), type_)
        if type_.dtype.is_integer and type_.dtype.size < i32.size:  # single bytes are quicker put into wide lanes
            return Convert(Gather(buffer, tuple(places), Type(i32, type_.lanes)), type_)
        return Gather(buffer, tuple(places), type_)

    # Reductions -----------------------------------------------------------------------------------------------------

    def _over(self, e: ir.Reduce, conds: Iterable[Cond], scope: Scope) -> tuple[LoopNest, Scope]:
        """The loops of a reduction, and the scope of the active lanes."""
        lane = scope.lane
        varying = [c for c in conds if lane in c.free]
        reached = [_in_some_lane(c, lane) for c in varying if any(v in c.free for v in e.vars)]
        if None in reached and count_terms(e) > WINDOW:
            raise Declined  # most of the computation might be unnecessary
        bounds = [*(c for c in conds if lane not in c.free), *(c for c in reached if isinstance(c, Cond))]
        nest = LoopNest(self, scope, e.vars, bounds)
        inner = nest.innermost
        return nest, self._narrowed(inner, self.holding(varying, inner)) if varying else inner

    def _reduce_lanes(self, e: ir.Reduce, scope: Scope) -> Value:
        """A sum or extreme for each lane."""
        if e.op not in ("sum", "prod", "max", "min") or e.dtype.is_bool:
            raise Declined
        inside = e.op == "sum" and isinstance(e.arg, ir.Bracket)
        arg, conds = (e.arg.arg, e.arg.conds) if inside and isinstance(e.arg, ir.Bracket) else (e.arg, ())
        if scope.mask is None and scope.lane is not None and is_window(e, scope.lane):
            return self._unrolled(e, arg, conds, scope)
        total = Temp(e.op, Type(e.dtype, _lanes(scope)))
        scope.statements.append(Let(total, Literal(neutral(e.op, e.dtype), total.type), mutable=True))
        nest, wanted = self._over(e, conds, scope)
        value = widened(self.value(arg, wanted), total.type.lanes)
        if wanted is not nest.innermost and wanted.mask is not None:
            test = self.mask(wanted.mask, e.dtype, wanted)
            value = Choice(test, value, Literal(neutral(e.op, e.dtype), total.type), total.type)
        wanted.statements.append(added(total, e.op, value))
        nest.close()
        return Read(total)

    def _unrolled(self, e: ir.Reduce, arg: ir.Scalar, conds: Sequence[Cond], scope: Scope) -> Value:
        """A sum over a window, term by term; the lanes of each term are known."""
        terms: list[Value] = []
        lane, lanes = scope.lane, _lanes(scope)
        assert lane is not None
        for point in product(*(range(v.extent.constant or 0) for v in e.vars)):
            at = dict(zip(e.vars, map(as_index, point), strict=True))
            m = Substitution(variables=at)
            places = [Substitution(variables={**at, lane: as_index(k)}) for k in range(lanes)]
            holding = [[here.condition(c) is True for here in places] for c in conds]
            if not any(map(all, zip(*holding, strict=True))):
                continue
            some = [m.condition(c) for c, each in zip(conds, holding, strict=True) if not all(each)]
            tests = [c for c in some if isinstance(c, Cond)]
            term = m.scalar(arg)
            value = self._where(self.holding(tests, scope), term, scope) if tests else self.value(term, scope)
            terms.append(named(widened(value, lanes), "term", scope))
        return chain("+", terms) if terms else Literal(neutral(e.op, e.dtype), Type(e.dtype, lanes))

    def _position(self, e: ir.Scalar, scope: Scope) -> Value:
        """The flat position of the first extreme of each lane, or of its first NaN."""
        assert isinstance(e, ir.Reduce)
        dtype, kind = e.arg.dtype, self._kind(scope)
        if not dtype.is_floating:
            raise Declined
        best, where = Temp("best", Type(dtype, kind.lanes)), Temp("position", kind)
        scope.statements.append(Let(best, Literal(neutral(e.op, dtype), best.type), mutable=True))
        scope.statements.append(Let(where, Literal(0, where.type), mutable=True))
        nest, inner = self._over(e, (), scope)
        value = named(widened(self.value(e.arg, inner), kind.lanes), "value", inner)
        test = mask_of(dtype, kind.lanes)
        better: Value = Binary(">" if e.op == "argmax" else "<", value, Read(best), test)
        first = Binary("&", Binary("!=", value, value, test), Binary("==", Read(best), Read(best), test), test)
        better = named(Binary("|", better, first, test), "better", inner)
        here = widened(self._same_index(flat_position(e.vars), inner), kind.lanes)
        inner.statements += [
            Assign(best, Choice(better, value, Read(best), best.type)),
            Assign(where, Choice(self._converted(better, kind.dtype), here, Read(where), kind)),
        ]
        nest.close()
        return Read(where)


def _lanes(scope: Scope) -> int:
    return 1 if scope.lane is None else scope.lane.extent.constant or 1


def _in_some_lane(c: Cond, lane: Var | None) -> Cond | bool | None:
    """A condition without the lane that holds if `c` holds in some lane; None if not found."""
    step = c.index.coefficient(lane) if lane is not None and c.op == ">=" else None
    if lane is None or step is None or step.constant is None:
        return None
    best = lane.extent - 1 if step.constant > 0 else ZERO_INDEX
    return Substitution(variables={lane: best}).condition(c)


def is_window(r: ir.Reduce, axis: Var) -> bool:
    """Whether a sum is limited only by terms before and after a place on an axis."""
    if r.op != "sum" or not isinstance(r.arg, ir.Bracket) or count_terms(r) > WINDOW:
        return False
    conds = r.arg.conds
    places = frozenset(a for c in conds for a in c.index.atoms)
    return axis in places and places <= {axis, *r.vars} and all(c.op == ">=" for c in conds)


def count_terms(r: ir.Reduce) -> int:
    """The number of terms of a reduction; if unknown, more than a window's."""
    return prod(v.extent.constant or WINDOW + 1 for v in r.vars)


def makes_indices(e: ir.Scalar) -> bool:
    """Whether a number is made from indices, so that any sufficient integer size will do."""
    return isinstance(e, ir.FromIndex) or (isinstance(e, ir.Reduce) and e.op in POSITIONS)
