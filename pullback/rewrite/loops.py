"""Trivial loops: no step, one step, a constant state, a state that one step changes (dF~, Fig. 7e).

Before    h = fold t < T (s = h0) { r = build i < N { t == k ? f(s[i], t) : s[i] } yield r }
After     h = build i < N { 0 <= k < T ? f(h0[i], k) : h0[i] }

The single step is kept with its range (the rule as printed is wrong for k outside of it). It is found only if the body
is that one statement. `rewrite.cse` removes unread states: if one half of a loop of pairs is needed, the loop of that
half remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.expr import read_by
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond
from pullback.ir.program import map_blocks, with_fields
from pullback.ir.traverse import Substitution, walk
from pullback.rewrite.cse import rename_reads
from pullback.rewrite.fired import fired


def simplify_loops(program: ir.Program) -> ir.Program:
    """The program with trivial folds replaced by other statements; values are exactly the same."""
    return program.with_body(_block(program.body))


def _block(block: ir.Block) -> ir.Block:
    out: list[ir.Statement] = []
    given: dict[ir.Ref, ir.Ref] = {}
    for s in block.statements:
        s = map_blocks(rename_reads(s, given) if given else s, _block)
        if isinstance(s, ir.Fold):
            out += _fold(s, given)
        else:
            out.append(s)
    return with_fields(block, statements=tuple(out), results=tuple(given.get(r, r) for r in block.results))


def _fold(s: ir.Fold, given: dict[ir.Ref, ir.Ref]) -> list[ir.Statement]:
    """The replacement of a fold; `given` receives the arrays that replace its results."""
    count = len(s.states)
    if s.var.extent is ZERO_INDEX and len(s.outs) == count:
        fired("loops.no_trips")
        given.update(zip(s.outs, s.inits, strict=True))
        return []
    s = _without_constant_states(s, given)
    if not s.outs:
        return []
    if s.var.extent.constant == 1:
        return _one_trip(s, given)
    single = _single_index(s)
    return [s] if single is None else [single]


def _without_constant_states(s: ir.Fold, given: dict[ir.Ref, ir.Ref]) -> ir.Fold:
    """Replace states that the body does not change by reads from outside."""
    count = len(s.states)
    stays = [k for k in range(count) if s.body.results[k] is s.states[k]]
    if not stays:
        return s
    fired("loops.constant_state")
    outside = {s.states[k]: s.inits[k] for k in stays}
    given.update({s.outs[k]: s.inits[k] for k in stays})
    kept = [k for k in range(len(s.outs)) if k not in stays]
    results = tuple(outside.get(s.body.results[k], s.body.results[k]) for k in kept)
    return replace(
        s,
        outs=tuple(s.outs[k] for k in kept),
        states=tuple(s.states[k] for k in kept if k < count),
        inits=tuple(s.inits[k] for k in kept if k < count),
        body=ir.Block(tuple(rename_reads(t, outside) for t in s.body.statements), results),
    )


def _one_trip(s: ir.Fold, given: dict[ir.Ref, ir.Ref]) -> list[ir.Statement]:
    """Inline a body that runs once; stacked rows get their axis of size 1."""
    fired("loops.one_trip")
    m = Substitution(variables={s.var: ZERO_INDEX}, refs=dict(zip(s.states, s.inits, strict=True)))
    body = m.block(s.body)
    count = len(s.states)
    given.update(zip(s.outs[:count], body.results[:count], strict=True))
    rows: list[ir.Statement] = []
    for out, row in zip(s.outs[count:], body.results[count:], strict=True):
        axes = tuple(Var("i", d) for d in row.shape)
        rows.append(ir.Build((out,), (Var(s.var.name, 1), *axes), (expr.get(row, *axes),), s.positions))
    return [*body.statements, *rows]


def _single_index(s: ir.Fold) -> ir.Build | None:
    """The statement for a fold with one state that only step j changes, elementwise."""
    if len(s.outs) != 1 or len(s.states) != 1 or len(s.body.statements) != 1:
        return None
    (step,) = s.body.statements
    state = s.states[0]
    if not isinstance(step, ir.Build) or step.outs != s.body.results:
        return None
    found = _changed_at(step.values[0], s.var, expr.get(state, *step.vars))
    if found is None:
        return None
    j, changed = found
    there = Substitution(variables={s.var: j}).scalar(changed)
    if not _reads_only_there(there, state, step.vars) or any(state in read_by(a).refs for a in j.data):
        return None  # its operand may change between
    fired("loops.single_index")
    before = expr.get(s.inits[0], *step.vars)
    now = Substitution(refs={state: s.inits[0]}).scalar(there)
    value = expr.select(expr.test((cond(">=", j), cond(">=", s.var.extent - 1 - j))), now, before)
    return ir.Build(s.outs, step.vars, (value,), (*s.positions, *step.positions))


def _reads_only_there(e: ir.Scalar, state: ir.Ref, variables: Sequence[Var]) -> bool:
    """Whether an expression reads the state at the element of these variables alone, in indices too."""
    here = expr.get(state, *variables)
    return all(n is here for n in walk(e, into_indices=True) if isinstance(n, ir.Get) and n.ref is state)


def _changed_at(value: ir.Scalar, t: Var, unchanged: ir.Get | ir.Scalar) -> tuple[Index, ir.Scalar] | None:
    """Return (j, x) for a value that is x at t == j and unchanged at every other t."""
    if isinstance(value, ir.Select) and value.otherwise is unchanged and isinstance(value.test, ir.Bracket):
        return _solved(value.test.conds, t, value.then)
    if isinstance(value, ir.Add) and len(value.args) == 2:
        for here, elsewhere in (value.args, value.args[::-1]):
            if isinstance(here, ir.Bracket) and isinstance(elsewhere, ir.Bracket) and elsewhere.arg is unchanged:
                if len(here.conds) == 1 and elsewhere.conds == (here.conds[0].negate(),):
                    return _solved(here.conds, t, here.arg)
    return None


def _solved(conds: tuple[Cond, ...], t: Var, then: ir.Scalar) -> tuple[Index, ir.Scalar] | None:
    """The pair (j, then) if the only condition is t == j, else None."""
    if len(conds) != 1 or conds[0].op != "==":
        return None
    e = conds[0].index
    factor = e.coefficient(t)
    if factor is None or factor.constant not in (1, -1):
        return None
    rest = e - factor * as_index(t)
    if t in rest.free:
        return None
    return (-rest if factor.constant == 1 else rest), then
