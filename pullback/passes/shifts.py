"""Shifts: where conditions on a shifted axis exclude much of a product, multiply first, then shift.

Before    x = build c < C, j < 12 { sum o < O, q < 5 { [j >= q, q + 7 >= j] w[o, c, q] * g[o, j - q] } }
After     t = build c < C, q < 5, v < 8 { sum o < O { w[o, c, q] * g[o, v] } }
          x = build c < C, j < 12 { sum q < 5 { [j >= q, q + 7 >= j] t[c, q, j - q] } }

The gradient of a convolution by its image is such a sum. Vectors along j multiply terms outside the result by zero,
here a third of all terms. By distributivity the sum over everything but q needs j only as v = j - q, which runs over
the result itself: a product without conditions, in full vectors, and Q additions for each element of x. Other axes keep
their conditions, which are bounds of loops. No term is multiplied by zero, so infinities stay where the definition has
them. Sums are reassociated, so `exact` programs stay as they are. So do programs that need least memory, as t has more
elements than x.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, Cond, Index, Var, as_index, cond, prove_nonnegative
from pullback.ir.traverse import Substitution
from pullback.passes.conditions import Changed, each_conditional_sum
from pullback.passes.cost import is_inside
from pullback.records import dataclass
from pullback.rewrite.fired import fired

WORTH = 8  # multiply-adds that must be saved for each element written and for each added


def shift_products(program: ir.Program) -> ir.Program:
    """The program with products before shifts where that saves work."""
    return each_conditional_sum(program, _product)


def _product(e: ir.Reduce, b: ir.Bracket, s: ir.Build) -> Changed | None:
    """The product of a sum, and the sum of its shifts; None if it saves nothing."""
    for shift in shifts(e, b, s):
        if (shift.saved.constant or -1) >= 0:
            fired("shifts.product")
            return shift.statements(len(shift.axes))
    return None


def shifts(e: ir.Reduce, b: ir.Bracket, s: ir.Build) -> Iterator[Shift]:
    """The ways to see a sum as one of shifts."""
    return (shift for q in e.vars if (shift := _shift(e, b, s, q)) is not None)


@dataclass(frozen=True)
class Shift:
    """A sum whose terms depend on the last axis j only as v = j - step * q - first, v < `extent`.

    Attributes:
        factors: the factors of its terms, written in v; `at` is the variable for v.
        conds: the remaining conditions, which are about other axes.
    """

    total: ir.Reduce
    build: ir.Build
    q: Var
    step: int
    first: Index
    at: Var
    factors: tuple[ir.Scalar, ...]
    conds: tuple[Cond, ...]

    @property
    def axes(self) -> list[Var]:
        """The statement's variables that the sum depends on, other than the last."""
        return [v for v in self.build.vars[:-1] if v in self.total.free]

    @property
    def saved(self) -> Index:
        """The saved terms minus the cost of storing and adding up the product, as an index of dims."""
        wide, narrow, window = (v.extent for v in (self.build.vars[-1], self.at, self.q))
        terms = prod((v.extent for v in self.total.vars), start=ONE_INDEX)
        return terms * (wide - narrow) - window * (wide + narrow) * WORTH

    @property
    def early(self) -> int:
        """The number of leading axes that must precede the window's: those that its factors depend on."""
        theirs = [k for k, v in enumerate(self.axes, 1) if any(v in f.free for f in self.factors if self.q in f.free)]
        return max(theirs, default=0)

    def statements(self, place: int) -> Changed:
        """The product, with the window's axis after `place` others, and the sum of its shifts."""
        s, q, j = self.build, self.q, self.build.vars[-1]
        kept = [*self.axes[:place], q, *self.axes[place:], self.at]
        fresh = tuple(Var(v.name, v.extent) for v in kept)
        rename = Substitution(variables={v: as_index(w) for v, w in zip(kept, fresh, strict=True)})
        out = ir.Ref(f"{s.outs[0].name}_product", self.total.dtype, [v.extent for v in fresh])
        term = expr.bracket(self.conds, expr.mul(*self.factors))
        product = expr.reduce("sum", [v for v in self.total.vars if v is not q], term)
        v = as_index(j) - as_index(q) * self.step - self.first
        element = expr.get(out, *kept[:-1], v)
        inside = (cond(">=", v), cond(">=", self.at.extent - 1 - v))
        return ([ir.Build((out,), fresh, (rename.scalar(product),), s.positions)],
                expr.reduce("sum", [q], expr.bracket(inside, element)))


def _shift(total: ir.Reduce, b: ir.Bracket, s: ir.Build, q: Var) -> Shift | None:
    """The sum as a `Shift` by q; None if it depends on the last axis in another way."""
    if not s.vars or len(total.vars) < 2 or not isinstance(b.arg, ir.Mul):
        return None
    j = s.vars[-1]
    step = next((n for n in (_step(c, j, q) for c in b.conds) if n is not None), None)
    if step is None or not all(isinstance(f, ir.Get | ir.Const) for f in b.arg.args):
        return None
    there = Substitution(variables={j: as_index(j) + as_index(q) * step})  # from here on j is j - step * q
    mine = [c for c in b.conds if j in c.free]
    bounds = _range([there.index(c.index) for c in mine], j) if all(c.op == ">=" for c in mine) else None
    if bounds is None:
        return None
    first, last = bounds
    at = Var(j.name, as_index(last - first + 1))
    if at.extent.constant is None and not any(
        d is at.extent for f in b.arg.args if isinstance(f, ir.Get) for d in f.ref.shape
    ):
        return None  # it might be none
    here = Substitution(variables={j: as_index(at) + first})
    factors = tuple(here.scalar(there.scalar(f)) if j in f.free else f for f in b.arg.args)
    conds = tuple(c for c in b.conds if j not in c.free)
    if any(j in f.free and q in g.free for f, g in zip(b.arg.args, factors, strict=True)):
        return None
    if not all(is_inside(f, conds) for f in factors):
        return None
    return Shift(total, s, q, step, first, at, factors, conds)


def _step(c: Cond, j: Var, q: Var) -> int | None:
    """The number n if a condition is about j - n * q; else None."""
    of_j, of_q = c.index.coefficient(j), c.index.coefficient(q)
    if j not in c.free or q not in c.free or of_j is None or of_q is None or of_q.constant is None:
        return None
    return -of_q.constant * of_j.constant if of_j.constant in (1, -1) else None


def _range(limits: Sequence[Index], v: Var) -> tuple[Index, Index] | None:
    """The smallest and largest v with no negative limit; None if limits involve more, or leave it open."""
    lows: list[Index] = []
    highs: list[Index] = []
    for i in limits:
        factor = i.coefficient(v)
        if factor is None or factor.constant not in (1, -1):
            return None
        rest = i - as_index(v) * factor.constant
        if rest.free:
            return None
        (lows if factor.constant == 1 else highs).append(rest * -factor.constant)
    low = [x for x in lows if all(prove_nonnegative(x - y) for y in lows)]
    high = [x for x in highs if all(prove_nonnegative(y - x) for y in highs)]
    return (low[0], high[0]) if low and high and cond(">=", high[0] - low[0]) is not False else None
