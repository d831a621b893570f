"""Kronecker deltas: inlined into what reads them, and summed away.

Before    e = build k < N, i < N { [k == i] 1.0 }     t = build k < N, i < M { sum j < N { w[i, j] * e[k, j] } }
After     t = build k < N, i < M { w[i, k] }

The identity that a Jacobian starts from never exists as an array, and neither does a sparse derivative further on
(DeepDSL's rules 20 to 23, with ranges kept): where the factor of a delta is more than a few operations, the factor
becomes an array over the indices that the delta leaves free, and the delta itself stays a delta. So a chain of
diagonal or banded Jacobians costs what its non-zeros cost. Statements are visited once, in order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pullback.ir import expr
from pullback.ir.expr import Add, Apply, Bracket, Cast, Mul, Reduce, Ref, Scalar, Select, Zero
from pullback.ir.index import Cond, Data, Index, Var, as_index
from pullback.ir.program import Block, Build, Program, Scatter, Statement, map_blocks
from pullback.ir.traverse import Substitution, walk
from pullback.rewrite.brackets import solve
from pullback.rewrite.fired import fired

SMALL = 24  # nodes up to which a delta's factor is copied into each reader
MANY = 16  # terms up to which a sum of deltas is carried on


def eliminate_deltas(program: Program) -> Program:
    """The program with deltas inlined and summed away."""
    return program.with_body(_block(program.body, {}))


def _block(block: Block, known: dict[Ref, Build]) -> Block:
    deltas = dict(known)

    def element(ref: Ref, indices: tuple[Index, ...]) -> Scalar:
        s = deltas.get(ref)
        if s is None:
            return expr.get(ref, *indices)
        fired("kronecker.inline")
        return Substitution(variables=dict(zip(s.vars, indices, strict=True))).scalar(s.values[0])

    out: list[Statement] = []
    for s in block.statements:
        match s:
            case Build():
                m = Substitution(get=element)
                s = replace(s, values=tuple(simplify(m.scalar(v)) for v in s.values))
                terms = delta_terms(s.values[0]) if len(s.outs) == 1 else None
                if terms is not None and len(terms) <= MANY:
                    value = expr.add(expr.zero(s.outs[0].dtype), *(_compressed(t, s, out) for t in terms))
                    s = deltas[s.outs[0]] = replace(s, values=(value,))
            case Scatter():
                s = replace(s, value=Substitution(get=element).scalar(s.value))
            case _:
                s = map_blocks(s, partial(_block, known=deltas))
        out.append(s)
    return replace(block, statements=tuple(out))


def delta_terms(value: Scalar) -> list[Bracket] | None:
    """The terms of a sum of deltas, each zero but for where indices agree; None for any other value."""
    if isinstance(value, Zero):
        return []
    terms = value.args if isinstance(value, Add) else (value,)
    out = [t for t in terms if isinstance(t, Bracket) and any(c.op == "==" for c in all_conditions(t))]
    return out if len(out) == len(terms) else None


def all_conditions(e: Bracket) -> tuple[Cond, ...]:
    """The conditions of a bracket and of the bracket right inside it, which holds those that read data."""
    return (*e.conds, *e.arg.conds) if isinstance(e.arg, Bracket) else e.conds


def guarded(e: Bracket) -> Scalar:
    """What stands under all the conditions of a bracket."""
    return e.arg.arg if isinstance(e.arg, Bracket) else e.arg


def _compressed(term: Bracket, s: Build, out: list[Statement]) -> Scalar:
    """The term with its factor as an array of its own, over the variables that the delta leaves, where it is large."""
    factor = guarded(term)
    nodes = list(walk(factor))
    if len(nodes) <= SMALL and not any(isinstance(n, Reduce) for n in nodes):
        return term
    conds = all_conditions(term)
    equations = [c.index for c in conds if c.op == "=="]
    rest = [c for c in conds if c.op != "=="]
    unknown = tuple(v for v in s.vars if any(v in e.free for e in equations))
    solution = solve(unknown, equations, expr.bracket(rest, factor))
    if solution is None or solution.term.free >= set(s.vars):
        return term
    fired("kronecker.compress")
    kept = [v for v in s.vars if v in solution.term.free]
    fresh = tuple(Var(v.name, v.extent) for v in kept)
    rename = Substitution(variables={v: as_index(w) for v, w in zip(kept, fresh, strict=True)})
    ref = Ref(f"{s.outs[0].name}_values", factor.dtype, [v.extent for v in fresh])
    out.append(Build((ref,), fresh, (rename.scalar(solution.term),), s.positions))
    return expr.bracket(conds, expr.get(ref, *kept))


def _pure_equality(c: Cond) -> bool:
    return c.op == "==" and not any(isinstance(a, Data) for a in c.index.every_atom)


def simplify(e: Scalar) -> Scalar:
    """E with deltas in its sums solved for the summed variables."""
    match e:
        case Reduce():
            arg = simplify(e.arg)
            return _sum(e.vars, arg) if e.op == "sum" else expr.reduce(e.op, e.vars, arg)
        case Add():
            return _merged(expr.add(*(simplify(a) for a in e.args)))
        case Mul():
            out = expr.mul(*(simplify(a) for a in e.args))
            return _merged(_multiplied_out(out) or out)
        case Bracket():
            arg = simplify(e.arg)
            if isinstance(arg, Add) and delta_terms(arg):
                return _merged(expr.add(*(expr.bracket(e.conds, t) for t in arg.args)))
            return expr.bracket(e.conds, arg)
        case Select():
            return expr.select(simplify(e.test), simplify(e.then), simplify(e.otherwise))
        case Apply():
            return expr.apply(e.primitive, *(simplify(a) for a in e.args))
        case Cast():
            return expr.cast(simplify(e.arg), e.dtype)
        case _:
            return e


def _merged(e: Scalar) -> Scalar:
    """Deltas with the same conditions as one: [c] a + [c] b = [c] (a + b)."""
    terms = delta_terms(e) if isinstance(e, Add) else None
    if not terms:
        return e
    by_condition: dict[tuple[Cond, ...], list[Scalar]] = {}
    for t in terms:
        by_condition.setdefault(all_conditions(t), []).append(guarded(t))
    if len(by_condition) == len(terms):
        return e
    fired("kronecker.merge")
    return expr.add(*(expr.bracket(conds, expr.add(*factors)) for conds, factors in by_condition.items()))


def _sum(variables: tuple[Var, ...], arg: Scalar) -> Scalar:
    """The sum of arg over the variables: term by term where a term holds a delta over one of them."""
    if isinstance(arg, Add) and any(_solvable(variables, t) for t in arg.args):
        fired("kronecker.distribute")
        return expr.add(*(_sum(variables, t) for t in arg.args))
    factored = _distributed(variables, arg)
    if factored is not None:
        return _sum(variables, factored)
    if not isinstance(arg, Bracket) or not _solvable(variables, arg):
        return expr.reduce("sum", variables, arg)
    equations = [c.index for c in arg.conds if _concerns(variables, c)]
    rest = [c for c in arg.conds if not _concerns(variables, c)]
    solution = solve(variables, equations, expr.bracket(rest, arg.arg))
    if solution is None:
        return expr.reduce("sum", variables, arg)
    fired("kronecker.sum")
    return expr.reduce("sum", solution.variables, solution.term)


def _distributed(variables: tuple[Var, ...], arg: Scalar) -> Scalar | None:
    """A product with a sum of deltas over one of the variables, multiplied out."""
    out = _multiplied_out(arg)
    return out if isinstance(out, Add) and any(_solvable(variables, t) for t in out.args) else None


def _multiplied_out(e: Scalar) -> Scalar | None:
    """W * (a * [i == j] + b * [i == k]) as a sum of deltas; None where there is no such factor."""
    if not isinstance(e, Mul):
        return None
    for k, f in enumerate(e.args):
        if isinstance(f, Add) and delta_terms(f):
            others = (*e.args[:k], *e.args[k + 1 :])
            return expr.add(*(expr.mul(t, *others) for t in f.args))
    return None


def _solvable(variables: tuple[Var, ...], e: Scalar) -> bool:
    return isinstance(e, Bracket) and any(_concerns(variables, c) for c in e.conds)


def _concerns(variables: tuple[Var, ...], c: Cond) -> bool:
    return _pure_equality(c) and not c.free.isdisjoint(variables)
