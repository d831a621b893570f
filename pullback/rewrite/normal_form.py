"""Normal form: one reduction per statement, at its top; transcendentals in separate statements.

Before    y = build i < N { exp(sum j < M { x[i, j] }) * sum j < M { tanh(x[i, j]) } }
After     s = build i < N { sum j < M { x[i, j] } }          e = build i < N { exp(s[i]) }
          t = build i < N, j < M { tanh(x[i, j]) }           u = build i < N { sum j < M { t[i, j] } }
          y = build i < N { e[i] * u[i] }

Derivatives are taken on this form: otherwise an adjoint recomputes the inner sum for every element it touches. A lifted
part keeps the guards (brackets, selects) on its path. So it is evaluated only where it was before, and a derivative
through it knows where it was not. Fusion joins the parts again later.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Final
from weakref import WeakSet

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.expr import POSITIONS
from pullback.ir.index import Cond, Data, Index, Var, as_index
from pullback.ir.program import map_blocks, with_fields
from pullback.ir.traverse import Substitution, walk
from pullback.rewrite.cse import canonical_value
from pullback.rewrite.fired import fired, step
from pullback.rewrite.reductions import reduce_loops
from pullback.rewrite.steps import Separated
from pullback.source import Position
from pullback.state import registered


def normalize(program: ir.Program) -> ir.Program:
    """The program with every statement in normal form; loops that are reductions are statements."""
    program = reduce_loops(program)
    return program.with_body(_block(program.body, program.settings.exact))


_NORMAL: Final[dict[bool, WeakSet[ir.Build]]] = {
    exact: registered(WeakSet(), "living statements") for exact in (True, False)
}  # already in normal form


def _block(block: ir.Block, exact: bool) -> ir.Block:
    statements: list[ir.Statement] = []
    for s in block.statements:
        match s:
            case ir.Build() if s in _NORMAL[exact]:
                statements.append(s)
            case ir.Build():
                lift = _Lift(s.vars, s.outs[0].name, s.positions, exact)
                values = tuple(lift.top(v) for v in s.values)
                into = [*lift.statements, with_fields(s, values=values)]
                statements += into
                if into[0] is s:
                    _NORMAL[exact].add(s)
                if lift.statements:
                    step(lambda s=s, into=into: Separated(s, tuple(into)))  # type: ignore[misc]
            case ir.Scatter():
                lift = _Lift(s.vars, s.out.name, s.positions, exact)
                value = lift.inner(s.value, ())
                indices = tuple(lift.index(i, ()) for i in s.indices)
                statements += [*lift.statements, with_fields(s, value=value, indices=indices)]
            case ir.Sort():
                lift = _Lift(s.vars, s.out.name, s.positions, exact)
                value = lift.inner(s.value, ())
                statements += [*lift.statements, with_fields(s, value=value)]
            case _:
                statements.append(map_blocks(s, partial(_block, exact=exact)))
    return with_fields(block, statements=tuple(statements))


Guard = Cond | ir.Scalar  # a condition on indices, or a bool scalar that must be true


class _Lift:
    """The parts lifted out of one statement for normal form. `path` is the guards around an expression.

    A lifted part is brought to normal form by a `_Lift` of its own. All share the lifted arrays by content (`shared`),
    so a repeated part is lifted once.
    """

    def __init__(
        self,
        variables: tuple[Var, ...],
        name: str,
        positions: tuple[Position, ...],
        exact: bool,
        shared: dict[Hashable, ir.Ref] | None = None,
    ) -> None:
        self.order = list(variables)
        self.name = name
        self.positions = positions
        self.exact = exact
        self.statements: list[ir.Statement] = []
        self.shared: dict[Hashable, ir.Ref] = {} if shared is None else shared
        self._arguments: set[ir.Scalar] = set()
        self._done: dict[tuple[ir.Scalar, tuple[Guard, ...]], ir.Scalar] = {}

    def top(self, e: ir.Scalar) -> ir.Scalar:
        """The value of a statement: a reduction or transcendental at its top, inside its guards, stays.

        Guards around a reduction move into its argument, as zeros for every operation.
        """
        for n in walk(e, into_indices=False):
            if isinstance(n, ir.Apply) and n.primitive.transcendental:
                self._arguments.update(a for a in n.args if not _is_element(a))
        guards, core = peel_guards(e)
        if isinstance(core, ir.Reduce):
            self.order += core.vars
            out = expr.reduce(core.op, core.vars, self.inner(under_guards(core.arg, guards), ()))
            del self.order[-len(core.vars) :]
            return out
        if isinstance(core, ir.Apply) and core.primitive.transcendental:
            kept = [g if isinstance(g, Cond) else self.inner(g, ()) for g in guards]
            return under_guards(expr.apply(core.primitive, *[self.argument(a, tuple(kept)) for a in core.args]), kept)
        return self.inner(e, ())

    def argument(self, e: ir.Scalar, path: tuple[Guard, ...]) -> ir.Scalar:
        """An operand of a transcendental: an element or a number, so that its cotangent is computed once.

        Without this, the derivative of tanh(a + b) would carry the factor 1 - tanh^2 into both a's and b's sums.
        """
        return self.inner(e, path) if _is_element(e) else self.lift(e, path, "in")

    def inner(self, e: ir.Scalar, path: tuple[Guard, ...]) -> ir.Scalar:
        """An expression below the top: reductions and transcendentals become elements of new arrays."""
        key = (e, path)
        out = self._done.get(key)
        if out is None:
            lifted = e in self._arguments and not _is_lifted(e)  # it is already an array, or will become one
            out = self._done[key] = self.lift(e, path, "in") if lifted else self._inner(e, path)
        return out

    def _inner(self, e: ir.Scalar, path: tuple[Guard, ...]) -> ir.Scalar:
        match e:
            case ir.Const() | ir.Zero():
                return e
            case ir.FromIndex():
                return expr.from_index(self.index(e.index, path), e.dtype)
            case ir.Get():
                return expr.get(e.ref, *[self.index(i, path) for i in e.indices])
            case ir.Apply():
                if e.primitive.transcendental and (e.free or e.refs):
                    return self.lift(e, path, e.primitive.name)
                return expr.apply(e.primitive, *[self.inner(a, path) for a in e.args])
            case ir.Cast():
                return expr.cast(self.inner(e.arg, path), e.dtype)
            case ir.Add():
                part = self._part(e)
                if part is None:
                    return expr.add(*[self.inner(a, path) for a in e.args])
                rest = [a for a in e.args if a not in part.args]
                return expr.add(self.inner(part, path), *[self.inner(a, path) for a in rest])
            case ir.Mul():
                return expr.mul(*[self.inner(a, path) for a in e.args])
            case ir.Bracket():
                return expr.bracket(e.conds, self.inner(e.arg, (*path, *e.conds)))
            case ir.Select():
                test = self.inner(e.test, path)
                then = self.inner(e.then, (*path, test))
                if isinstance(e.otherwise, ir.Zero):
                    return expr.select(test, then, e.otherwise)
                refused = expr.apply("logical_not", test)
                return expr.select(test, then, self.inner(e.otherwise, (*path, refused)))
            case ir.Reduce():
                return self.lift(e, path, e.op)
            case _:
                raise AssertionError(f"not a scalar node: {type(e).__name__}")

    def _part(self, e: ir.Add) -> ir.Add | None:
        """The longest sum among transcendentals' operands whose terms are all terms of e, flattened into e.

        Computing it once changes the order of addition, unless these are the first terms of e.
        """
        own = set(e.args)
        sums = [a for a in self._arguments if isinstance(a, ir.Add) and a is not e and own.issuperset(a.args)]
        if self.exact:
            sums = [a for a in sums if a.args == e.args[: len(a.args)]]
        return max(sums, key=lambda a: len(a.args), default=None)

    def index(self, e: Index, path: tuple[Guard, ...]) -> Index:
        """An index whose data-dependent atoms read arrays only."""
        atoms = {a: None for a in e.data if not isinstance(expr.read_by(a), ir.Get)}
        if not atoms:
            return e
        out = e
        for a in atoms:
            scalar = expr.read_by(a)
            if any(isinstance(n, ir.Reduce) for n in walk(scalar)):
                out = _replace_data(out, a, expr.data_index(self.inner(scalar, path), a.extent, a.checked))
        return out

    def lift(self, e: ir.Scalar, path: tuple[Guard, ...], suffix: str) -> ir.Scalar:
        """Emit a statement for e over its variables; return the element that replaces it."""
        fired("normal_form." + suffix)
        guards, free = _guards_about(e, path)
        variables = [v for v in self.order if v in free]
        fresh = [Var(v.name, v.extent) for v in variables]
        rename = Substitution(variables={v: as_index(w) for v, w in zip(variables, fresh, strict=True)})
        guarded = under_guards(e, guards)
        key = (tuple(v.extent for v in variables), canonical_value(tuple(variables), guarded))
        if key in self.shared:
            return expr.get(self.shared[key], *variables)
        lift = _Lift(tuple(fresh), self.name, self.positions, self.exact, self.shared)
        value = lift.top(rename.scalar(guarded))
        self.statements += lift.statements
        bounds = None
        if isinstance(e, ir.Reduce) and e.op in POSITIONS:
            bounds = (as_index(0), expr.places(e))
        ref = ir.Ref(f"{self.name}_{suffix}", e.dtype, [v.extent for v in fresh], bounds)
        self.statements.append(ir.Build((ref,), tuple(fresh), (value,), self.positions))
        self.shared[key] = ref
        return expr.get(ref, *variables)


def _guards_about(e: ir.Scalar, path: Sequence[Guard]) -> tuple[list[Guard], frozenset[Var]]:
    """The guards that share an index with e, directly or through other guards, and their free variables.

    One guard may keep another one's reads in range. So a guard comes with all guards on its own indices.
    """
    free = e.free
    while True:
        guards = [g for g in path if not g.free or g.free & free]
        wider = free.union(*(g.free for g in guards))
        if wider == free:
            return guards, free
        free = wider


def _is_element(e: ir.Scalar) -> bool:
    """Whether an operand of a transcendental stays in place."""
    return isinstance(e, ir.Get | ir.Const) or not e.refs


def _is_lifted(e: ir.Scalar) -> bool:
    """Whether an expression becomes an array by its own kind."""
    return isinstance(e, ir.Reduce) or (isinstance(e, ir.Apply) and e.primitive.transcendental)


def peel_guards(e: ir.Scalar) -> tuple[list[Guard], ir.Scalar]:
    """The guards around an expression, outermost first, and the guarded expression."""
    guards: list[Guard] = []
    while True:
        if isinstance(e, ir.Bracket):
            guards += e.conds
            e = e.arg
        elif isinstance(e, ir.Select) and isinstance(e.otherwise, ir.Zero):
            guards.append(e.test)
            e = e.then
        else:
            return guards, e


def under_guards(e: ir.Scalar, guards: Sequence[Guard]) -> ir.Scalar:
    """The expression under guards, index conditions outermost."""
    conds = [g for g in guards if isinstance(g, Cond)]
    out = e
    for g in reversed(guards):
        if isinstance(g, ir.Scalar):
            out = expr.select(g, out, expr.zero(e.dtype))
    return expr.bracket(conds, out) if conds else out


def guarded_sum(terms: Sequence[ir.Scalar]) -> ir.Scalar:
    """The sum of terms under their common guards, and under the disjunction of their data tests.

        [c] (t ? x : {}) + [c] (u ? y : {})  -->  [c] (t or u ? (t ? x : {}) + (u ? y : {}) : {})

    So a factor of the sum is evaluated only where one of the terms would have evaluated it.
    """
    if len(terms) == 1:
        return terms[0]
    peeled = [peel_guards(t) for t in terms]
    common = [g for g in peeled[0][0] if all(g in guards for guards, _ in peeled)]
    rests = [([g for g in guards if g not in common], core) for guards, core in peeled]
    total = expr.add(*(under_guards(core, guards) for guards, core in rests))
    if all(any(isinstance(g, ir.Scalar) for g in guards) for guards, _ in rests):  # of indices alone, they are deltas
        total = expr.select(any_of([all_of(guards) for guards, _ in rests]), total, expr.zero(total.dtype))
    return under_guards(total, common)


def all_of(guards: Sequence[Guard]) -> ir.Scalar:
    """The conjunction of guards as a bool scalar, evaluated outermost first."""
    *outer, last = sorted(guards, key=lambda g: isinstance(g, ir.Scalar))  # index conditions are outermost
    return under_guards(expr.test((last,)) if isinstance(last, Cond) else last, outer)


def any_of(tests: Sequence[ir.Scalar]) -> ir.Scalar:
    """The disjunction of bool scalars."""
    first, *rest = dict.fromkeys(tests)
    for t in rest:
        first = expr.apply("logical_or", first, t)
    return first


def _replace_data(index: Index, atom: Data, by: Index) -> Index:
    factor = index.coefficient(atom)
    return index if factor is None else index - factor * as_index(atom) + factor * by
