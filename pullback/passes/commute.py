"""A canonical order of factors: numbers, loop invariants, elements by the order of their arrays.

Before    y = build n < N { sum m < M { g[n, m] * w[n, m] } }      w an input, g computed
After     y = build n < N { sum m < M { w[n, m] * g[n, m] } }

So equal work looks equal however it was written, is computed once, and gives the same C. Loop invariants come first. A
product of two factors does not depend on their order. Longer products are sorted only where reassociation is allowed.
"""

from __future__ import annotations

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.program import bound_refs, walk_statements
from pullback.ir.traverse import walk
from pullback.ir.walks import each_scalar
from pullback.rewrite.normal_form import peel_guards, under_guards


def commute(program: ir.Program) -> ir.Program:
    """The program with the factors of every product in order."""
    made = (r for s in walk_statements(program.body) for r in (*bound_refs(s), *s.outs))
    places = {r: k for k, r in enumerate((*program.inputs, *made))}
    return each_scalar(program, _Commute(places, program.settings.exact).scalar)


class _Commute:
    def __init__(self, places: dict[ir.Ref, int], exact: bool) -> None:
        self.places = places
        self.exact = exact
        self.done: dict[ir.Scalar, ir.Scalar] = {}

    def scalar(self, e: ir.Scalar) -> ir.Scalar:
        """The expression with its factors in order; each node once."""
        for node in walk(e, into_indices=False):
            if node not in self.done:
                self.done[node] = self._node(node)
        return self.done[e]

    def _node(self, e: ir.Scalar) -> ir.Scalar:
        done = self.done
        match e:
            case ir.Mul():
                return self._product(expr.mul(*(done[a] for a in e.args)))
            case ir.Add():
                return expr.add(*(done[a] for a in e.args))
            case ir.Apply():
                return expr.apply(e.primitive, *(done[a] for a in e.args))
            case ir.Bracket():
                return expr.bracket(e.conds, done[e.arg])
            case ir.Select():
                return expr.select(done[e.test], done[e.then], done[e.otherwise])
            case ir.Reduce():
                return expr.reduce(e.op, e.vars, done[e.arg])
            case ir.Cast():
                return expr.cast(done[e.arg], e.dtype)
            case _:
                return e

    def _product(self, e: ir.Scalar) -> ir.Scalar:
        """Order a product, flattening factors that became products."""
        guards, core = peel_guards(e)
        if not isinstance(core, ir.Mul) or (self.exact and sum(not expr.is_sign(a) for a in core.args) != 2):
            return e
        args = sorted(core.args, key=self.key)
        return e if tuple(args) == core.args else under_guards(expr.mul(*args), guards)

    def key(self, e: ir.Scalar) -> tuple[int, ...]:
        """The sort key: numbers, then the factors that depend on fewest loops, elements by array, others."""
        if isinstance(e, ir.Const):
            return (0,)
        return (1, len(e.free), self.places.get(e.ref, -1) if isinstance(e, ir.Get) else len(self.places))
