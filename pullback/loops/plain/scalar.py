"""Lowering of scalar expressions: common subexpressions, hoisting, guards, reductions.

An expression is lowered into a `Scope`, a list of statements inside some loops and guards. A subexpression moves to
the outermost scope in which its variables are bound and in which it may be evaluated. There it becomes a temporary.
It may leave a loop that runs at least once. It may leave a guard, or a loop that may be empty, only if every array
access in it is proven in range without the guard.

    sum k < K { [n + k >= 2] x[n + k - 2] * w[k] }
    -->  float sum = 0;  for (k = max(0, 2 - n); k < K; ++k) sum += x[n + k - 2] * w[k];

Conditions on reduction variables become loop bounds, see `bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.expr import POSITIONS, ReduceOp, read_by
from pullback.ir.index import (
    ONE_INDEX,
    ZERO_INDEX,
    Cond,
    Data,
    Index,
    Var,
    as_index,
    prove_nonnegative,
)
from pullback.ir.index import cond as make_cond
from pullback.ir.reduction import neutral
from pullback.ir.traverse import children, count_uses, indices_of, walk
from pullback.ir.types import DType, bool_, i64
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import flat_position
from pullback.loops.program.nodes import Assign, Break, Check, If, Let, LetIndex, Loop, Site
from pullback.loops.program.scope import Scope, replace_atoms
from pullback.loops.program.values import (
    OPERATORS,
    Binary,
    Buffer,
    Choice,
    Convert,
    Holds,
    IndexValue,
    Literal,
    Load,
    Read,
    Temp,
    Unary,
    Value,
    loaded_index,
    operands,
    scalar,
)
from pullback.loops.program.values import Apply as ApplyValue

TALL = 12  # parts nested deeper than this get a name


def added(total: Temp, op: ReduceOp, value: Value, beside: bool = True) -> Assign:
    """Add a term to a reduction; `beside` vectors a scalar is held, so its products round like theirs."""
    held = beside and total.type.lanes == 1 and op == "sum" and total.type.dtype.is_floating
    return Assign(total, Binary(OPERATORS[op], Read(total), value, total.type), held)


class ScalarLowering:
    """Lowers the expressions of one statement.

    Args:
        place: returns the parameter buffer that holds an array.
        site: describes the statement in range checks.
        roots: the expressions whose common parts get names.
        beside: whether vectors compute other elements of the statement; sums then round as theirs do.
    """

    def __init__(self, place: Callable[[ir.Ref], Buffer], site: Callable[[str, int | None], Site],
                 roots: Sequence[ir.Scalar] = (), beside: bool = False) -> None:
        self.place = place
        self.site = site
        self.beside = beside
        self.sums: Set[ir.Scalar] = frozenset()  # temporaries that hold sums: expressions of them are not moved
        self.uses = count_uses(roots)
        self._depths: dict[Value, int] = {}
        self._total: dict[tuple[ir.Scalar, tuple[Cond, ...]], bool] = {}
        self._index_values: dict[Index, Index] = {}

    # Values -----------------------------------------------------------------------------------------------------

    def value(self, e: ir.Scalar, scope: Scope) -> Value:
        """The value of `e` in `scope`; its parts are written there or further out."""
        if isinstance(e, ir.Const):
            return Literal(e.value, scalar(e.dtype))
        if isinstance(e, ir.Zero):
            return Literal(_nought(e.dtype), scalar(e.dtype))
        found = self._find(e, scope)
        if found is not None:
            return found
        target = self._target(e, scope)
        value = self._build(e, target)
        depth = self._depths[value] = 1 + max((self._depths.get(v, 1) for v in operands(value)), default=0)
        if target is not scope or self.uses.get(e, 0) > 1 or depth > TALL or self.always_named(value):
            value = named(value, hint(e), target)
        if isinstance(value, Read):
            target.temps[e] = value
        return value

    def always_named(self, value: Value) -> bool:
        """Whether even a small value gets a name."""
        return False

    def _find(self, e: ir.Scalar, scope: Scope) -> Value | None:
        s: Scope | None = scope
        while s is not None:
            if e in s.temps:
                return s.temps[e]
            if s.introduced and not s.introduced.isdisjoint(e.free):
                return None
            s = s.parent
        return None

    def _target(self, e: ir.Scalar, scope: Scope) -> Scope:
        """The outermost scope in which `e` may and should be evaluated."""
        if isinstance(e, ir.FromIndex) and e.dtype.is_integer:
            return scope
        best = s = scope
        shared = self.uses.get(e, 0) > 1
        while s.parent is not None and s.introduced.isdisjoint(e.free):
            summed = self.sums and any(n in self.sums and n in s.temps for n in walk(e))
            if summed or (not s.certain and not self.total(e, s.parent.known)):
                break
            left, s = s, s.parent
            if left.loop or shared or left.mask is not s.mask:
                best = s
        return best

    def _build(self, e: ir.Scalar, scope: Scope) -> Value:
        type_ = scalar(e.dtype)
        match e:
            case ir.FromIndex():
                return IndexValue(self.index(e.index, scope), type_)
            case ir.Get():
                return Load(self.place(e.ref), self.flat(e.ref, e.indices, scope), type_)
            case ir.Apply():
                return ApplyValue(e.primitive, tuple(self.value(a, scope) for a in e.args), type_)
            case ir.Cast():
                return Convert(self.value(e.arg, scope), type_)
            case ir.Add():
                return self._sum(e, scope)
            case ir.Mul():
                return self._product(e, scope)
            case ir.Bracket():
                conds = self.conditions(e.conds, scope)
                if isinstance(e.arg, ir.Const) and e.arg.value is True:
                    return Holds(conds)
                inner = scope.guard(conds)
                return self._choose(Holds(conds), inner, self.value(e.arg, inner), None, None, e, scope)
            case ir.Select():
                test = self.value(e.test, scope)
                then, otherwise = scope.guard(), scope.guard()
                a, b = self.value(e.then, then), self.value(e.otherwise, otherwise)
                return self._choose(test, then, a, otherwise, b, e, scope)
            case ir.Reduce():
                return self._reduce(e, scope)
            case _:
                raise AssertionError(f"not a scalar node: {type(e).__name__}")

    def _sum(self, e: ir.Add, scope: Scope) -> Value:
        """Terms from left to right; a factor -1 becomes a difference."""
        type_ = scalar(e.dtype)
        total = self.value(e.args[0], scope)
        for term in e.args[1:]:
            rest = negated(term)
            if rest is not None and self._find(term, scope) is None:
                total = Binary("-", total, self.value(rest, scope), type_)
            else:
                total = Binary("+", total, self.value(term, scope), type_)
        return total

    def _product(self, e: ir.Mul, scope: Scope) -> Value:
        type_ = scalar(e.dtype)
        rest = negated(e)
        if rest is not None:
            return Unary("-", self.value(rest, scope), type_)
        total = self.value(e.args[0], scope)
        for factor in e.args[1:]:
            total = Binary("*", total, self.value(factor, scope), type_)
        return total

    def _choose(self, test: Value, then: Scope, a: Value, otherwise: Scope | None, b: Value | None, e: ir.Scalar,
                scope: Scope) -> Value:
        """A conditional expression where both sides are expressions, else an if that sets a temporary."""
        type_ = scalar(e.dtype)
        nought = Literal(_nought(e.dtype), type_)
        if not then.statements and not (otherwise and otherwise.statements):
            return Choice(test, a, nought if b is None else b, type_)
        temp = Temp(hint(e), type_)
        scope.statements.append(Let(temp, nought, mutable=True))
        then.statements.append(Assign(temp, a))
        if otherwise is None or b is None:
            scope.statements.append(If(test, tuple(then.statements)))
        else:
            otherwise.statements.append(Assign(temp, b))
            scope.statements.append(If(test, tuple(then.statements), tuple(otherwise.statements)))
        return Read(temp)

    # Reductions -------------------------------------------------------------------------------------------------

    def _reduce(self, e: ir.Reduce, scope: Scope) -> Value:
        if e.op == "search":
            return self._search(e, scope)
        if e.op in POSITIONS:
            return self._reduce_position(e, scope)
        type_ = scalar(e.dtype)
        total = Temp(_REDUCED[e.op], type_)
        scope.statements.append(Let(total, Literal(neutral(e.op, e.dtype), type_), mutable=True))
        arg, conds = (
            (e.arg.arg, e.arg.conds) if e.op in ("sum", "any") and isinstance(e.arg, ir.Bracket) else (e.arg, ())
        )
        nest = LoopNest(self, scope, e.vars, conds)
        inner = nest.innermost
        value = self.value(arg, inner)
        inner.statements.append(added(total, e.op, value, self.beside))
        nest.close()
        return Read(total)

    def _search(self, e: ir.Reduce, scope: Scope) -> Value:
        """Count by bisection how often the test holds before it fails."""
        (v,) = e.vars
        type_ = scalar(i64)
        low, high = Temp("low", type_), Temp("high", type_)
        scope.statements.append(Let(low, Literal(0, type_), mutable=True))
        scope.statements.append(Let(high, IndexValue(v.extent, type_), mutable=True))
        inner = scope.inside(v, certain=False)
        both = Binary("+", Read(low), Read(high), type_)
        middle = LetIndex(v, Binary(">>", both, Literal(1, type_), type_))
        test = self.value(e.arg, inner)
        after = Assign(low, IndexValue(as_index(v) + 1, type_))
        before = Assign(high, IndexValue(as_index(v), type_))
        leave = If(Binary(">=", Read(low), Read(high), scalar(bool_)), (Break(),))
        scope.statements.append(Loop((leave, middle, *inner.statements, If(test, (after,), (before,)))))
        return Read(low)

    def _reduce_position(self, e: ir.Reduce, scope: Scope) -> Value:
        """Flat position of the first extreme, or of the first NaN."""
        type_ = scalar(e.arg.dtype)
        largest_wanted = e.op == "argmax"
        best = Temp("best", type_)
        where = Temp("position", scalar(i64))
        start = neutral("max" if largest_wanted else "min", e.arg.dtype)
        scope.statements.append(Let(best, Literal(start, type_), mutable=True))
        scope.statements.append(Let(where, Literal(0, scalar(i64)), mutable=True))
        nest = LoopNest(self, scope, e.vars, ())
        inner = nest.innermost
        value = self.value(e.arg, inner)
        if not isinstance(value, Read | Literal):
            temp = Temp("value", type_)
            inner.statements.append(Let(temp, value))
            value = Read(temp)
        truth = scalar(bool_)
        better: Value = Binary(">" if largest_wanted else "<", value, Read(best), truth)
        if e.arg.dtype.is_floating:  # NaN wins once
            unordered = Binary("!=", value, value, truth)
            ordered = Binary("==", Read(best), Read(best), truth)
            better = Binary("||", better, Binary("&&", unordered, ordered, truth), truth)
        found = IndexValue(flat_position(e.vars), scalar(i64))
        inner.statements.append(If(better, (Assign(best, value), Assign(where, found))))
        nest.close()
        return Read(where)

    # Indices ----------------------------------------------------------------------------------------------------

    def flat(self, ref: ir.Ref, indices: Sequence[Index], scope: Scope) -> Index:
        """The row-major position of an element; checked data-dependent indices are tested on the way."""
        out = ZERO_INDEX
        for axis, (i, extent) in enumerate(zip(indices, ref.shape, strict=True)):
            out = out * extent + self.index(i, scope, (ref.name, axis))
        return out

    def index(self, i: Index, scope: Scope, what: tuple[str, int] | None = None) -> Index:
        """The index with data-dependent atoms loaded into variables."""
        known = self._index_values.get(i)
        if known is not None:
            return known
        data = list(i.data)
        if not data:
            self._index_values[i] = i
            return i
        return replace_atoms(i, {a: as_index(self._data(a, scope, what)) for a in data})

    def _data(self, atom: Data, scope: Scope, what: tuple[str, int] | None) -> Data:
        """The atom of a data-dependent index once it is loaded."""
        s: Scope | None = scope
        while s is not None:
            if atom in s.data:
                return s.data[atom]
            if not s.introduced.isdisjoint(atom.free):
                break
            s = s.parent
        target = scope
        while target.parent is not None and target.introduced.isdisjoint(atom.free):
            if not target.certain and (atom.checked or not self.total(read_by(atom), target.parent.known)):
                break
            target = target.parent
        value = self.value(read_by(atom), target)
        extent = None if atom.extent is None else self.index(atom.extent, target)
        loaded = loaded_index(_index_name(read_by(atom)), extent)
        target.statements.append(LetIndex(loaded, value))
        if atom.checked and extent is not None:
            array, axis = what or ("index", None)
            site = replace(self.site(array, axis), ends=expr.is_demand(atom))
            target.statements.append(Check(as_index(loaded), extent, site))
        target.data[atom] = loaded
        return loaded

    def conditions(self, conds: Iterable[Cond], scope: Scope) -> tuple[Cond, ...]:
        """Conditions with data-dependent atoms loaded."""
        out = []
        for c in conds:
            index = self.index(c.index, scope)
            new = c if index is c.index else make_cond(c.op, index)
            if isinstance(new, Cond):
                out.append(new)
            elif not new:
                out.append(_never())
        return tuple(out)

    def total(self, e: ir.Scalar, known: tuple[Cond, ...]) -> bool:
        """Whether `e` may be evaluated wherever `known` holds: every access in range, no run-time check."""
        key = (e, known)
        out = self._total.get(key)
        if out is None:
            out = self._total[key] = self._is_total(e, known)
        return out

    def _is_total(self, e: ir.Scalar, known: tuple[Cond, ...]) -> bool:
        if not e.refs:
            return True
        for i in indices_of(e):
            for a in i.every_atom:
                if isinstance(a, Data) and (a.checked or not self.total(read_by(a), known)):
                    return False
        if isinstance(e, ir.Get):
            return all(prove_nonnegative(i, known) and prove_nonnegative(extent - i - 1, known)
                       for i, extent in zip(e.indices, e.ref.shape, strict=True))
        if isinstance(e, ir.Bracket):
            return self.total(e.arg, (*known, *e.conds))
        return all(self.total(c, known) for c in children(e))


def named(value: Value, name: str, scope: Scope) -> Value:
    """The value as a temporary, unless it is already a temporary or a number."""
    if isinstance(value, Read | Literal):
        return value
    temp = Temp(name, value.type)
    scope.statements.append(Let(temp, value))
    return Read(temp)


def _never() -> Cond:
    """A condition that fails."""
    from pullback.ir.intern import intern

    return intern(Cond, ">=", -ONE_INDEX)


def negated(e: ir.Scalar) -> ir.Scalar | None:
    """Return x if `e` is -1 * x."""
    if isinstance(e, ir.Mul) and isinstance(e.args[0], ir.Const) and e.args[0].value == -1 and not e.dtype.is_bool:
        return expr.mul(*e.args[1:]) if len(e.args) > 2 else e.args[1]
    return None


def _nought(dtype: DType) -> bool | int | float:
    return False if dtype.is_bool else 0.0 if dtype.is_floating else 0


_REDUCED = {"sum": "sum", "prod": "product", "max": "largest", "min": "smallest", "any": "any", "all": "all"}


def hint(e: ir.Scalar) -> str:
    """A name for a temporary that holds `e`."""
    match e:
        case ir.Get():
            return e.ref.name
        case ir.Apply():
            return {"divide": "quotient"}.get(e.primitive.name, e.primitive.name)
        case ir.Add():
            return "sum"
        case ir.Mul():
            return "product"
        case ir.Cast() | ir.Bracket():
            return hint(e.arg)
        case ir.Select():
            return "chosen"
        case ir.Reduce():
            return _REDUCED.get(e.op, "position")
        case ir.FromIndex():
            return "index"
        case ir.Const() | ir.Zero():
            return "number"
        case _:
            return "value"


def _index_name(e: ir.Scalar) -> str:
    while isinstance(e, ir.Cast):
        e = e.arg
    return f"{e.ref.name}_at" if isinstance(e, ir.Get) else "at"


def reads_only_elementwise(e: ir.Scalar, ref: ir.Ref, variables: Sequence[Var]) -> bool:
    """Whether `ref` is read in `e` only as ref[variables]."""
    here = tuple(ZERO_INDEX if v.extent is ONE_INDEX else as_index(v) for v in variables)
    return all(node.indices == here for node in walk(e) if isinstance(node, ir.Get) and node.ref is ref)
