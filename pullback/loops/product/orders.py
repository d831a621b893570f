"""Loop orders: a product's variables in memory order rather than in written order.

    x = build n < N, i < I, j < J, c < C { sum o < O, u < 3, v < 3 { g[n, i - u, j - v, o] * w[o, c, u, v] } }
    -->  sum u < 3, v < 3, o < O { .. }        steps of the sum are neighbors in g

A derivative's sums have the order in which variables were solved for, which need not be that of any operand. Packed
products add up in their own order anyway. So each variable that steps along an operand is tried as the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var
from pullback.ir.traverse import rewrite, walk
from pullback.loops.plain.builder import Address
from pullback.loops.product.residues import Part
from pullback.loops.vectors.nest import stride


def orders(part: Part, address: Address) -> Iterator[Part]:
    """The part itself, then with reordered variables of its own or its sum; addresses do not change."""
    yield part
    s = part.build
    sums = dict.fromkeys(n for v in s.values for n in walk(v) if isinstance(n, ir.Reduce))
    total = next(iter(sums), None)
    if total is None or len(sums) > 1 or total.op != "sum":
        return
    flat = [address(g.ref, g.indices)[1] for g in walk(total.arg) if isinstance(g, ir.Get)]
    near = [v for v in (*s.vars, *total.vars) if any(stride(i, v) == 1 for i in flat)]
    own, summed = [s.vars], [total.vars]
    if _leaps(s.vars, flat):
        own += _others(s.vars, [v for v in s.vars if v in near])
    if _leaps(total.vars, flat):
        summed += [o for v in total.vars if v in near for o in _others(total.vars, [v])]
    for variables in own:
        for order in summed:
            if (variables, order) != (s.vars, total.vars):
                by: dict[ir.Scalar, ir.Scalar] = {total: expr.reduce(total.op, order, total.arg)}
                values = tuple(rewrite(v, by.get) for v in s.values)
                yield Part(replace(s, vars=variables, values=values), part.position)


def _leaps(variables: tuple[Var, ...], flat: Sequence[Index]) -> bool:
    """Whether steps of the last variable are not neighbors in some operand."""
    return bool(variables) and any(stride(i, variables[-1]) not in (-1, 0, 1) for i in flat)


def _others(variables: tuple[Var, ...], last: Sequence[Var]) -> list[tuple[Var, ...]]:
    """The order with the variables of `last` at the end; empty if it is the given order."""
    order = (*(v for v in variables if v not in last), *last)
    return [] if order == variables else [order]
