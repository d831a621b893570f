"""Arrays that are zero on one side of a diagonal (`triangles.py`) or in a border, to shorten products.

    p = build c < C, i < H + 2 { [i >= 1, H - i >= 0] x[c, i - 1] }    is zero for i < 1 and i > H

A sum over the window of a convolution takes the part of the window that is inside. As with triangles, the other factor
is ignored outside, even if it is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Mapping

from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.program import walk_statements
from pullback.loops.analysis.seeds import Seeds, seeds
from pullback.loops.analysis.triangles import Axes, copied, triangle
from pullback.records import dataclass

Ends = tuple[Index, Index]


@dataclass(frozen=True)
class Zeros:
    """The places at which an array is zero.

    Attributes:
        triangle: above the diagonal of these axes.
        inside: outside the first and the last of these indices, by axis.
        seeds: probably almost everywhere, as it began at unit vectors along these axes.
    """

    triangle: Axes | None
    inside: tuple[Ends | None, ...]
    seeds: Seeds = Seeds()


def zeros(block: ir.Block) -> dict[ir.Ref, Zeros]:
    """Where each array is zero, if its statement shows that."""
    seeded = seeds(block)
    out = {r: Zeros(None, (None,) * r.rank, axes) for r, axes in seeded.items()}
    for s in walk_statements(block):
        if isinstance(s, ir.Build):
            for o, value in zip(s.outs, s.values, strict=True):
                read = out.get(value.ref) if isinstance(value, ir.Get) else None
                copy = copied(value, s.vars, read.triangle) if read is not None and read.triangle else None
                inside = tuple(_inside(value, v) for v in s.vars)
                found = Zeros(copy or triangle(value, s.vars), inside, seeded.get(o, Seeds()))
                if found.triangle or any(found.inside):
                    out[o] = found
    return out


def ends(r: ir.Reduce, known: Mapping[ir.Ref, Zeros]) -> list[tuple[Var, Var]]:
    """Pairs of variables i, j: the terms of a sum are zero where its variable j is larger than i."""
    term = r.arg.arg if isinstance(r.arg, ir.Bracket) else r.arg
    out: list[tuple[Var, Var]] = []
    for g in term.args if isinstance(term, ir.Mul) else (term,):
        axes = known[g.ref].triangle if isinstance(g, ir.Get) and g.ref in known and r.op == "sum" else None
        if isinstance(g, ir.Get) and axes is not None:
            i, j = (g.indices[axis].single for axis in axes)
            if isinstance(i, Var) and i not in r.vars and j in r.vars:
                out.append((i, j))
    return out


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
