"""Windows: a sum over an axis whose conditions keep few steps becomes a sum over these.

Before    x = build i < 56 { sum v < 28 { [2 v + 1 >= i, i + 1 >= 2 v] g[v] * k[i - 2 v + 1] } }
After     x = build i < 56 { sum t < 2 { [0 <= i // 2 + t < 28, i + 1 >= 2 (i // 2 + t)] g[i // 2 + t] * k[..] } }

The gradient of a convolution with stride s by its image is such a sum: of the positions of the window, those that met
element i are ceil((i - c) / s) and those next to it. With i // s, lowering can treat each residue of i separately, and
the condition is then about t alone. The order of the terms stays. Conditions must come in a pair,
s v >= L and U >= s v, with U - L a number; other forms do not change. For s = 1 the pair disappears. Then t is U - v if
that is an index of an array (the window's own; sums may be reassociated), else v - L:

Before    x = build i < 28 { sum v < 24 { [i >= v, v + 4 >= i] g[v] * k[i - v] } }
After     x = build i < 28 { sum t < 5 { [0 <= i - t < 24] g[i - t] * k[t] } }

A derivative meets this when a bracket was solved for the window's index before sizes were known.
"""

from __future__ import annotations

from functools import partial

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Index, Var, as_index, cond, floor_divide
from pullback.ir.traverse import Substitution, walk
from pullback.passes.conditions import Changed, each_conditional_sum, factor
from pullback.records import dataclass
from pullback.rewrite.fired import fired


def narrow_windows(program: ir.Program) -> ir.Program:
    """The program with sums over windows of known width."""
    return each_conditional_sum(program, partial(_narrowed, exact=program.settings.exact))


def _narrowed(e: ir.Reduce, b: ir.Bracket, s: ir.Build, exact: bool) -> Changed | None:
    """Narrow a sum to the windows of its variables, guards kept; None if there are none."""
    narrowed = next((n for v in e.vars if (n := _narrow(e, b, v, s, exact)) is not None), None)
    if narrowed is None:
        return None
    fired("window.floor")
    if isinstance(narrowed, ir.Reduce) and narrowed.op == "sum" and isinstance(narrowed.arg, ir.Bracket):
        return _narrowed(narrowed, narrowed.arg, s, exact) or ([], narrowed)
    return [], narrowed


def _narrow(r: ir.Reduce, b: ir.Bracket, v: Var, s: ir.Build, exact: bool) -> ir.Scalar | None:
    """The sum over v as a sum over the steps of its window; None where its conditions give none."""
    extent = v.extent.constant
    found = _window(b, v, s, exact)
    if found is None or extent is None or 2 * found.trips > extent:
        return None
    trips = found.trips
    t = Var(v.name, trips)
    at = found.first + as_index(t) * found.direction if trips > 1 else found.first
    m = Substitution(variables={v: at})
    conds = [cond(">=", at), cond(">=", v.extent - 1 - at), *(m.condition(c) for c in b.conds if c not in found.met)]
    variables = [t if w is v else w for w in r.vars]
    return expr.reduce("sum", [w for w in variables if w is not t or trips > 1], expr.bracket(conds, m.scalar(b.arg)))


@dataclass(frozen=True)
class _Window:
    """The steps v = first + direction * t for t < trips; the conditions `met` hold by construction."""

    first: Index
    direction: int
    trips: int
    met: tuple[Cond, ...]


def _window(b: ir.Bracket, v: Var, s: ir.Build, exact: bool) -> _Window | None:
    """The steps of v between the conditions s v >= L and U >= s v; None without such a pair."""
    outer = frozenset(s.vars)
    for low in b.conds:
        step = factor(low, v)
        if step is None or step < 1:
            continue
        least = as_index(v) * step - low.index
        if not least.free or not least.free <= outer:
            continue
        for high in b.conds:
            if factor(high, v) == -step:
                most = high.index + as_index(v) * step
                width = (most - least).constant
                if width is None or width < 0:
                    continue
                if step > 1:
                    return _Window(floor_divide(least + (step - 1), as_index(step)), 1, width // step + 1, (low,))
                backward = not exact and any(high.index in g.indices for g in walk(b.arg) if isinstance(g, ir.Get))
                return _Window(most if backward else least, -1 if backward else 1, width + 1, (low, high))
    return None
