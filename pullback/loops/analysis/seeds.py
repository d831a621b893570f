"""Arrays that begin at unit vectors, such as derivatives by many numbers: most elements may be zero.

    fold b < B (dot = build k < K, c < B { 0.0 }) {
      yield build k < K, c < B { [c == b] (w[b] * dot[k, p] + [k == a(b)] s[b]) + [c != b] dot[k, c] } }
    --> dot is seeded along k: each term has an equation of k with other variables, or a factor that is seeded there

It is evidence, not a proof: steps of a loop may fill such an array. So products test when they run which steps of a
sum have nonzeros (`loops/product/listed.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Var

Seeds = frozenset[int]  # the axes along which an array is seeded


def seeds(block: ir.Block) -> dict[ir.Ref, Seeds]:
    """The seeded arrays, those in loops included."""
    known: dict[ir.Ref, Seeds] = {}
    _block(block, known)
    return {r: axes for r, axes in known.items() if axes}


def _block(block: ir.Block, known: dict[ir.Ref, Seeds]) -> None:
    for s in block.statements:
        match s:
            case ir.Build():
                for o, value in zip(s.outs, s.values, strict=True):
                    known[o] = frozenset(p for p, v in enumerate(s.vars) if _seeded(value, v, known, {}))
            case ir.Fold():
                _loop(s.states, s.inits, s.body, known)
                rows = s.body.results[len(s.states) :]
                found = (frozenset(p + 1 for p in known.get(r, ())) for r in rows)
                known |= zip(s.outs, (*(known[r] for r in s.states), *found), strict=True)
            case ir.While():
                _loop(s.states, s.inits, s.body, known)
                known |= zip(s.outs, (known[r] for r in s.states), strict=True)
            case _:
                pass


def _loop(states: Sequence[ir.Ref], inits: Sequence[ir.Ref], body: ir.Block, known: dict[ir.Ref, Seeds]) -> None:
    """Find the axes along which states are seeded at the beginning, and again after each step."""
    before = [known.get(r, Seeds()) for r in inits]
    while True:
        known |= zip(states, before, strict=True)
        _block(body, known)
        after = [axes & known.get(r, Seeds()) for axes, r in zip(before, body.results, strict=False)]
        if after == before:
            return
        before = after


def _seeded(e: ir.Scalar, v: Var, known: Mapping[ir.Ref, Seeds], done: dict[ir.Scalar, bool]) -> bool:
    """Whether each term of a value has an equation of this variable, or a seeded factor."""
    if e not in done:
        done[e] = _is_seeded(e, v, known, done)
    return done[e]


def _is_seeded(e: ir.Scalar, v: Var, known: Mapping[ir.Ref, Seeds], done: dict[ir.Scalar, bool]) -> bool:
    match e:
        case ir.Zero():
            return True
        case ir.Const():
            return e.value == 0
        case ir.Get():
            return any(e.indices[p].single is v for p in known.get(e.ref, ()))
        case ir.Mul():
            return any(_seeded(g, v, known, done) for g in e.args)
        case ir.Add():
            held = {c for t in e.args if isinstance(t, ir.Bracket) for c in t.conds}
            replaced = {c.negate() for c in held}  # [c == b] new + [c != b] old changes a row, and is no unit vector
            return all(
                (isinstance(t, ir.Bracket) and any(_unit(c, v) and c not in replaced for c in t.conds))
                or _seeded(t.arg if isinstance(t, ir.Bracket) else t, v, known, done)
                for t in e.args
            )
        case ir.Bracket():
            return any(_unit(c, v) for c in e.conds) or _seeded(e.arg, v, known, done)
        case ir.Select():
            return _seeded(e.then, v, known, done) and _seeded(e.otherwise, v, known, done)
        case ir.Reduce():
            return e.op == "sum" and _seeded(e.arg, v, known, done)
        case _:
            return False


def _unit(c: Cond, v: Var) -> bool:
    """Whether a condition is an equation of the variable with others."""
    return c.op == "==" and v in c.free and len(c.free) > 1
