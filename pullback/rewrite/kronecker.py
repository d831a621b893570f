"""Kronecker deltas: inlined into their readers and summed away.

Before    e = build k < N, i < N { [k == i] 1.0 }     t = build k < N, i < M { sum j < N { w[i, j] * e[k, j] } }
After     t = build k < N, i < M { w[i, k] }

The identity that a Jacobian starts from never exists as an array, and neither does a sparse derivative further on
(DeepDSL's rules 20 to 23, with ranges kept). If the factor of a delta takes more than a few operations, it becomes an
array over the free indices, and the delta stays. So a chain of diagonal or banded Jacobians costs only its non-zeros.
Statements are visited once, in order. Deltas that fill their array, such as a small matrix written out, stay in place:
otherwise each element read would carry the formulas of all elements.

A scatter turns deltas into a sum of deltas, sum over o of [i == data(a[o])] [k == data(b[o])] w(o). Reading its
elements one by one would cost a sum each. So such terms are carried on only for a caller that wants the terms
themselves (`ad.sparse`).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Index, Mod, Var, as_index, cond
from pullback.ir.program import map_blocks, map_scalars, with_fields
from pullback.ir.traverse import Substitution, walk
from pullback.ir.walks import each_scalar
from pullback.records import dataclass, replace
from pullback.rewrite.brackets import solve
from pullback.rewrite.fired import fired
from pullback.rewrite.normal_form import peel_guards, under_guards

SMALL = 24  # most nodes of a delta's factor that a result keeps unchanged
FEW = 2  # most operations of a delta's factor that is copied into each reader
FULL = 3  # most terms of a sum of deltas that fills its array and is carried on
MANY = 16  # most terms of a sum of deltas that is carried on
RESIDUES = 16  # largest divisor for which a condition on a remainder stays a condition
SOLVED = ("sum", "any")  # reductions that zero terms do not change
MANY_SUMS = 256  # the same limit if the terms themselves are wanted


def eliminate_deltas(program: ir.Program, sums: bool = False) -> ir.Program:
    """The program with deltas inlined and summed away.

    Args:
        program: any program.
        sums: carry on sums of deltas too, and turn scatters of deltas into them.
    """
    return program.with_body(_Eliminator(sums).block(program.body, {}))


def simplify(e: ir.Scalar) -> ir.Scalar:
    """Solve deltas in the sums of `e` for the summed variables."""
    return _Eliminator(False).simplify(e)


def solve_deltas(program: ir.Program) -> ir.Program:
    """Solve the deltas that users wrote into sums; arrays do not change.

    Before    y = build k < K { sum i < N { [i == data(j[k])] exp(x[i]) } }
    After     y = build k < K { [0 <= data(j[k]) < N] exp(x[data(j[k])]) }
    """
    exact = program.settings.exact

    def solved(e: ir.Scalar) -> ir.Scalar:
        if not any(_has_delta(n, exact) for n in walk(e, into_indices=False)):
            return e
        return _Eliminator(False, exact).simplify(e)

    return each_scalar(program, solved)


def _has_delta(e: ir.Scalar, exact: bool) -> bool:
    """Whether a reduction has a delta over a variable; under `exact`, one without other terms."""
    if not isinstance(e, ir.Reduce) or e.op not in SOLVED:
        return False
    terms = e.arg.args if isinstance(e.arg, ir.Add) and not exact else (e.arg,)
    return any(isinstance(t, ir.Bracket) and any(_concerns(e.vars, c) for c in _conditions(t)[0]) for t in terms)


@dataclass(frozen=True)
class Delta:
    """A term  sum over `summed` of [conditions] factor,  an equation among the conditions."""

    summed: tuple[Var, ...]
    conditions: tuple[Cond, ...]
    factor: ir.Scalar

    @property
    def scalar(self) -> ir.Scalar:
        """The term as an expression."""
        return expr.reduce("sum", self.summed, expr.bracket(self.conditions, self.factor))


def delta_terms(value: ir.Scalar) -> list[Delta] | None:
    """The terms of a sum of deltas; None for any other value."""
    if isinstance(value, ir.Zero):
        return []
    out = []
    for t in value.args if isinstance(value, ir.Add) else (value,):
        summed, inner = (t.vars, t.arg) if isinstance(t, ir.Reduce) and t.op == "sum" else ((), t)
        guards, core = peel_guards(inner)
        conds = tuple(g for g in guards if isinstance(g, Cond))
        if not any(c.op == "==" for c in conds):
            return None
        out.append(Delta(summed, conds, under_guards(core, [g for g in guards if isinstance(g, ir.Scalar)])))
    return out


class _Eliminator:
    """The eliminator of deltas; `sums` also handles sums of deltas, `exact` keeps the order of terms."""

    def __init__(self, sums: bool, exact: bool = False) -> None:
        self.sums = sums
        self.exact = exact
        self.many = MANY_SUMS if sums else MANY
        self._simple: dict[ir.Scalar, ir.Scalar] = {}

    def terms(self, e: ir.Scalar) -> list[Delta] | None:
        """The deltas whose sum an expression is; None if it is no such sum."""
        found = delta_terms(e)
        return found if self.sums or not any(t.summed for t in found or ()) else None

    def block(self, block: ir.Block, known: dict[ir.Ref, ir.Build]) -> ir.Block:
        """The block's statements, with deltas inlined into their readers."""
        deltas = dict(known)

        def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
            s = deltas.get(ref)
            if s is None:
                return expr.get(ref, *indices)
            fired("kronecker.inline")
            return Substitution(variables=dict(zip(s.vars, indices, strict=True))).scalar(s.values[0])

        def inlined(e: ir.Scalar) -> ir.Scalar:
            return e if deltas.keys().isdisjoint(e.refs) else Substitution(get=element).scalar(e)

        out: list[ir.Statement] = []
        for s in block.statements:
            match s:
                case ir.Build():
                    s = with_fields(s, values=tuple(self.simplify(inlined(v)) for v in s.values))
                    terms = self.terms(s.values[0]) if len(s.outs) == 1 else None
                    if terms is not None and len(terms) <= self.many and (self.sums or not _is_full(s, terms)):
                        s = deltas[s.outs[0]] = _carried(s, terms, out, s.outs[0] in block.results)
                case ir.Scatter():
                    value = inlined(s.value)
                    s = with_fields(s, value=self.simplify(value))
                    gathered = self._gathered(s) if self.sums else None
                    guards, _ = peel_guards(value)  # the indices are in range there
                    s = with_fields(s, value=under_guards(s.value, guards))
                    terms = None if gathered is None else self.terms(gathered.values[0])
                    if gathered is not None and terms is not None and len(terms) <= self.many:
                        deltas[s.out] = _carried(gathered, terms, out, False)
                case ir.Sort():
                    s = map_scalars(s, inlined)
                case _:
                    s = map_blocks(s, partial(self.block, known=deltas))
            out.append(s)
        return with_fields(block, statements=tuple(out))

    def _gathered(self, s: ir.Scatter) -> ir.Build | None:
        """Turn a scatter of a sum of deltas into out[m..] = sum of [m == index] value."""
        terms = self.terms(s.value)
        if terms is None:
            return None
        own = tuple(Var(f"m{k}", d) for k, d in enumerate(s.out.shape))
        equal = [cond("==", as_index(m) - i) for m, i in zip(own, s.indices, strict=True)]
        found = (self._sum(s.vars, _under(t, lambda x: expr.bracket(equal, x))) for t in terms)
        return ir.Build((s.out,), own, (self._merged(expr.add(expr.zero(s.out.dtype), *found)),), s.positions)

    def simplify(self, e: ir.Scalar) -> ir.Scalar:
        """Solve deltas in the sums of `e` for the summed variables; shared parts are visited once."""
        out = self._simple.get(e)
        if out is None:
            out = self._simple[e] = self._simplified(e)
        return out

    def _simplified(self, e: ir.Scalar) -> ir.Scalar:
        match e:
            case ir.Reduce():
                arg = self.simplify(e.arg)
                return self._sum(e.vars, arg) if e.op == "sum" else self._solved(e.op, e.vars, arg)
            case ir.Add():
                return self._merged(expr.add(*(self.simplify(a) for a in e.args)))
            case ir.Mul():
                out = expr.mul(*(self.simplify(a) for a in e.args))
                return self._merged(self._multiplied_out(out) or out)
            case ir.Bracket():
                return self._each(self.simplify(e.arg), lambda t: expr.bracket(e.conds, t))
            case ir.Select():
                return self._select(e.test, self.simplify(e.then), self.simplify(e.otherwise))
            case ir.Apply():
                return expr.apply(e.primitive, *(self.simplify(a) for a in e.args))
            case ir.Cast():
                return self._each(self.simplify(e.arg), lambda t: expr.cast(t, e.dtype))
            case _:
                return e

    def _each(self, e: ir.Scalar, f: Callable[[ir.Scalar], ir.Scalar]) -> ir.Scalar:
        """Apply a linear function to each delta's factor; to other values directly."""
        terms = self.terms(e) if isinstance(e, ir.Add | ir.Reduce) else None
        if not terms:
            return f(e)
        return self._merged(expr.add(*(_under(t, f) for t in terms)))

    def _select(self, test: ir.Scalar, then: ir.Scalar, otherwise: ir.Scalar) -> ir.Scalar:
        """A choice between sums of deltas, as a sum of deltas with choices as factors."""
        if any(self.terms(x) is None for x in (then, otherwise)):
            return expr.select(test, then, otherwise)
        terms = []
        for guard, side in ((test, then), (expr.apply("logical_not", test), otherwise)):
            for t in self.terms(side) or ():
                factor = expr.select(guard, t.factor, expr.zero(t.factor.dtype))
                terms.append(replace(t, factor=factor).scalar)
        return self._merged(expr.add(expr.zero(then.dtype), *terms))

    def _merged(self, e: ir.Scalar) -> ir.Scalar:
        """Merge deltas with equal conditions: [c] a + [c] b = [c] (a + b)."""
        terms = self.terms(e) if isinstance(e, ir.Add) else None
        if not terms:
            return e
        by_condition: dict[tuple[Any, ...], list[Delta]] = {}
        spaces: dict[tuple[Index, ...], tuple[Var, ...]] = {}
        for t in terms:
            if t.summed:  # sums over equal extents are written over the same variables
                same = spaces.setdefault(tuple(v.extent for v in t.summed), t.summed)
                t = _over(t, same)
            by_condition.setdefault((t.summed, t.conditions), []).append(t)
        if len(by_condition) == len(terms):
            return e
        fired("kronecker.merge")
        return expr.add(*(replace(g[0], factor=expr.add(*(t.factor for t in g))).scalar for g in by_condition.values()))

    def _sum(self, variables: tuple[Var, ...], arg: ir.Scalar) -> ir.Scalar:
        """The sum of arg over the variables, term by term if a term has a delta over one."""
        if not self.exact and isinstance(arg, ir.Add) and any(self._solvable(variables, t) for t in arg.args):
            fired("kronecker.distribute")
            return expr.add(*(self._sum(variables, t) for t in arg.args))
        factored = self._distributed(variables, arg)
        if factored is not None:
            return self._sum(variables, factored)
        if isinstance(arg, ir.Reduce) and arg.op == "sum":
            variables, arg = (*variables, *arg.vars), arg.arg
        return self._solved("sum", variables, arg)

    def _solved(self, op: expr.ReduceOp, variables: tuple[Var, ...], arg: ir.Scalar) -> ir.Scalar:
        """The reduction over the variables, solved if its argument is a delta over one.

        Elsewhere the argument is zero or false, which adds nothing to a sum and does not make an `any` true.
        """
        if op not in SOLVED or not isinstance(arg, ir.Bracket) or not self._solvable(variables, arg):
            return expr.reduce(op, variables, arg)
        conds, term = _conditions(arg)
        equations = [c.index for c in conds if _concerns(variables, c)]
        rest = [c for c in conds if not _concerns(variables, c)]
        solution = solve(variables, equations, expr.bracket(rest, term))
        assert solution is not None  # no data in these equations depend on the variables
        fired("kronecker.sum")
        return expr.reduce(op, solution.variables, solution.term)

    def _distributed(self, variables: tuple[Var, ...], arg: ir.Scalar) -> ir.Scalar | None:
        """Multiply out a product with a sum of deltas over one of the variables."""
        out = self._multiplied_out(arg)
        if out is None:
            return None
        terms = out.args if isinstance(out, ir.Add) else (out,)
        return out if any(self._solvable(variables, t) for t in terms) else None

    def _multiplied_out(self, e: ir.Scalar) -> ir.Scalar | None:
        """Expand `w * (a * [i == j] + b * [i == k])` into a sum of deltas; None without such a factor."""
        if not isinstance(e, ir.Mul) or self.exact:
            return None
        for k, f in enumerate(e.args):
            if isinstance(f, ir.Add | ir.Reduce) and self.terms(f):
                fired("kronecker.multiply_out")
                others = (*e.args[:k], *e.args[k + 1 :])
                return self._each(f, lambda t: expr.mul(t, *others))
        return None

    def _solvable(self, variables: tuple[Var, ...], e: ir.Scalar) -> bool:
        inner = e.arg if isinstance(e, ir.Reduce) and e.op == "sum" else e
        return isinstance(inner, ir.Bracket) and any(_concerns(variables, c) for c in _conditions(inner)[0])


def _is_full(s: ir.Build, terms: list[Delta]) -> bool:
    """Whether the terms fill the array, as in a small matrix written out: it is read, not copied."""
    if len(terms) <= FULL:
        return False
    filled = Fraction(0)
    for t in terms:
        part = Fraction(1)
        for c in t.conditions:
            extents = [v.extent.constant for v in s.vars if v in c.free]
            if c.op == "==" and extents:
                part *= 0 if None in extents else Fraction(1, max(1, *(n or 1 for n in extents)))
        filled += part
    return filled >= 1


def _carried(s: ir.Build, terms: list[Delta], out: list[ir.Statement], last: bool) -> ir.Build:
    """The sum of deltas for its readers: costly factors become arrays."""
    kept = (t.scalar if _is_small(t.factor, last) else _compressed(t, s, out) for t in terms)
    return replace(s, values=(expr.add(expr.zero(s.outs[0].dtype), *kept),))


def _is_small(factor: ir.Scalar, last: bool) -> bool:
    """Whether a factor stays in its term, to be recomputed by each reader."""
    nodes = list(walk(factor))
    operations = sum(map(_operations, nodes))
    return len(nodes) <= SMALL and (last or operations <= FEW) and not any(isinstance(n, ir.Reduce) for n in nodes)


def _operations(e: ir.Scalar) -> int:
    """The operations of the node alone; a sign costs none."""
    match e:
        case ir.Add() | ir.Mul():
            return len(e.args) - 1 - any(isinstance(a, ir.Const) and a.value == -1 for a in e.args)
        case _:
            return isinstance(e, ir.Apply | ir.Select)


def _compressed(term: Delta, s: ir.Build, out: list[ir.Statement]) -> ir.Scalar:
    """The term with its factor as an array over the variables that the delta leaves free."""
    if isinstance(term.factor, ir.Select) and any(expr.tests_places(c.index) for c in term.conditions):
        return term.scalar  # places are tested under the guards of the factor
    equations = [c.index for c in term.conditions if c.op == "=="]
    rest = [c for c in term.conditions if c.op != "=="]
    variables = (*s.vars, *term.summed)
    unknown = tuple(v for v in s.vars if any(v in e.free for e in equations))
    solution = solve(unknown, equations, expr.bracket(rest, term.factor))
    if solution is None or solution.term.free >= set(variables) or not set(solution.variables) <= set(variables):
        return term.scalar
    fired("kronecker.compress")
    kept = [v for v in variables if v in solution.term.free]
    fresh = tuple(Var(v.name, v.extent) for v in kept)
    rename = Substitution(variables={v: as_index(w) for v, w in zip(kept, fresh, strict=True)})
    ref = ir.Ref(f"{s.outs[0].name}_values", term.factor.dtype, [v.extent for v in fresh])
    out.append(ir.Build((ref,), fresh, (rename.scalar(solution.term),), s.positions))
    return replace(term, factor=expr.get(ref, *kept)).scalar


def _under(t: Delta, f: Callable[[ir.Scalar], ir.Scalar]) -> ir.Scalar:
    """The term with f taken inside its sum, whose variables are renamed against capture."""
    fresh = tuple(Var(v.name, v.extent) for v in t.summed)
    rename = Substitution(variables={v: as_index(w) for v, w in zip(t.summed, fresh, strict=True)})
    return expr.reduce("sum", fresh, f(rename.scalar(expr.bracket(t.conditions, t.factor))))


def _over(t: Delta, variables: tuple[Var, ...]) -> Delta:
    """Rename the summed variables of a term."""
    if t.summed == variables:
        return t
    m = Substitution(variables={v: as_index(w) for v, w in zip(t.summed, variables, strict=True)})
    (renamed,) = delta_terms(m.scalar(expr.bracket(t.conditions, t.factor))) or (t,)
    return t if renamed is t else replace(renamed, summed=variables)


def _conditions(e: ir.Bracket) -> tuple[tuple[Cond, ...], ir.Scalar]:
    """All conditions of nested brackets, data-dependent ones included, and the guarded value."""
    return ((*e.conds, *e.arg.conds), e.arg.arg) if isinstance(e.arg, ir.Bracket) else (e.conds, e.arg)


def _concerns(variables: tuple[Var, ...], c: Cond) -> bool:
    """Whether a condition is an equation in the variables, without data-dependent places."""
    if c.op != "==" or c.free.isdisjoint(variables) or any(not a.free.isdisjoint(variables) for a in c.index.data):
        return False
    return not _is_residue(variables, c)


def _is_residue(variables: tuple[Var, ...], c: Cond) -> bool:
    """Whether only small moduli occur in the condition: loops split by residue, and masks are cheap."""
    atoms = [a for a in c.index.atoms if not a.free.isdisjoint(variables)]
    return all(isinstance(a, Mod) and (a.denominator.constant or RESIDUES + 1) <= RESIDUES for a in atoms)
