"""Factors in one order: numbers, what depends on few loops, elements in the order in which arrays are defined.

Before    y = build n < N { sum m < M { g[n, m] * w[n, m] } }      w an input, g computed
After     y = build n < N { sum m < M { w[n, m] * g[n, m] } }

So equal work looks equal however it was written, is computed once, and gives the same C; what loops leave alone stands
in front of what they change. The product of two numbers does not depend on their order; longer products are sorted only
where reassociation is allowed.
"""

from __future__ import annotations

from dataclasses import replace

from pullback.ir import expr
from pullback.ir.expr import Add, Apply, Bracket, Cast, Const, Get, Mul, Reduce, Ref, Scalar, Select
from pullback.ir.program import Block, Build, Program, Scatter, Sort, Statement, bound_refs, map_blocks, map_scalars
from pullback.ir.traverse import walk


def commute(program: Program) -> Program:
    """The program with the factors of every product in order."""
    places = {r: k for k, r in enumerate(program.inputs)}
    work = _Commute(places, program.settings.exact)
    return program.with_body(work.block(program.body))


class _Commute:
    def __init__(self, places: dict[Ref, int], exact: bool) -> None:
        self.places = places
        self.exact = exact
        self.done: dict[Scalar, Scalar] = {}

    def block(self, block: Block) -> Block:
        """The statements in order; what they define is numbered on the way."""
        out: list[Statement] = []
        for s in block.statements:
            for r in bound_refs(s):
                self.places[r] = len(self.places)
            match s:
                case Build() | Scatter() | Sort():
                    s = map_scalars(s, self.scalar)
                case _:
                    s = map_blocks(s, self.block)
            for r in s.outs:
                self.places[r] = len(self.places)
            out.append(s)
        return replace(block, statements=tuple(out))

    def scalar(self, e: Scalar) -> Scalar:
        """The expression with its factors in order; each node once."""
        for node in walk(e, into_indices=False):
            if node not in self.done:
                self.done[node] = self._node(node)
        return self.done[e]

    def _node(self, e: Scalar) -> Scalar:
        done = self.done
        match e:
            case Mul():
                args = [done[a] for a in e.args]
                free = sum(not isinstance(a, Const) for a in args)
                return expr.mul(*(sorted(args, key=self.key) if free == 2 or not self.exact else args))
            case Add():
                return expr.add(*(done[a] for a in e.args))
            case Apply():
                return expr.apply(e.primitive, *(done[a] for a in e.args))
            case Bracket():
                return expr.bracket(e.conds, done[e.arg])
            case Select():
                return expr.select(done[e.test], done[e.then], done[e.otherwise])
            case Reduce():
                return expr.reduce(e.op, e.vars, done[e.arg])
            case Cast():
                return expr.cast(done[e.arg], e.dtype)
            case _:
                return e

    def key(self, e: Scalar) -> tuple[int, ...]:
        """Numbers first, then what depends on the fewest loops, of these elements by their array, then all else."""
        if isinstance(e, Const):
            return (0,)
        return (1, len(e.free), self.places.get(e.ref, -1) if isinstance(e, Get) else len(self.places))
