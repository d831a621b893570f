"""Stretches: a sum that is nonzero on a part of an axis only becomes an array of that part.

Before    x = build i < 768 { [i >= 512] sum k < 128 { a[k, (i - 512) // 64] * b[k, i % 64] } + ... }
After     t = build i < 256 { sum k < 128 { a[k, i // 64] * b[k, i % 64] } }
          x = build i < 768 { [i >= 512] t[i - 512] + ... }

The gradient of an array that was read in slices has such a sum for each slice, such as queries, keys and values from
one product. A product without conditions on its results uses the kernels of products, and does no work outside its
part. Then it only has to be copied into place. It pays if at least a third of the axis is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Var, as_index, cond
from pullback.ir.traverse import Substitution
from pullback.passes.conditions import Changed, each_conditional_sum
from pullback.passes.cost import range_of, size
from pullback.rewrite.fired import fired

TERMS = 8  # of a sum that is worth an array
MOST = 2 / 3  # of the elements that a part may have
LEAST = 8  # least size of an axis worth splitting: shorter ones are split step by step (`loops/product/residues.py`)


def separate_stretches(program: ir.Program) -> ir.Program:
    """Store sums over parts of axes in separate arrays."""
    return each_conditional_sum(program, _part)


def _part(e: ir.Reduce, b: ir.Bracket, s: ir.Build) -> Changed | None:
    """The array of a sum over its part of the axes, and its reader; None if the part is large."""
    if not e.free <= {*s.vars}:
        return None
    terms = size(tuple(v.extent for v in e.vars))
    if terms is None or terms < TERMS:
        return None
    axes = [v for v in s.vars if v in e.free]
    bounds = {v: _bounds(v, b.conds) for v in axes}
    shares = [(last - first + 1) / n for v, (first, last) in bounds.items() if (n := v.extent.constant)]
    if len(shares) < len(axes) or prod(shares) > MOST:
        return None
    fresh = {v: Var(v.name, last - first + 1) for v, (first, last) in bounds.items()}
    moved = Substitution(variables={v: as_index(w) + bounds[v][0] for v, w in fresh.items()})
    out = ir.Ref(f"{s.outs[0].name}_part", e.dtype, tuple(w.extent for w in fresh.values()))
    element = expr.get(out, *(as_index(v) - first for v, (first, _) in bounds.items()))
    inside = [c for v, (first, last) in bounds.items()
              for c in (cond(">=", as_index(v) - first), cond(">=", last - as_index(v)))]
    fired("stretches.part")
    return [ir.Build((out,), tuple(fresh.values()), (moved.scalar(e),), s.positions)], expr.bracket(inside, element)


def _bounds(v: Var, conds: Sequence[Cond]) -> tuple[int, int]:
    """The least and greatest v that conditions about it alone allow, all of a short axis."""
    extent = v.extent.constant
    return (0, extent - 1) if extent is not None and extent < LEAST else range_of(v, conds)
