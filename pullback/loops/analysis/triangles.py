"""Arrays that are zero, or unread, where the column is larger than the row; for short products.

    q = build k < K, i < D, j < D { [i == j] exp(d[k, i]) + [i > j] l[k, place(i, j)] }    is zero for j > i

A product that sums over such a j, for some values of i at a time, ends its sum at the largest of them. So do packed
products and tiles. As with zero borders (`passes/pad.py`), the other factor is ignored there, even if it is infinite or
NaN. A copy of a triangle, such as a transposed operand, is one too.

The cotangent of q above is read for i >= j only (`half_read`). A packed product does not compute tiles outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

from pullback.ir import nodes as ir
from pullback.ir.expr import index_refs
from pullback.ir.index import Cond, Var, as_index, prove_nonnegative
from pullback.ir.program import blocks_of, scalars_of, statement_reads, walk_statements, whole_reads
from pullback.ir.traverse import children, indices_of, walk

Axes = tuple[int, int]  # an array is zero where its index on the second axis is larger than that on the first


def half_read(block: ir.Block) -> dict[ir.Ref, Axes]:
    """The axes of each sum's array that is read only where the second index is at most the first."""
    statements = list(walk_statements(block))
    sums = {o for s in statements if isinstance(s, ir.Build) and len(s.outs) == 1 and _has_sum(s) for o in s.outs}
    sides = {r: {(p, q) for p, q in permutations(range(r.rank), 2) if r.shape[p] is r.shape[q]} for r in sums}
    sides = {r: pairs for r, pairs in sides.items() if pairs and r not in block.results}
    seen: set[tuple[ir.Scalar, tuple[Cond, ...]]] = set()

    def read(e: ir.Scalar, conds: tuple[Cond, ...]) -> None:
        if e.refs.isdisjoint(sides) or (e, conds) in seen:
            return
        seen.add((e, conds))
        for i in indices_of(e):
            lose(index_refs(i))
        if isinstance(e, ir.Get) and e.ref in sides:
            sides[e.ref] = {(p, q) for p, q in sides[e.ref] if prove_nonnegative(e.indices[p] - e.indices[q], conds)}
        within = (*conds, *e.conds) if isinstance(e, ir.Bracket) else conds
        for c in children(e):
            read(c, within)

    def lose(refs: Iterable[ir.Ref]) -> None:
        for r in refs:
            sides.pop(r, None)

    for s in statements if sides else ():
        for b in blocks_of(s):
            lose(b.results)
        lose(whole_reads(s))
        if isinstance(s, ir.Scatter):
            lose(r for i in s.indices for r in index_refs(i))
        if isinstance(s, ir.Build | ir.Scatter):
            for v in scalars_of(s):
                read(v, ())
        elif isinstance(s, ir.Sort):
            lose(statement_reads(s))
    return {r: min(pairs) for r, pairs in sides.items() if pairs}


def _has_sum(s: ir.Build) -> bool:
    return any(isinstance(n, ir.Reduce) and n.op == "sum" for v in s.values for n in walk(v))


def copied(value: ir.Scalar, variables: tuple[Var, ...], axes: Axes) -> Axes | None:
    """The axes of an array whose elements are those of a triangle with these axes."""
    if not isinstance(value, ir.Get):
        return None
    i, j = (value.indices[axis].single for axis in axes)
    return (variables.index(i), variables.index(j)) if i in variables and j in variables else None


def triangle(value: ir.Scalar, variables: tuple[Var, ...]) -> Axes | None:
    """The axes above whose diagonal a statement's value is zero."""
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
