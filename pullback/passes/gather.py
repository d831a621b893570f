"""Statement gathering: statements move up to their operands, so that those over one space meet.

Before    y = build n < N { .. }    c = build { sqrt(s) }    z = build n < N { c * y[n] }
After     c = build { sqrt(s) }     y = build n < N { .. }   z = build n < N { c * y[n] }

Before    m = build n < N { .. }    other statements    p = build n < N { q[n] + m[n] }    return m, p
After     m = build n < N { .. }    p = build n < N { q[n] + m[n] }    other statements    return m, p

`vectors.group` then makes one loop of neighbors, such as all operations of an optimizer on a parameter. Among large
arrays only results move, because they live equally long in any order. No statement moves past a reader of an array that
it may overwrite.
"""

from __future__ import annotations

from math import inf

from pullback.ir import nodes as ir
from pullback.ir.index import as_index
from pullback.ir.program import statement_reads, with_fields
from pullback.ir.traverse import walk
from pullback.ir.walks import each_block
from pullback.passes.cost import has_data_index, has_reduction, size
from pullback.rewrite.fired import fired

SMALL = 64  # most elements and terms of a statement that moves
WIDER = 8  # a statement moves past one with at least this many times as many


def gather_neighbors(program: ir.Program) -> ir.Program:
    """Move small statements as early as possible, and results next to their inputs."""
    return each_block(program, _block)


def _block(block: ir.Block) -> ir.Block:
    out: list[ir.Statement] = []
    for s in block.statements:
        at = len(out)
        if _work(s) <= SMALL:
            reads = set(statement_reads(s))
            while at and reads.isdisjoint(out[at - 1].outs) and _work(out[at - 1]) > WIDER * _work(s):
                at -= 1
        if at < len(out):
            fired("gather.small")
        out.insert(at, s)
    return with_fields(block, statements=tuple(_beside_operands(out, set(block.results))))


def _beside_operands(statements: list[ir.Statement], results: set[ir.Ref]) -> list[ir.Statement]:
    """Move elementwise results right behind the last statement over their space that they read."""
    place: dict[ir.Ref, tuple[int, ...]] = {}  # of the statement that makes an array
    read: dict[ir.Ref, tuple[int, ...]] = {}  # of the last statement that reads it
    makers: dict[ir.Ref, ir.Build] = {}
    keyed: list[tuple[tuple[int, ...], ir.Statement]] = []
    for k, s in enumerate(statements):
        reads = statement_reads(s)
        key: tuple[int, ...] = (k,)
        last = max((r for r in reads if r in place), key=lambda r: place[r], default=None)
        if last in makers and results.issuperset(s.outs) and _is_at_own_points(s, makers[last]):
            behind = place[last]
            if all(read.get(r, behind) <= behind for r in reads if (size(r.shape) or inf) > SMALL):
                key = (*behind, k)
                fired("gather.result")
        keyed.append((key, s))
        place |= dict.fromkeys(s.outs, key)
        read |= {r: max(read.get(r, key), key) for r in reads}
        if isinstance(s, ir.Build):
            makers |= dict.fromkeys(s.outs, s)
    return [s for _, s in sorted(keyed, key=lambda x: x[0])]


def _is_at_own_points(s: ir.Statement, maker: ir.Build) -> bool:
    """Whether both are elementwise over one large space, and one reads the other at its own points alone."""
    if not isinstance(s, ir.Build) or _work(s) <= SMALL or any(map(has_reduction, (*s.values, *maker.values))):
        return False
    if [v.extent for v in s.vars] != [v.extent for v in maker.vars]:
        return False
    here = tuple(as_index(v) for v in s.vars)
    gets = (n for e in s.values for n in walk(e) if isinstance(n, ir.Get))
    return not any(map(has_data_index, s.values)) and all(g.indices == here for g in gets if g.ref in maker.outs)


def _work(s: ir.Statement) -> float:
    """Elements of a build, or terms of a reduction in it where they are more; anything else is large."""
    if not isinstance(s, ir.Build):
        return inf
    spaces = [s.vars, *(n.vars for e in s.values for n in walk(e) if isinstance(n, ir.Reduce))]
    found = [size(tuple(v.extent for v in space)) for space in spaces]
    return max(inf if n is None else n for n in found)
