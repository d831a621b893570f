"""Index range checks: proofs at definition, and run-time checks for data-dependent indices.

An index is proven under the conditions that hold on its path: brackets, and the tests of `where`. Python evaluates
`x[i - 1]` before `where(i > 0, ..., 0)` sees it, so proofs wait until the body of a statement is complete.

A statement that was lifted out of a `where` cannot know its guard. Its out-of-range reads are replaced by zero, and its
array gets an `Obligation`. Wherever an element of that array is read, the condition must hold
for its indices. At the end of the block, an obligation that was not discharged is the user's error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pullback.errors import PullbackError, ShapeError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.expr import POSITIONS, read_by
from pullback.ir.index import (
    ZERO_INDEX,
    Cond,
    Data,
    Floor,
    Index,
    Mod,
    Var,
    as_index,
    cond,
    extreme,
    floor_divide,
    modulo,
    prove,
    prove_nonnegative,
)
from pullback.ir.traverse import Substitution, walk
from pullback.records import dataclass
from pullback.source import Position

Known = tuple[Cond, ...]
_COMPOUND = (Data, Floor, Mod)  # atoms that may read elements


@dataclass(frozen=True)
class Access:
    """An index of an element that is read, for messages."""

    ref: ir.Ref
    axis: int
    indices: tuple[Index, ...]
    upper: bool
    position: Position | None


@dataclass(frozen=True)
class Obligation:
    """A `condition` that must hold wherever its array is read; `known` held where it arose.

    With `data` the condition is about data: if it is not known to hold, the checked array is read.
    """

    condition: Cond | bool
    known: Known
    access: Access
    data: bool = False

    def substitute(self, s: Substitution) -> Obligation:
        """The obligation with variables mapped."""
        condition = self.condition if isinstance(self.condition, bool) else s.condition(self.condition)
        known = tuple(c for c in (s.condition(k) for k in self.known) if isinstance(c, Cond))
        return Obligation(condition, known, self.access, self.data)


class Traced(Protocol):
    """The interface of the program under construction for a checker (`trace.Tracer`)."""

    positions: dict[ir.Scalar, Position]

    @property
    def lifted(self) -> Sequence[Var]:
        """The index variables in scope in this block."""

    @property
    def known(self) -> Known:
        """The conditions known at the start of the check."""

    @property
    def guardable(self) -> frozenset[Var]:
        """The variables in scope: a condition on one of them may be known where a value is used."""

    def report(self, error: PullbackError) -> None:
        """Collect an error."""

    def obligations(self, ref: ir.Ref) -> tuple[tuple[Var, ...], tuple[Obligation, ...]]:
        """Conditions that a reader of the array must guarantee."""

    def with_checks(self, ref: ir.Ref) -> tuple[ir.Ref, ir.Ref]:
        """The array with checked obligations, and its original."""


class RangeChecker:
    """Checks every element read in the body of a statement."""

    def __init__(self, tracer: Traced, own: frozenset[Var], strict: bool = False) -> None:
        self.tracer = tracer
        self.lifting = frozenset() if strict else frozenset(tracer.lifted) - own
        self.assumed = tracer.known
        self._own = own
        self.obligations: list[Obligation] = []
        self._memo: dict[tuple[ir.Scalar, Known], ir.Scalar] = {}

    @property
    def guardable(self) -> frozenset[Var]:
        """The variables around the statement: a condition on one of them may be known where it is read."""
        return self.tracer.guardable - self._own

    def scalar(self, e: ir.Scalar, known: Known) -> ir.Scalar:
        """Return `e` with the necessary run-time checks; collect obligations and errors."""
        if not e.refs:
            return e
        key = (e, known)
        out = self._memo.get(key)
        if out is None:
            out = self._memo[key] = self._scalar(e, known)
        return out

    def _scalar(self, e: ir.Scalar, known: Known) -> ir.Scalar:
        match e:
            case ir.Get():
                return self._get(e, known)
            case ir.FromIndex():
                index = self.index(e.index, known)
                return e if index is e.index else expr.from_index(index, e.dtype)
            case ir.Apply():
                args = tuple(self.scalar(a, known) for a in e.args)
                return e if args == e.args else expr.apply(e.primitive, *args)
            case ir.Add():
                args = tuple(self.scalar(a, known) for a in e.args)
                return e if args == e.args else expr.add(*args)
            case ir.Mul():
                args = tuple(self.scalar(a, known) for a in e.args)
                return e if args == e.args else expr.mul(*args)
            case ir.Cast():
                arg = self.scalar(e.arg, known)
                return e if arg is e.arg else expr.cast(arg, e.dtype)
            case ir.Bracket():
                conds: list[Cond | bool] = []
                for c in e.conds:
                    index = self.index(c.index, known)
                    conds.append(c if index is c.index else cond(c.op, index))
                arg = self.scalar(e.arg, _join(known, e.conds))
                return e if arg is e.arg and tuple(conds) == e.conds else expr.bracket(conds, arg)
            case ir.Select():
                test = self.scalar(e.test, known)
                then = self._side(e.then, e.test, True, known)
                otherwise = self._side(e.otherwise, e.test, False, known)
                if test is e.test and then is e.then and otherwise is e.otherwise:
                    return e
                return expr.select(test, then, otherwise)
            case ir.Reduce():
                arg = self.scalar(e.arg, known)
                return e if arg is e.arg else expr.reduce(e.op, e.vars, arg)
            case _:
                return e

    def _side(self, e: ir.Scalar, test: ir.Scalar, truth: bool, known: Known) -> ir.Scalar:
        """Check one side of a choice under the test's index conditions.

        Comparisons of data with a size are index conditions, too, written as brackets where they matter.
        """
        facts = conditions(test, truth)
        out = self.scalar(e, _join(known, facts))
        data = [c for c in facts if c.index.data]
        return expr.bracket(data, out) if data and _reads_at(out, data) else out

    def index(self, e: Index, known: Known) -> Index:
        """Return `e` with the elements read inside it checked."""
        if not any(type(a) in _COMPOUND for a in e.atoms):
            return e
        out = as_index(0)
        changed = False
        for monomial, coefficient in e.terms:
            term = as_index(coefficient)
            for atom in monomial:
                factor = self._atom(atom, known) if isinstance(atom, _COMPOUND) else as_index(atom)
                changed = changed or factor.single is not atom
                term = term * factor
            out = out + term
        return out if changed else e

    def _atom(self, atom: Data | Floor | Mod, known: Known) -> Index:
        if isinstance(atom, Data):
            scalar = self.scalar(read_by(atom), known)
            return as_index(atom) if scalar is atom.scalar else expr.data_index(scalar, atom.extent, atom.checked)
        n, d = self.index(atom.numerator, known), self.index(atom.denominator, known)
        if n is atom.numerator and d is atom.denominator:
            return as_index(atom)
        return floor_divide(n, d) if isinstance(atom, Floor) else modulo(n, d)

    def _get(self, e: ir.Get, known: Known) -> ir.Scalar:
        position = self.tracer.positions.get(e)
        indices: list[Index] = []
        guards: list[Cond | bool] = []
        facts = (*self.assumed, *known)
        for axis, (plain, extent) in enumerate(zip(e.indices, e.ref.shape)):
            atom = plain.single
            if type(atom) is Var and atom.extent is extent:  # the common case
                indices.append(plain)
                continue
            index = self.index(plain, known)
            bounds = [(cond(">=", index), False), (cond(">=", extent - 1 - index), True)]
            failing = [(c, upper) for c, upper in bounds if not prove(c, facts)]
            data = bool(index.data)
            if failing and data and not all(self._may_wait(c) for c, _ in failing):
                index = expr.data_index(expr.from_index(index, types.i64), extent, checked=True)
                failing = []
            for c, upper in failing:
                access = Access(e.ref, axis, e.indices, upper, position)
                guards.append(c)
                if isinstance(c, Cond) and not c.free.isdisjoint(self.guardable):
                    self.obligations.append(Obligation(c, known, access, data))
                else:
                    self.tracer.report(range_error(access))
            indices.append(index)
        ref = self._owed(e.ref, indices, known, facts)
        out = e if ref is e.ref and tuple(indices) == e.indices else expr.get(ref, *indices)
        return expr.bracket(guards, out) if guards else out

    def _may_wait(self, c: Cond | bool) -> bool:
        """Whether a condition on data may be known where the lifted statement is read."""
        return isinstance(c, Cond) and not c.free.isdisjoint(self.lifting)

    def _owed(self, ref: ir.Ref, indices: list[Index], known: Known, facts: Known) -> ir.Ref:
        """Discharge a read's obligations for these indices; return the array to read, checked if needed."""
        lead, owed = self.tracer.obligations(ref)
        if not owed:
            return ref
        checked = False
        s = Substitution(dict(zip(lead, indices)))
        for o in owed:
            o = o.substitute(s)
            if prove(o.condition, (*facts, *o.known)):
                continue
            if o.data and not self._may_wait(o.condition):
                checked = True
            elif isinstance(o.condition, Cond) and not o.condition.free.isdisjoint(self.guardable):
                self.obligations.append(Obligation(o.condition, _join(o.known, known), o.access, o.data))
            else:
                self.tracer.report(range_error(o.access))
        return self.tracer.with_checks(ref)[1] if checked else ref


def _reads_at(e: ir.Scalar, conds: list[Cond]) -> bool:
    """Whether an element is read at an index with data that the conditions mention."""
    data = {a for c in conds for a in c.index.data}
    return any(not data.isdisjoint(i.every_atom) for g in walk(e) if isinstance(g, ir.Get) for i in g.indices)


def _join(known: Known, more: tuple[Cond, ...] | list[Cond]) -> Known:
    fresh = [c for c in more if c not in known]
    return (*known, *fresh) if fresh else known


# Conditions that a test implies ---------------------------------------------------------------------------------

_COMPARISONS = {"greater_equal", "greater", "less_equal", "less", "equal", "not_equal"}


def conditions(test: ir.Scalar, truth: bool) -> list[Cond]:
    """Index conditions that hold where the bool scalar `test` is `truth`."""
    match test:
        case ir.Bracket(conds=conds, arg=arg):
            if truth:
                return [*conds, *conditions(arg, True)]
            if len(conds) == 1 and isinstance(arg, ir.Const) and arg.value:
                negated = conds[0].negate()
                return [negated] if isinstance(negated, Cond) else []
        case ir.Apply(primitive=p, args=args):
            if p.name == "logical_not":
                return conditions(args[0], not truth)
            if p.name == ("logical_and" if truth else "logical_or"):
                return [c for a in args for c in conditions(a, truth)]
            if p.name in _COMPARISONS and args[0].dtype.is_integer:
                c = compare(p.name, to_index(args[0]), to_index(args[1]))
                if isinstance(c, Cond):
                    c = c if truth else c.negate()
                return [c] if isinstance(c, Cond) else []
        case ir.Select(test=inner, then=then, otherwise=otherwise):
            if truth and isinstance(otherwise, ir.Zero | ir.Const) and not getattr(otherwise, "value", False):
                return [*conditions(inner, True), *conditions(then, True)]
            if not truth and isinstance(then, ir.Const) and then.value:
                return [*conditions(inner, False), *conditions(otherwise, False)]
        case _:
            pass
    return []


def compare(name: str, a: Index, b: Index) -> Cond | bool:
    """The condition equivalent to a comparison of two indices."""
    match name:
        case "greater_equal":
            return cond(">=", a - b)
        case "greater":
            return cond(">=", a - b - 1)
        case "less_equal":
            return cond(">=", b - a)
        case "less":
            return cond(">=", b - a - 1)
        case "equal":
            return cond("==", a - b)
        case _:
            return cond("!=", a - b)


def to_index(e: ir.Scalar) -> Index:
    """Convert an integer scalar to an index: its arithmetic to index arithmetic, its reads to data."""
    match e:
        case ir.Const():
            return as_index(int(e.value))
        case ir.FromIndex():
            return e.index
        case ir.Zero():
            return as_index(0)
        case ir.Cast() if e.arg.dtype.is_integer and e.dtype.bits >= e.arg.dtype.bits and e.dtype.kind == "signed":
            return to_index(e.arg)
        case ir.Add():
            total = as_index(0)
            for a in e.args:
                total = total + to_index(a)
            return total
        case ir.Mul():
            product = as_index(1)
            for a in e.args:
                product = product * to_index(a)
            return product
        case ir.Apply() if e.primitive.name in ("floor_divide", "remainder"):
            n, d = to_index(e.args[0]), to_index(e.args[1])
            if prove_nonnegative(d - 1):
                return floor_divide(n, d) if e.primitive.name == "floor_divide" else modulo(n, d)
        case ir.Get() if e.ref.bounds is not None:
            low, high = e.ref.bounds
            if low.constant == 0:
                return expr.data_index(e, high)
        case ir.Reduce() if e.op in POSITIONS:
            return expr.data_index(e, expr.places(e))
        case _:
            pass
    limit = _clipped(e)
    return expr.data_index(e, limit)


def from_end(e: ir.Scalar, extent: Index) -> Index:
    """Convert an element of an index array to an index; negative ones count from the end of the axis."""
    index = to_index(e)
    if e.dtype.kind == "unsigned" or prove_nonnegative(index) or _nonnegative(e):
        return index
    if prove_nonnegative(-index - 1):
        return extent + index
    place, end = expr.cast(e, types.i64), expr.from_index(extent, types.i64)
    negative = expr.apply("less", place, expr.const(0, types.i64))
    return expr.data_index(expr.select(negative, expr.add(place, end), place))


def _clipped(e: ir.Scalar) -> Index | None:
    """The size n in minimum(maximum(x, 0), n - 1), in either order."""
    if not (isinstance(e, ir.Apply) and e.primitive.name in ("minimum", "maximum")):
        return None
    high = _upper(e)
    return high + 1 if high is not None and _nonnegative(e) else None


def _upper(e: ir.Scalar) -> Index | None:
    match e:
        case ir.Apply(primitive=p, args=args) if p.name == "minimum":
            return next((b for b in map(_upper, args) if b is not None), None)
        case ir.Apply(primitive=p, args=args) if p.name == "maximum":
            highs = [_upper(a) for a in args]
            if highs[0] is not None and highs[1] is not None:
                for high, other in (highs, highs[::-1]):
                    if high is not None and other is not None and prove_nonnegative(high - other):
                        return high
            return None
        case ir.Const() | ir.FromIndex():
            index = to_index(e)
            return index if index.is_dim else None
        case _:
            return None


def _nonnegative(e: ir.Scalar) -> bool:
    match e:
        case ir.Apply(primitive=p, args=args) if p.name == "maximum":
            return any(map(_nonnegative, args))
        case ir.Apply(primitive=p, args=args) if p.name == "minimum":
            return all(map(_nonnegative, args))
        case ir.Const() | ir.FromIndex():
            return prove_nonnegative(to_index(e))
        case ir.Get() if e.ref.bounds is not None:
            return prove_nonnegative(e.ref.bounds[0])
        case _:
            return False


# Messages -------------------------------------------------------------------------------------------------------


def range_of(e: ir.Scalar) -> tuple[Index, Index] | None:
    """The known range [low, high) of an integer: a position, or an element of an array."""
    if isinstance(e, ir.Reduce) and e.op in POSITIONS:
        total = expr.places(e)
        return None if total.free else (ZERO_INDEX, total)
    return e.ref.bounds if isinstance(e, ir.Get) else None


def range_error(access: Access) -> PullbackError:
    """The error for an index that cannot be proven in range."""
    index, extent = access.indices[access.axis], access.ref.shape[access.axis]
    written = (index - extent).constant if not access.upper and not index.free else None  # a negative int
    indices = ", ".join(map(str, access.indices))
    text = ", ".join(str(i if written is None or k != access.axis else written) for k, i in enumerate(access.indices))
    reach = extreme(index, access.upper)
    name = access.ref.name
    if access.upper:
        found = f"reaches {reach}" if reach is not None else "is not known to stay below the size of the axis"
        bound = f"the last is {extent - 1}"
    elif written is not None:
        index, found = as_index(written), "counts from the end"
        bound = f"the first is {-extent}" if extent.constant is not None else f"{extent} may be below {-written}"
    else:
        found = f"goes down to {reach}" if reach is not None else "is not known to stay at or above 0"
        bound = "the first is 0"
    at_once = f"`{name}.at({indices}, fill=0)` reads 0 outside"
    remedy = f"{at_once}, or put the condition in `where`"
    if access.upper and len(index.free) == 1 and index.single in index.free:
        other = next(iter(index.free)).extent
        if extent.symbols and other.symbols and not set(extent.symbols) & set(other.symbols):
            remedy = f"one dim name for {extent} and {other} in the annotations, if they are equal; {at_once}"
    ranges = [f"0 <= {v.name} < {v.extent}" for v in sorted(index.free, key=lambda v: v.serial)]
    shape = ", ".join(map(str, access.ref.shape))
    return ShapeError(
        "E103",
        f"{name}[{text}]: index {index} of axis {access.axis} {found}, {bound}",
        position=access.position,
        facts=[f"{name} : {access.ref.dtype}[{shape}]", *ranges],
        remedy=remedy,
    )
