"""Triangular arrays, zero where the row is shorter than the column, to shorten products.

    q = build k < K, i < D, j < D { [i == j] exp(d[k, i]) + [i > j] l[k, place(i, j)] }    is zero for j > i

A product that sums over such a j, for some values of i at a time, ends its sum at the largest of them. As with zero
borders (`passes/pad.py`), the other factor is ignored there, even if it is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

from pullback.ir import nodes as ir
from pullback.ir.index import Var, as_index, prove_nonnegative

Axes = tuple[int, int]  # an array is zero where its index on the second axis is larger than that on the first


def triangles(statements: Iterable[ir.Statement]) -> dict[ir.Ref, Axes]:
    """The axes of each array whose statement shows that it is such a triangle."""
    out: dict[ir.Ref, Axes] = {}
    for s in statements:
        if isinstance(s, ir.Build):
            for o, value in zip(s.outs, s.values, strict=True):
                axes = _axes(value, s.vars)
                if axes is not None:
                    out[o] = axes
    return out


def _axes(value: ir.Scalar, variables: tuple[Var, ...]) -> Axes | None:
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
