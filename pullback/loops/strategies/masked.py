"""Builds with conditions on the vector axis, comparisons, choices, integers and casts: vectors with masks.

Before    y = build i < N, j < N { [i >= j] x[i, j] + f32(m[j] == j // 2) }
After     for i, for j in vectors: a mask of the lanes with i >= j; x[i, j ..] or 0; the lanes of m[j ..] against j // 2

The last axis of the result lies along the lanes. What does not vary there is written by the scalar lowering, in the
outermost loop that it fits; what does is a vector of its own element type, all of the same number of lanes. A bool is a
mask: integers with all bits set or none. An index is a vector of integers, a datum in it included. Under a condition, a
load that may leave its array takes the lanes that are in it. Reductions are loops over vectors of results; those over
a window whose conditions are about places on the axis alone, as where shifted rows are added up, are written term by
term for each vector of the row, so that only vectors across an end of the window have a mask. What is left of the axis
takes plain loops.

It comes after `tile` and `parts`, which know more about what they take, and passes on reads at data-dependent places
along the lanes, columns, checked indices and conversions of floating-point numbers to integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Final

from pullback.ir.expr import (
    POSITIONS,
    Add,
    Apply,
    Bracket,
    Cast,
    Const,
    FromIndex,
    Get,
    Mul,
    Reduce,
    Scalar,
    Select,
    read_by,
)
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
    polynomial,
    prove_nonnegative,
)
from pullback.ir.program import Build
from pullback.ir.traverse import Substitution, walk
from pullback.ir.types import DType, dtype_named, i32, i64
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate, Declined
from pullback.loops.plain.lower import bring_plain, flat_position, without_units
from pullback.loops.plain.scalar import ScalarLowering, hint
from pullback.loops.program.cover import halves, is_open, typical
from pullback.loops.program.nodes import (
    Assign,
    Binary,
    Broadcast,
    Choice,
    Convert,
    For,
    Gather,
    Holds,
    IndexValue,
    Kernel,
    Let,
    LetIndex,
    Literal,
    Load,
    Read,
    Steps,
    Stmt,
    Store,
    Temp,
    Type,
    Value,
    largest,
    smallest,
)
from pullback.loops.program.schedule import Mask, Schedule, Vector
from pullback.loops.program.scope import Scope
from pullback.loops.strategies.stretches import part_of, plain_part
from pullback.loops.vectors.fused_values import NEUTRAL
from pullback.loops.vectors.lanes import (
    CLASSES,
    COMPARISONS,
    LOGIC,
    VECTOR_FUNCTIONS,
    chain,
    compared,
    function,
    logic,
    mask_from,
    mask_of,
    widened,
)
from pullback.loops.vectors.nest import narrower, stride
from pullback.machine import Machine

NEAR: Final = 4  # the longest step of a gather along the lanes
SMALL: Final = 32  # element evaluations below which plain code does
MASKED: Final = 1.3  # what is done for lanes that are not used, and to tell which these are
WINDOW: Final = 64  # the most terms of a reduction whose condition varies along the lanes
NARROWEST: Final = 16  # bytes of the smallest vector register
BITS: Final = ("bitwise_and", "bitwise_or", "bitwise_xor")
SYMBOL: Final = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "maximum": "max", "minimum": "min"}


@dataclass(frozen=True, eq=False)
class Guard:
    """The lanes that are wanted."""

    mask: Value


def masks(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for single builds as vectors with masks. What has no vector form shows while it is written."""
    s = work.statement
    if not isinstance(s, Build) or len(s.outs) != 1:
        return
    whole = without_units(s)
    lanes = _lanes_of(whole, machine)
    if lanes < 2:
        return

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, Build)
        return bring_plain(s, masked_loops(s, builder, machine), builder, machine)

    axis = whole.vars[-1]
    rest = typical(axis) % lanes
    inside = points_cycles(whole.values, whole.vars, machine, lanes, axis)
    left = points_cycles(whole.values, whole.vars[:-1], machine) * rest
    schedule = Schedule((Mask(axis.name), Vector(axis.name, lanes, rest=(1,) * bool(rest))))
    yield Candidate("masked", inside * MASKED + left, build, schedule)


def masked_loops(build: Build, builder: KernelBuilder, machine: Machine) -> list[Stmt]:
    """The statements of a build: vectors as far as they go along the last axis, then what is left.

    Raises:
        Declined: vectors cannot do it.
    """
    s = without_units(build)
    lanes = _lanes_of(s, machine)
    axis = s.vars[-1]
    lowering = ScalarLowering(builder.parameter, builder.site, s.values)
    root = Scope()
    outer = LoopNest(lowering, root, s.vars[:-1], ())

    def vector(inside: Scope, start: Index, lanes: int) -> None:
        """The elements from `start` on."""
        writer = LaneWriter(lowering, axis, start, lanes, inside, s.outs[0].dtype)
        value = writer.stored(s.values[0])
        offset = Substitution(variables={axis: start}).index(flat_position(s.vars))
        writer.scope.statements.append(Store(builder.parameter(s.outs[0]), offset, value))

    extent, done = axis.extent, ZERO_INDEX
    row = _row(s, machine)
    if row:
        inside = outer.innermost.inside(axis, True)
        for first, width in row:
            vector(inside, as_index(first), width)
            done = as_index(first + width)
        outer.innermost.statements += inside.statements
    for width in () if row else halves(lanes)[:-1] if is_open(axis) else (lanes,):
        loop = Var(axis.name, floor_divide(extent - done, as_index(width)))
        inside = outer.innermost.inside(loop, not is_open(axis))
        vector(inside, done + as_index(loop) * width, width)
        outer.innermost.statements.append(For(loop, ZERO_INDEX, loop.extent, tuple(inside.statements), kind="vector"))
        done = floor_divide(extent, as_index(width)) * width
    outer.close()
    rest = plain_part(*part_of(build, [(axis, done, extent)]), builder) if done is not extent else []
    return [*root.statements, *rest]


def _reductions(s: Build) -> list[Reduce]:
    return [n for n in walk(s.values[0]) if isinstance(n, Reduce)]


def _lanes_of(s: Build, machine: Machine) -> int:
    """Lanes along the last axis; 1 where there is none for vectors, or little to do."""
    if not s.vars:
        return 1
    trips = max((prod(map(typical, r.vars)) for r in _reductions(s)), default=1)
    if prod(map(typical, s.vars)) * trips < SMALL:
        return 1
    return _lanes(s, typical(s.vars[-1]), machine)


def _lanes(s: Build, extent: int, machine: Machine) -> int:
    """Lanes for the widest element type, or fewer where that leaves less over."""
    inner = {n.arg for n in walk(s.values[0]) if isinstance(n, Cast)}
    sizes = [n.dtype.size for n in walk(s.values[0]) if not n.dtype.is_bool and not (n in inner and _counts(n))]
    most = machine.vector_bytes // max([*sizes, s.outs[0].dtype.size])
    choices = [n for n in (64, 32, 16, 8, 4, 2) if n <= min(most, extent) and 2 * n >= min(most, 8)]
    return min(choices, key=lambda n: extent // n + extent % n, default=1)


def _row(s: Build, machine: Machine) -> list[tuple[int, int]]:
    """Where vectors of a row begin and their lanes, where each is best written by itself; else none.

    That is where the row is short, and what leaves lanes out are the ends of a window, or where there is one vector.
    """
    extent, wide = s.vars[-1].extent.constant, _lanes_of(s, machine)
    if extent is None:
        return []
    return _window_row(s, extent, machine) or ([(0, wide)] if extent < 2 * wide else [])


def _window_row(s: Build, extent: int, machine: Machine) -> list[tuple[int, int]]:
    """Vectors of a short row of which windows' ends leave lanes out."""
    windows = [r for r in _reductions(s) if _window(r, s.vars[-1])]
    lanes = machine.lanes(s.outs[0].dtype.size)
    least = machine.narrowest // s.outs[0].dtype.size
    if not windows or least < 2 or sum(_terms(r) for r in windows) * -(-extent // lanes) > WINDOW:
        return []
    pieces: list[tuple[int, int]] = []
    for width in narrower(extent, lanes):
        if width >= least:
            pieces.append((sum(n for _, n in pieces), width))
    return pieces


def _window(r: Reduce, axis: Var) -> bool:
    """Whether a sum leaves out terms before and after a place on an axis, and for nothing else."""
    if r.op != "sum" or not isinstance(r.arg, Bracket) or _terms(r) > WINDOW:
        return False
    conds = r.arg.conds
    places = frozenset(a for c in conds for a in c.index.atoms)
    return axis in places and places <= {axis, *r.vars} and all(c.op == ">=" for c in conds)


def _terms(r: Reduce) -> int:
    return prod(v.extent.constant or WINDOW + 1 for v in r.vars)


def _counts(e: Scalar) -> bool:
    """Whether a number is made from indices, in integers of any size that will do."""
    return isinstance(e, FromIndex) or (isinstance(e, Reduce) and e.op in POSITIONS)


class LaneWriter:
    """Writes values for a vector of elements, from `start` on along `axis`."""

    def __init__(
        self, lowering: ScalarLowering, axis: Var, start: Index, lanes: int, scope: Scope, result: DType
    ) -> None:
        self.lowering = lowering
        self.axis = axis
        self.start = start
        self.lanes = lanes
        self.scope = scope
        self.int = Type(i64 if result.bits == 64 else i32, lanes)  # for indices
        self.memo: dict[tuple[Scalar, Guard | None], Value] = {}

    # Values ---------------------------------------------------------------------------------------------------------

    def stored(self, e: Scalar) -> Value:
        """The value as it lies in memory."""
        value = self.value(e, None)
        if e.dtype.is_bool:
            one = Binary("&", self.mask(value, self.int.dtype), Literal(1, self.int), self.int)
            return Convert(one, Type(dtype_named("u8"), self.lanes))
        return widened(value, self.lanes)

    def value(self, e: Scalar, guard: Guard | None) -> Value:
        """The value of e in the lanes of the guard: a scalar where it does not vary along them, else a vector."""
        if guard is not None and self.lowering.total(e, self.scope.known):
            guard = None
        if self.axis not in e.free:
            if guard is not None:
                raise Declined
            return self.lowering.value(e, self.scope)
        found = self.memo.get((e, guard))
        if found is None:
            found = self.memo[e, guard] = self._named(self._make(e, guard), hint(e))
        return found

    def _named(self, value: Value, name: str) -> Value:
        if isinstance(value, Read | Literal):
            return value
        temp = Temp(name, value.type)
        self.scope.statements.append(Let(temp, value))
        return Read(temp)

    def _make(self, e: Scalar, guard: Guard | None) -> Value:
        match e:
            case Get():
                return self._load(e, guard)
            case FromIndex() | Reduce() if _counts(e):
                return self._converted(self._count(e, guard), e.dtype)
            case Reduce():
                return self._reduce(e, guard)
            case Add() | Mul() if not e.dtype.is_bool:
                return chain("+" if isinstance(e, Add) else "*", [self.value(a, guard) for a in e.args])
            case Cast():
                return self._cast(e, guard)
            case Bracket():
                return self._bracket(e, guard)
            case Select():
                return self._select(e, guard)
            case Apply():
                return self._apply(e, guard)
            case _:
                raise Declined

    def _count(self, e: Scalar, guard: Guard | None) -> Value:
        """A number made from indices, as index integers."""
        if isinstance(e, FromIndex):
            return self.index(e.index, guard)
        assert isinstance(e, Reduce)
        return self._position(e, guard)

    def _apply(self, e: Apply, guard: Guard | None) -> Value:
        name, dtype = e.primitive.name, e.args[0].dtype
        args = [self.value(a, guard) for a in e.args]
        if name in LOGIC or name == "logical_not" or (dtype.is_bool and name in ("equal", "not_equal")):
            sides = [self.mask(a, self.int.dtype) for a in args]
            if dtype.is_bool and name == "equal":
                return Binary("==", sides[0], sides[1], self.int)
            return logic({"not_equal": "logical_xor"}.get(name, name), sides, self.int)
        if name in COMPARISONS or name in CLASSES:
            return compared(name, args, dtype)
        if e.dtype.is_floating and (name in ("divide", "maximum", "minimum") or name in VECTOR_FUNCTIONS):
            return function(e, args, dtype)
        if e.dtype.is_integer and name in SYMBOL:
            return chain(SYMBOL[name], args)
        if name == "bitwise_right_shift" and isinstance(e.args[1], Const) and 0 <= e.args[1].value < dtype.bits:
            return Binary(">>", args[0], args[1], args[0].type)
        raise Declined

    def _cast(self, e: Cast, guard: Guard | None) -> Value:
        source, target = e.arg.dtype, e.dtype
        if _counts(e.arg) and not target.is_bool:
            return self._converted(self._count(e.arg, guard), target)
        value = self.value(e.arg, guard)
        if source.is_bool:
            kind = mask_of(target, self.lanes)
            return self._converted(Binary("&", self.mask(value, kind.dtype), Literal(1, kind), kind), target)
        if target.is_bool:
            return compared("not_equal", [value, Literal(0, Type(source))], source)
        if source.is_floating and (target.is_integer or (target.is_half and source.bits == 64)):
            raise Declined
        return self._converted(value, target)

    def _converted(self, value: Value, dtype: DType) -> Value:
        return value if value.type.dtype is dtype else Convert(value, Type(dtype, value.type.lanes))

    # Conditions -----------------------------------------------------------------------------------------------------

    def mask(self, test: Value, dtype: DType) -> Value:
        """A test as a mask for elements of a type."""
        kind = mask_of(dtype, self.lanes)
        if test.type.lanes == 1:
            return Broadcast(mask_from(test, dtype), kind)
        return self._converted(test, kind.dtype)

    def conditions(self, conds: Iterable[Cond], guard: Guard | None) -> Value:
        """Where all index conditions hold."""
        masks: list[Value] = []
        for c in conds:
            if self.axis in c.free:
                masks.append(self._condition(c, guard))
            else:
                masks.append(self.mask(Holds(self.lowering.conditions((c,), self.scope)), self.int.dtype))
        return self._named(chain("&", masks), "holds")

    def _condition(self, c: Cond, guard: Guard | None) -> Value:
        """Where a condition about the axis holds; one of any size by the number of the lane from or up to which."""
        step = None if _is_small(c.index, self.int.dtype) else stride(c.index, self.axis)
        if step is None or (c.op != ">=" and abs(step) != 1):
            return Binary(c.op, self.index(c.index, guard), Literal(0, self.int), self.int)
        first = self.lowering.index(Substitution(variables={self.axis: self.start}).index(c.index), self.scope)
        if c.op == ">=":  # step * lane + first >= 0
            n = floor_divide(first, as_index(-step)) + 1 if step < 0 else floor_divide(step - 1 - first, as_index(step))
            return Binary("<" if step < 0 else ">=", Steps(1, self.int), self._lane(n), self.int)
        lane = Binary("+", Steps(1, self.int), Literal(1, self.int), self.int)
        return Binary(c.op, lane, self._lane(1 - first * step), self.int)

    def _lane(self, n: Index) -> Value:
        """A number from 0 to one more than there are lanes in place of any number, beyond which none differ."""
        least, near = Var("least", self.lanes + 2), Var("near", self.lanes + 2)
        self.scope.statements.append(LetIndex(least, largest(ZERO_INDEX, n)))
        self.scope.statements.append(LetIndex(near, smallest(as_index(self.lanes + 1), as_index(least))))
        return widened(IndexValue(as_index(near), Type(self.int.dtype)), self.lanes)

    def _narrowed(self, guard: Guard | None, mask: Value) -> Guard:
        """The lanes of a guard where a mask holds too."""
        if guard is None:
            return Guard(mask)
        both = Binary("&", self.mask(guard.mask, self.int.dtype), self.mask(mask, self.int.dtype), self.int)
        return Guard(self._named(both, "wanted"))

    def _bracket(self, e: Bracket, guard: Guard | None) -> Value:
        holds = self.conditions(e.conds, guard)
        if isinstance(e.arg, Const) and e.arg.value is True:
            return holds
        return self._where(holds, e.arg, guard)

    def _where(self, holds: Value, e: Scalar, guard: Guard | None) -> Value:
        """The value of e where a mask holds, else zero, as the lanes that a load leaves out are anyway."""
        wanted = self._narrowed(guard, holds)
        value = self.value(e, wanted)
        if isinstance(e, Get) and e.dtype.is_floating and not self.lowering.total(e, self.scope.known):
            return value
        return self._choice(holds, value, Literal(0, Type(e.dtype)), e.dtype)

    def _select(self, e: Select, guard: Guard | None) -> Value:
        test = self.value(e.test, guard)
        holds = self._named(self.mask(test, self.int.dtype), "holds")
        fails = Binary("==", holds, Literal(0, self.int), self.int)
        known = self.lowering.total(e.otherwise, self.scope.known)
        a = self.value(e.then, self._narrowed(guard, holds))
        b = self.value(e.otherwise, None if known else self._narrowed(guard, self._named(fails, "fails")))
        return self._choice(holds, a, b, e.dtype)

    def _choice(self, test: Value, a: Value, b: Value, dtype: DType) -> Value:
        """A where the mask is set, else b."""
        if dtype.is_bool:
            m, no = self.mask(test, self.int.dtype), Literal(0, self.int)
            yes = Binary("&", m, self.mask(a, self.int.dtype), self.int)
            if isinstance(b, Literal) and not b.value:
                return yes
            other = Binary("&", Binary("==", m, no, self.int), self.mask(b, self.int.dtype), self.int)
            return Binary("|", yes, other, self.int)
        return Choice(self.mask(test, dtype), widened(a, self.lanes), widened(b, self.lanes), Type(dtype, self.lanes))

    # Indices --------------------------------------------------------------------------------------------------------

    def index(self, i: Index, guard: Guard | None) -> Value:
        """An index in the lanes: a number for the first, the same step to each next one, and other atoms."""
        if self.axis not in i.free:
            return widened(self._scalar_index(i), self.lanes)
        if not _is_small(i, self.int.dtype):
            raise Declined
        base, steps, parts = ZERO_INDEX, 0, []
        for monomial, c in i.terms:
            varying = [a for a in monomial if self.axis in a.free]
            factor = polynomial({tuple(a for a in monomial if self.axis not in a.free): c})
            if not varying:
                base = base + factor
            elif varying == [self.axis] and factor.constant is not None:
                base, steps = base + factor * self.start, steps + factor.constant
            elif len(varying) == 1:
                atom = self._atom(varying[0], guard)
                parts.append(atom if factor.constant == 1 else chain("*", [self._scalar_index(factor), atom]))
            else:
                raise Declined
        if base.terms or not (steps or parts):
            parts.append(widened(self._scalar_index(base), self.lanes))
        if steps:
            parts.append(Steps(steps, self.int))
        return chain("+", parts)

    def _scalar_index(self, i: Index) -> Value:
        if i.constant is not None:
            return Literal(i.constant, Type(self.int.dtype))
        return IndexValue(self.lowering.index(i, self.scope), Type(self.int.dtype))

    def _atom(self, a: Atom, guard: Guard | None) -> Value:
        """What is not linear in the axis: the axis itself, quotients, remainders, data."""
        match a:
            case Var():
                return self.index(as_index(a), guard)
            case Data():
                return self._converted(widened(self.value(read_by(a), guard), self.lanes), self.int.dtype)
            case Floor() | Mod():
                return self._quotient(a, guard)
            case _:
                raise Declined

    def _quotient(self, a: Floor | Mod, guard: Guard | None) -> Value:
        d = a.denominator.constant
        n = self._named(self.index(a.numerator, guard), "index")
        if d is None:
            raise Declined
        if d & (d - 1) == 0:  # a power of two: shifts and masks round down for negative numbers too
            if isinstance(a, Mod):
                return Binary("&", n, Literal(d - 1, self.int), self.int)
            return Binary(">>", n, Literal(d.bit_length() - 1, self.int), self.int)
        if not prove_nonnegative(a.numerator):
            raise Declined
        quotient = Binary("/", n, Literal(d, self.int), self.int)
        if isinstance(a, Floor):
            return quotient
        return Binary("-", n, Binary("*", quotient, Literal(d, self.int), self.int), self.int)

    # Memory ---------------------------------------------------------------------------------------------------------

    def _load(self, e: Get, guard: Guard | None) -> Value:
        """Neighbouring elements, only those of the guard where others may not exist; or near ones, lane by lane."""
        if any(self.axis in d.free for i in e.indices for d in i.data):
            raise Declined
        flat = self.lowering.flat(e.ref, e.indices, self.scope)
        buffer = self.lowering.place(e.ref)
        type_ = Type(dtype_named("u8") if e.dtype.is_bool else e.dtype, self.lanes)
        first = Substitution(variables={self.axis: self.start}).index(flat)
        if stride(flat, self.axis) == 1:
            mask = None if guard is None else self.mask(guard.mask, e.dtype)
            value: Value = Load(buffer, first, type_, mask)
        else:
            places = tuple(Substitution(variables={self.axis: self.start + k}).index(flat) for k in range(self.lanes))
            steps = [(b - a).constant for a, b in pairwise(places)]
            if guard is not None or any(s is None or abs(s) > NEAR for s in steps):
                raise Declined
            value = Gather(buffer, places, type_)
        if not e.dtype.is_bool:
            return value
        return Binary("!=", Convert(value, self.int), Literal(0, self.int), self.int)

    # Reductions -----------------------------------------------------------------------------------------------------

    def _over(self, e: Reduce, conds: Iterable[Cond], guard: Guard | None) -> tuple[LoopNest, Guard | None]:
        """The loops of a reduction, and the lanes that take part; values are written inside them from here on."""
        inner = [c for c in conds if self.axis not in c.free]
        varying = [c for c in conds if self.axis in c.free]
        reached = [self._in_some_lane(c) for c in varying if any(v in c.free for v in e.vars)]
        if None in reached and _terms(e) > WINDOW:
            raise Declined  # most of what is computed might be left out
        nest = LoopNest(self.lowering, self.scope, e.vars, [*inner, *(c for c in reached if isinstance(c, Cond))])
        self.scope = nest.innermost
        self.memo = dict(self.memo)
        return nest, self._narrowed(guard, self.conditions(varying, guard)) if varying else guard

    def _in_some_lane(self, c: Cond) -> Cond | bool | None:
        """What holds wherever a condition does in one of the lanes, without the axis; None where it is not found."""
        step = stride(c.index, self.axis) if c.op == ">=" else None
        if step is None:
            return None
        best = self.start + (self.lanes - 1 if step > 0 else 0)
        return Substitution(variables={self.axis: best}).condition(c)

    def _reduce(self, e: Reduce, guard: Guard | None) -> Value:
        """A sum or extreme for each lane."""
        if e.op not in NEUTRAL or not e.dtype.is_floating:
            raise Declined
        inside = e.op == "sum" and isinstance(e.arg, Bracket)
        arg, conds = (e.arg.arg, e.arg.conds) if inside and isinstance(e.arg, Bracket) else (e.arg, ())
        if guard is None and self.start.constant is not None and _window(e, self.axis):
            return self._unrolled(e, arg, conds)
        scope, memo = self.scope, self.memo
        total = Temp(e.op, Type(e.dtype, self.lanes))
        scope.statements.append(Let(total, Literal(NEUTRAL[e.op], total.type), mutable=True))
        nest, wanted = self._over(e, conds, guard)
        value = widened(self.value(arg, wanted), self.lanes)
        if wanted is not guard and wanted is not None:
            value = Choice(self.mask(wanted.mask, e.dtype), value, Literal(0.0, total.type), total.type)
        added = Binary("+" if e.op == "sum" else "max" if e.op == "max" else "min", Read(total), value, total.type)
        self.scope.statements.append(Assign(total, added))
        nest.close()
        self.scope, self.memo = scope, memo
        return Read(total)

    def _unrolled(self, e: Reduce, arg: Scalar, conds: Sequence[Cond]) -> Value:
        """A sum over a window, term by term: which lanes have one is known."""
        terms: list[Value] = []
        for point in product(*(range(v.extent.constant or 0) for v in e.vars)):
            at = dict(zip(e.vars, map(as_index, point), strict=True))
            m = Substitution(variables=at)
            places = [Substitution(variables={**at, self.axis: self.start + k}) for k in range(self.lanes)]
            holding = [[here.condition(c) is True for here in places] for c in conds]
            if not any(map(all, zip(*holding, strict=True))):
                continue
            some = [m.condition(c) for c, lanes in zip(conds, holding, strict=True) if not all(lanes)]
            tests = [c for c in some if isinstance(c, Cond)]
            term = m.scalar(arg)
            value = self._where(self.conditions(tests, None), term, None) if tests else self.value(term, None)
            terms.append(widened(value, self.lanes))
        return chain("+", terms) if terms else Literal(0.0, Type(e.dtype, self.lanes))

    def _position(self, e: Reduce, guard: Guard | None) -> Value:
        """The flat position of the first extreme of each lane, or of its first NaN."""
        dtype = e.arg.dtype
        if not dtype.is_floating:
            raise Declined
        scope, memo = self.scope, self.memo
        best, where = Temp("best", Type(dtype, self.lanes)), Temp("position", self.int)
        worst = -float("inf") if e.op == "argmax" else float("inf")
        scope.statements.append(Let(best, Literal(worst, best.type), mutable=True))
        scope.statements.append(Let(where, Literal(0, where.type), mutable=True))
        nest, _ = self._over(e, (), guard)
        value = self._named(widened(self.value(e.arg, guard), self.lanes), "value")
        kind = mask_of(dtype, self.lanes)
        better: Value = Binary(">" if e.op == "argmax" else "<", value, Read(best), kind)
        first = Binary("&", Binary("!=", value, value, kind), Binary("==", Read(best), Read(best), kind), kind)
        better = self._named(Binary("|", better, first, kind), "better")
        here = widened(self._scalar_index(flat_position(e.vars)), self.lanes)
        self.scope.statements += [
            Assign(best, Choice(better, value, Read(best), best.type)),
            Assign(where, Choice(self._converted(better, self.int.dtype), here, Read(where), where.type)),
        ]
        nest.close()
        self.scope, self.memo = scope, memo
        return Read(where)


def _is_small(i: Index, dtype: DType) -> bool:
    """Whether an index is known to fit lanes of a type, with what it is made of."""
    most = _largest(i)
    return most is not None and most < 2 ** (dtype.bits - 2)


def _largest(i: Index) -> int | None:
    """A number that the size of an index does not exceed; None where that is not known."""
    total = 0
    for monomial, c in i.terms:
        sizes = [_size(a) for a in monomial]
        if any(s is None for s in sizes):
            return None
        total += abs(c) * prod(s or 0 for s in sizes)
    return total


def _size(a: Atom) -> int | None:
    match a:
        case Var():
            return a.extent.constant
        case Data():
            return None if a.checked or a.extent is None else a.extent.constant
        case Mod():
            return None if _largest(a.numerator) is None else a.denominator.constant
        case Floor():
            return _largest(a.numerator)
        case _:
            return None
