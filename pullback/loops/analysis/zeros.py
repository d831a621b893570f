"""Arrays that are zero on one side of a diagonal or in a border, to shorten products.

    q = build k < K, i < D, j < D { [i == j] exp(d[k, i]) + [i > j] l[k, place(i, j)] }    is zero for j > i
    p = build c < C, i < H + 2 { [i >= 1, H - i >= 0] x[c, i - 1] }                        is zero for i < 1 and i > H

A product that sums over such a j, for some values of i at a time, ends its sum at the largest of them. A sum over the
window of a convolution takes the part of the window that is inside. As with zero borders (`passes/pad.py`), the other
factor is ignored there, even if it is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index, prove_nonnegative
from pullback.records import dataclass

Axes = tuple[int, int]  # an array is zero where its index on the second axis is larger than that on the first
Ends = tuple[Index, Index]


@dataclass(frozen=True)
class Zeros:
    """Where an array is zero.

    Attributes:
        triangle: above the diagonal of these axes.
        inside: outside the first and the last of these indices, by axis.
    """

    triangle: Axes | None
    inside: tuple[Ends | None, ...]


def zeros(statements: Iterable[ir.Statement]) -> dict[ir.Ref, Zeros]:
    """Where each array is zero, if its statement shows that."""
    out: dict[ir.Ref, Zeros] = {}
    for s in statements:
        if isinstance(s, ir.Build):
            for o, value in zip(s.outs, s.values, strict=True):
                found = Zeros(_triangle(value, s.vars), tuple(_inside(value, v) for v in s.vars))
                if found.triangle or any(found.inside):
                    out[o] = found
    return out


def _triangle(value: ir.Scalar, variables: tuple[Var, ...]) -> Axes | None:
    terms = value.args if isinstance(value, ir.Add) else (value,)
    if not all(isinstance(t, ir.Bracket) for t in terms):
        return None
    for p, q in permutations(range(len(variables)), 2):
        i, j = variables[p], variables[q]
        if i.extent is j.extent and all(
            isinstance(t, ir.Bracket) and prove_nonnegative(as_index(i) - as_index(j), t.conds) for t in terms
        ):
            return p, q
    return None


def _inside(value: ir.Scalar, v: Var) -> Ends | None:
    """The first and the last index of an axis that conditions on it alone leave."""
    first, last = ZERO_INDEX, v.extent - 1
    for c in value.conds if isinstance(value, ir.Bracket) else ():
        if c.op == ">=" and c.free == {v}:
            if c.index.coefficient(v) == as_index(1):
                first = as_index(v) - c.index
            elif c.index.coefficient(v) == as_index(-1):
                last = as_index(v) + c.index
    return None if first is ZERO_INDEX and last is v.extent - 1 else (first, last)
