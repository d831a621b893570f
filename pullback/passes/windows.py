"""Windows: a sum over a whole axis of which conditions leave a few steps becomes a sum over these.

Before    x = build i < 56 { sum v < 28 { [2 v + 1 >= i, i + 1 >= 2 v] g[v] * k[i - 2 v + 1] } }
After     x = build i < 56 { sum t < 2 { [0 <= i // 2 + t < 28, i + 1 >= 2 (i // 2 + t)] g[i // 2 + t] * k[..] } }

The gradient of a convolution with stride s by its image is such a sum: of the positions of the window, those that met
element i are ceil((i - c) / s) and those next to it. As i // s tells residues apart, lowering can take each residue of
i by itself, and the condition is then one about t alone. The order of the terms stays. Conditions must come in a pair,
s v >= L and U >= s v, with U - L a number; what is not of this form stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pullback.ir import expr
from pullback.ir.expr import Bracket, Mul, Reduce, Scalar
from pullback.ir.index import Cond, Index, Var, as_index, cond, floor_divide
from pullback.ir.program import Block, Build, Program, Statement, map_blocks
from pullback.ir.traverse import Substitution
from pullback.rewrite.fired import fired


def narrow_windows(program: Program) -> Program:
    """The program with sums over windows of known width."""
    return program.with_body(_block(program.body))


def _block(block: Block) -> Block:
    return replace(block, statements=tuple(_statement(s) for s in block.statements))


def _statement(s: Statement) -> Statement:
    if not isinstance(s, Build):
        return map_blocks(s, partial(_block))
    values = tuple(_value(v, s) for v in s.values)
    return s if values == s.values else replace(s, values=values)


def _value(e: Scalar, s: Build) -> Scalar:
    """The value with its sums narrowed; they stand at its top or in a sum or product there."""
    match e:
        case Reduce() if e.op == "sum" and isinstance(e.arg, Bracket):
            for v in e.vars:
                narrowed = _narrow(e, e.arg, v, s)
                if narrowed is not None:
                    fired("window.floor")
                    return _value(narrowed, s)
            return e
        case expr.Add():
            return expr.add(*(_value(a, s) for a in e.args))
        case Mul():
            return expr.mul(*(_value(a, s) for a in e.args))
        case _:
            return e


def _narrow(r: Reduce, b: Bracket, v: Var, s: Build) -> Scalar | None:
    """The sum over v as a sum over the steps of its window; None where its conditions give none."""
    extent = v.extent.constant
    found = _window(b, v, s)
    if found is None or extent is None:
        return None
    lower, first, trips = found
    if 2 * trips > extent:
        return None
    t = Var(v.name, trips)
    at = first + as_index(t) if trips > 1 else first
    m = Substitution(variables={v: at})
    conds = [cond(">=", at), cond(">=", v.extent - 1 - at), *(m.condition(c) for c in b.conds if c is not lower)]
    variables = [t if w is v else w for w in r.vars]
    return expr.reduce("sum", [w for w in variables if w is not t or trips > 1], expr.bracket(conds, m.scalar(b.arg)))


def _window(b: Bracket, v: Var, s: Build) -> tuple[Cond, Index, int] | None:
    """The condition s v >= L, ceil(L / s), and how many steps U >= s v leaves at most."""
    outer = frozenset(s.vars)
    for low in b.conds:
        step = _factor(low, v)
        if step is None or step < 2:
            continue
        least = as_index(v) * step - low.index
        if not least.free or not least.free <= outer:
            continue
        for high in b.conds:
            if _factor(high, v) == -step:
                width = (high.index + as_index(v) * step - least).constant
                if width is not None and width >= 0:
                    return low, floor_divide(least + (step - 1), as_index(step)), width // step + 1
    return None


def _factor(c: Cond, v: Var) -> int | None:
    factor = c.index.coefficient(v)
    return None if c.op != ">=" or factor is None else factor.constant
