"""Reductions from loops: states that only accumulate a sum, a product or an extreme.

Before    s, m = fold t < T (s = s0, m = m0) {
            r = build i { s[i] + x[t, i] * y[t] }
            q = build { maximum(m[], y[t]) }
            yield r, q }
After     s = build i { s0[i] + sum t < T { x[t, i] * y[t] } }
          m = build { maximum(m0[], max t < T { y[t] }) }

A state becomes a reduction if its new value is its old one at the same element, combined with a term that reads no
state. Steps that keep the state under a condition add nothing. Elementwise statements and single numbers of the body
that the term reads are inlined. Other states stay in the loop, as do those whose old value has another reader, or is
kept as a row.

This reassociates sums (the initial value is added last), so exact programs keep their loops. A maximum over no steps
has no value; it becomes a reduction only if the number of steps is known to be nonzero. A product must start from 1:
another initial value may prevent underflow. In both forms the first of equal elements receives the derivative:
`maximum(state, x)` gives it to the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.expr import ReduceOp
from pullback.ir.index import Index, Var, as_index
from pullback.ir.program import statement_reads, with_fields
from pullback.ir.reduction import COMBINING, REDUCTIONS, neutral
from pullback.ir.traverse import Substitution, walk
from pullback.ir.walks import each_block
from pullback.records import dataclass, replace
from pullback.rewrite.fired import fired


@dataclass(frozen=True)
class _Step:
    """The effect of a step on a state's element: combine it with a term, over a build's variables."""

    op: ReduceOp
    variables: tuple[Var, ...]
    term: ir.Scalar
    combine: Callable[[ir.Scalar, ir.Scalar], ir.Scalar]


def reduce_loops(program: ir.Program) -> ir.Program:
    """The program with states that are reductions taken out of their loops."""
    return program if program.settings.exact else each_block(program, _block)


def _block(block: ir.Block) -> ir.Block:
    statements: list[ir.Statement] = []
    constants: dict[ir.Ref, float] = {}
    for s in block.statements:
        statements += _fold(s, constants) if isinstance(s, ir.Fold) else (s,)
        if isinstance(s, ir.Build):
            constants |= {o: v.value for o, v in zip(s.outs, s.values, strict=True) if isinstance(v, ir.Const)}
    return with_fields(block, statements=tuple(statements))


def _fold(s: ir.Fold, constants: Mapping[ir.Ref, float]) -> list[ir.Statement]:
    """The replacement of a fold: a statement for each reduction, and a loop for the other states."""
    found = {k: step for k in range(len(s.states)) if (step := _step(s, k, constants.get(s.inits[k]))) is not None}
    if not found:
        return [s]
    fired("loops.reduction")
    out: list[ir.Statement] = [_reduction(s, k, step) for k, step in found.items()]
    kept = [k for k in range(len(s.outs)) if k not in found]
    if kept:
        made = {s.body.results[k] for k in found}
        body = replace(
            s.body,
            statements=tuple(t for t in s.body.statements if made.isdisjoint(t.outs)),
            results=tuple(s.body.results[k] for k in kept),
        )
        states = [k for k in kept if k < len(s.states)]
        out.append(replace(
            s,
            outs=tuple(s.outs[k] for k in kept),
            states=tuple(s.states[k] for k in states),
            inits=tuple(s.inits[k] for k in states),
            body=body,
        ))
    return out


def _reduction(s: ir.Fold, k: int, step: _Step) -> ir.Build:
    """The statement of a state that is a reduction."""
    t = Var(s.var.name, s.var.extent)
    fresh = tuple(Var(v.name, v.extent) for v in step.variables)
    places: dict[Var, Index] = {v: as_index(w) for v, w in zip((*step.variables, s.var), (*fresh, t), strict=True)}
    total = expr.reduce(step.op, (t,), Substitution(variables=places).scalar(step.term))
    return ir.Build((s.outs[k],), fresh, (step.combine(expr.get(s.inits[k], *fresh), total),), s.positions)


def _step(s: ir.Fold, k: int, start: float | None) -> _Step | None:
    """The effect of a step on state k with a known start, if any; None if it is no reduction."""
    state, new = s.states[k], s.body.results[k]
    made = {o: t for t in s.body.statements for o in t.outs}
    build = made.get(new)
    if (
        not isinstance(build, ir.Build)
        or len(build.outs) != 1
        or s.body.results.count(new) > 1
        or state in s.body.results
    ):
        return None
    if any(state in statement_reads(t) or new in statement_reads(t) for t in s.body.statements if t is not build):
        return None
    here = expr.get(state, *build.vars)
    found = _taken_apart(build.values[0], here)
    if found is None:
        return None
    op, term, combine = found
    if op in ("max", "min") and not s.var.extent.constant:
        return None
    if REDUCTIONS[op].of_nothing and start == neutral(op, state.dtype):
        combine = lambda _, total: total
    elif op == "prod":
        return None  # without its initial value a product may overflow or underflow on the way
    whole = _inlined(term, made, frozenset(s.states))
    return None if whole is None else _Step(op, build.vars, whole, combine)


def _taken_apart(
    value: ir.Scalar, here: ir.Scalar
) -> tuple[ReduceOp, ir.Scalar, Callable[[ir.Scalar, ir.Scalar], ir.Scalar]] | None:
    """The operator, the term, and their combination, for a value that combines `here` with a term."""
    match value:
        case ir.Add() if value.args.count(here) == 1:
            return "sum", expr.add(*(a for a in value.args if a is not here)), expr.add
        case ir.Mul() if value.args.count(here) == 1:
            return "prod", expr.mul(*(a for a in value.args if a is not here)), expr.mul
        case ir.Apply() if value.primitive.name in COMBINING and value.args[0] is here:
            name = value.primitive.name
            return COMBINING[name], value.args[1], lambda a, b: expr.apply(name, a, b)
        case ir.Select() if value.otherwise is here and (found := _taken_apart(value.then, here)) and found[0] == "sum":
            return "sum", expr.select(value.test, found[1], expr.zero(value.dtype)), expr.add
        case _:
            return None


def _inlined(term: ir.Scalar, made: dict[ir.Ref, ir.Statement], states: frozenset[ir.Ref]) -> ir.Scalar | None:
    """The term with the body's statements inlined; None if it reads a state, or sums kept as an array.

    A number that is a reduction is inlined too; normal form lifts it again, as one number for each step.
    """
    while True:
        own = {n.ref for n in walk(term) if isinstance(n, ir.Get) and n.ref in made}
        if not own:
            return term if states.isdisjoint(term.refs) else None
        values = {r: _element(made[r], r) for r in own}
        if any(v is None for v in values.values()):
            return None
        term = Substitution(get=_reader(values)).scalar(term)


def _element(s: ir.Statement, r: ir.Ref) -> tuple[Sequence[Var], ir.Scalar] | None:
    """The variables and the value of a statement's element, if elementwise or a single number."""
    if not isinstance(s, ir.Build):
        return None
    value = s.values[s.outs.index(r)]
    return None if s.vars and any(isinstance(n, ir.Reduce) for n in walk(value)) else (s.vars, value)


def _reader(
    values: dict[ir.Ref, tuple[Sequence[Var], ir.Scalar] | None],
) -> Callable[[ir.Ref, tuple[Index, ...]], ir.Scalar]:
    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        found = values.get(ref)
        if found is None:
            return expr.get(ref, *indices)
        variables, value = found
        return Substitution(variables=dict(zip(variables, indices, strict=True))).scalar(value)

    return element


__all__ = ["reduce_loops"]
