"""Small statements move up to where what they read is there, so that statements over one large space are neighbours.

Before    y = build n < N { .. }    c = build { sqrt(s) }    z = build n < N { c * y[n] }
After     c = build { sqrt(s) }     y = build n < N { .. }   z = build n < N { c * y[n] }

`loops.group` makes one loop of neighbours. Large arrays keep their order, and so the memory they need.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from pullback.ir.expr import Reduce
from pullback.ir.program import Block, Build, Program, Statement, map_blocks, statement_reads
from pullback.ir.traverse import walk
from pullback.passes.cost import size
from pullback.rewrite.fired import fired

SMALL = 64  # elements and terms of a statement that may move
WIDER = 8  # how many times as many one has that it moves past


def gather_neighbours(program: Program) -> Program:
    """The program with small statements as early as they can be."""
    return program.with_body(_block(program.body))


def _block(block: Block) -> Block:
    out: list[Statement] = []
    for s in block.statements:
        s = map_blocks(s, _block)
        at = len(out)
        if _work(s) <= SMALL:
            reads = set(statement_reads(s))
            while at and reads.isdisjoint(out[at - 1].outs) and _work(out[at - 1]) > WIDER * _work(s):
                at -= 1
        if at < len(out):
            fired("gather.small")
        out.insert(at, s)
    return replace(block, statements=tuple(out))


def _work(s: Statement) -> float:
    """Elements of a build, or terms of a reduction in it where they are more; anything else is large."""
    if not isinstance(s, Build):
        return inf
    spaces = [s.vars, *(n.vars for e in s.values for n in walk(e) if isinstance(n, Reduce))]
    found = [size(tuple(v.extent for v in space)) for space in spaces]
    return max(inf if n is None else n for n in found)
