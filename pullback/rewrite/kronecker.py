"""Kronecker deltas: inlined into what reads them, and summed away.

Before    e = build k < N, i < N { [k == i] 1.0 }     t = build k < N, i < M { sum j < N { w[i, j] * e[k, j] } }
After     t = build k < N, i < M { w[i, k] }

The identity that a Jacobian starts from never exists as an array, and neither does the sparse array of a derivative
that is one product away from it (DeepDSL's rules 20 to 23, with ranges kept). Statements are visited once, in order:
what becomes a delta is inlined further on.
"""

from __future__ import annotations

from dataclasses import replace

from pullback.ir import expr
from pullback.ir.expr import Add, Apply, Bracket, Cast, Mul, Reduce, Ref, Scalar, Select, Zero
from pullback.ir.index import Cond, Data, Index, Var
from pullback.ir.program import Block, Build, Choose, Fold, Program, Scatter, Statement, While
from pullback.ir.traverse import Substitution, walk
from pullback.rewrite.brackets import solve
from pullback.rewrite.fired import fired

SMALL = 24  # nodes up to which a delta's factor is copied into each reader


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
                values = tuple(simplify(m.scalar(v)) for v in s.values)
                s = replace(s, values=values)
                if len(s.outs) == 1 and is_delta(values[0]):
                    deltas[s.outs[0]] = s
            case Scatter():
                s = replace(s, value=Substitution(get=element).scalar(s.value))
            case Fold():
                s = replace(s, body=_block(s.body, deltas))
            case While():
                s = replace(s, test=_block(s.test, deltas), body=_block(s.body, deltas))
            case Choose():
                s = replace(s, then=_block(s.then, deltas), otherwise=_block(s.otherwise, deltas))
        out.append(s)
    return replace(block, statements=tuple(out))


def is_delta(value: Scalar) -> bool:
    """Whether a value is zero but for where two indices agree, and cheap there; structural zero included."""
    if isinstance(value, Zero):
        return True
    if not isinstance(value, Bracket) or not any(_pure_equality(c) for c in value.conds):
        return False
    nodes = list(walk(value.arg))
    return len(nodes) <= SMALL and not any(isinstance(n, Reduce) for n in nodes)


def _pure_equality(c: Cond) -> bool:
    return c.op == "==" and not any(isinstance(a, Data) for a in c.index.every_atom)


def simplify(e: Scalar) -> Scalar:
    """E with deltas in its sums solved for the summed variables."""
    match e:
        case Reduce():
            arg = simplify(e.arg)
            return _sum(e.vars, arg) if e.op == "sum" else expr.reduce(e.op, e.vars, arg)
        case Add():
            return expr.add(*(simplify(a) for a in e.args))
        case Mul():
            return expr.mul(*(simplify(a) for a in e.args))
        case Bracket():
            return expr.bracket(e.conds, simplify(e.arg))
        case Select():
            return expr.select(simplify(e.test), simplify(e.then), simplify(e.otherwise))
        case Apply():
            return expr.apply(e.primitive, *(simplify(a) for a in e.args))
        case Cast():
            return expr.cast(simplify(e.arg), e.dtype)
        case _:
            return e


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
    """A product with a sum of deltas multiplied out: w * (a * [i == j] + b * [i == k])."""
    if not isinstance(arg, Mul):
        return None
    for k, f in enumerate(arg.args):
        if isinstance(f, Add) and all(_solvable(variables, t) for t in f.args):
            others = (*arg.args[:k], *arg.args[k + 1 :])
            return expr.add(*(expr.mul(t, *others) for t in f.args))
    return None


def _solvable(variables: tuple[Var, ...], e: Scalar) -> bool:
    return isinstance(e, Bracket) and any(_concerns(variables, c) for c in e.conds)


def _concerns(variables: tuple[Var, ...], c: Cond) -> bool:
    return _pure_equality(c) and not c.free.isdisjoint(variables)
