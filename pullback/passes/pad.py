"""Padding: range conditions on an operand of a contraction become a border of zeros.

Before    y = build q < Q { sum v < V { [q - v >= 0, N - 1 - q + v >= 0] g[q - v] * w[v] } }
After     p = build t < Q + V - 1 { [t - V + 1 >= 0, ...] g[t - V + 1] }
          y = build q < Q { sum v < V { p[q - v + V - 1] * w[v] } }

A condition that depends on a vectorized or tiled variable would be tested for each term; a zero border costs one copy
of the operand. Done where the copy is small beside the contraction, at typical sizes if dims are symbols. In that case
the program tests at run time whether a border is wide, as for windows as large as an image. The pass is inexact in one
way: if the other factor is not finite, 0 * inf enters a sum that the condition would have excluded.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond, prove_nonnegative
from pullback.ir.types import bool_
from pullback.ir.walks import each_build, taken_out
from pullback.passes.conditions import Changed, atom_interval, bounds, conditional_sums, interval
from pullback.passes.cost import is_inside, typical_size
from pullback.passes.shifts import shifts
from pullback.passes.speculate import fresh
from pullback.rewrite.fired import fired

KEEP = 0.75  # a border is worth it on an axis when at least this share of the terms is inside
WIDE, ROOM = 2, 8  # an axis may grow to this multiple of its size, and a little more
WORTH = 4  # a copy must be this many times smaller than the number of terms


def pad_operands(program: ir.Program) -> ir.Program:
    """The program with borders instead of conditions where that pays."""
    return each_build(program, _build)


def _build(s: ir.Build) -> list[ir.Statement]:
    """Give a build borders; if these may be too wide for some sizes, choose the form at run time.

    The form without borders has products before shifts, if possible.
    """
    narrow: dict[Cond, None] = {}
    out = _with_borders(s, narrow)
    if not narrow:
        return out
    shifted = taken_out(s, conditional_sums(lambda e, b: _shifted(e, b, s, narrow)))
    products = [x for p in shifted[:-1] if isinstance(p, ir.Build) for x in _with_borders(p, {})]
    chosen = ir.Ref("narrow", bool_, ())
    test = ir.Build((chosen,), (), (expr.bracket(tuple(narrow), expr.const(True, bool_)),), s.positions)
    return [test, ir.Choose(s.outs, chosen, _block(out), _block([*products, shifted[-1]]), s.positions)]


def _block(statements: Sequence[ir.Statement]) -> ir.Block:
    """A block of the last statement's results."""
    *before, last = statements
    assert isinstance(last, ir.Build)
    result = fresh(last)
    return ir.Block((*before, result), result.outs)


def _with_borders(s: ir.Build, narrow: dict[Cond, None]) -> list[ir.Statement]:
    return taken_out(s, conditional_sums(lambda e, b: _bordered(e, b, s, narrow)))


def _shifted(e: ir.Reduce, b: ir.Bracket, s: ir.Build, narrow: dict[Cond, None]) -> Changed | None:
    """A sum as products before shifts; `narrow` receives the condition under which that saves too little."""
    for shift in shifts(e, b, s):
        saves_little = cond(">=", -1 - shift.saved)
        if isinstance(saves_little, Cond):
            narrow[saves_little] = None
            fired("shifts.product")
            return shift.statements(shift.early)
    return None


def _bordered(r: ir.Reduce, b: ir.Bracket, s: ir.Build, narrow: dict[Cond, None]) -> Changed | None:
    """The padded copies of a sum's operands, and the sum that reads them; None where no border pays.

    Args:
        narrow: receives the conditions on the dims under which borders are not wide.
    """
    if not isinstance(b.arg, ir.Mul) or not all(isinstance(f, ir.Get | ir.Const) for f in b.arg.args):
        return None
    copies: list[ir.Build] = []
    terms = typical_size(v.extent for v in (*s.vars, *r.vars))
    conds = list(b.conds)
    factors = list(b.arg.args)
    for k, f in enumerate(factors):
        if not isinstance(f, ir.Get):
            continue
        mine = [_range_axis(c, f) for c in conds]
        mine = [None if a is not None and (_wide(f, a) or _mostly_outside(f, a, s, r)) else a for a in mine]
        axes = {a for a in mine if a is not None}
        if not axes:
            continue
        padded = _padded(f, axes, s)
        if padded is None or typical_size(padded[0].outs[0].shape) * WORTH > terms:
            continue
        left = [c for c, a in zip(conds, mine, strict=True) if a is None]
        copy, element = padded
        others = [o for j, o in enumerate(factors) if j != k]
        if any(is_inside(o, conds) and not is_inside(o, left) for o in others) or not is_inside(element, left):
            continue  # the conditions keep another operand, or another axis of this one, in range
        grown = [cond(">=", WIDE * d + ROOM - copy.outs[0].shape[a]) for a, d in enumerate(f.ref.shape) if a in axes]
        if False in grown:
            continue
        fired("pad.border")
        narrow |= {c: None for c in grown if isinstance(c, Cond)}
        copies.append(copy)
        factors[k] = element
        conds = left
    return (copies, expr.reduce("sum", r.vars, expr.bracket(conds, expr.mul(*factors)))) if copies else None


def _range_axis(c: Cond, g: ir.Get) -> int | None:
    """The axis of g that the range condition is about: i >= 0 or extent - 1 - i >= 0."""
    for axis, (i, d) in enumerate(zip(g.indices, g.ref.shape, strict=True)):
        if c in (cond(">=", i), cond(">=", d - 1 - i)):
            return axis
    return None


def _wide(g: ir.Get, axis: int) -> bool:
    """Whether this axis' border is known to exceed the array, so that few terms lie inside."""
    ends, extent = interval(g.indices[axis]), g.ref.shape[axis].constant
    if ends is None or extent is None:
        return False
    return max(ends[1], extent - 1) - min(ends[0], 0) >= WIDE * extent + ROOM


def _mostly_outside(g: ir.Get, axis: int, s: ir.Build, r: ir.Reduce) -> bool:
    """Whether loop bounds on this axis skip many of the terms, so that a border would add work.

    Vectors run along the last axis, so its conditions become a border.
    """
    i, d = g.indices[axis], g.ref.shape[axis]
    if s.vars and s.vars[-1] in i.free:
        return False
    if not any(v in i.free for v in r.vars):
        return False
    ends, extent = interval(i), d.constant
    if ends is None or extent is None:
        return False
    counts = [1]  # how many combinations of the variables give each value, from the least on
    for m, c in i.terms:
        if m:
            least, greatest = atom_interval(m[0]) or (0, 0)
            n = greatest - least + 1
            wide = [0] * (len(counts) + abs(c) * (n - 1))
            for k, count in enumerate(counts):
                for step in range(n):
                    wide[k + abs(c) * step] += count
            counts = wide
    inside = sum(count for k, count in enumerate(counts) if 0 <= ends[0] + k < extent)
    return inside < KEEP * sum(counts)


def _padded(g: ir.Get, axes: set[int], s: ir.Build) -> tuple[ir.Build, ir.Scalar] | None:
    """The padded copy of g's array along these axes, and g's element in it; None where ends are not known."""
    shape: list[Index] = []
    shift: list[Index] = []
    for axis, (i, d) in enumerate(zip(g.indices, g.ref.shape, strict=True)):
        ends = bounds(i) if axis in axes else (ZERO_INDEX, d - 1)
        low, high = (None, None) if ends is None else (_larger(-ends[0], ZERO_INDEX), _larger(ends[1], d - 1))
        if low is None or high is None:
            return None
        shape.append(high + low + 1)
        shift.append(-low)
    names = [i.single.name if isinstance(i.single, Var) else f"p{k}" for k, i in enumerate(g.indices)]
    variables = tuple(Var(n, d) for n, d in zip(names, shape, strict=True))
    source = [as_index(v) + low for v, low in zip(variables, shift, strict=True)]
    conds = [c for k in sorted(axes) for c in (cond(">=", source[k]), cond(">=", g.ref.shape[k] - 1 - source[k]))]
    out = ir.Ref(f"{g.ref.name}_padded", g.dtype, shape)
    copy = ir.Build((out,), variables, (expr.bracket(conds, expr.get(g.ref, *source)),), s.positions)
    return copy, expr.get(out, *(i - low for i, low in zip(g.indices, shift, strict=True)))


def _larger(a: Index, b: Index) -> Index | None:
    """The larger of two indices, or a bound slightly above if it depends on the dims; None if unknown."""
    for more in range(ROOM):
        for x, y in ((a, b), (b, a)):
            if prove_nonnegative(x + more - y):
                return x + more
    return None
