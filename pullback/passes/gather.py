"""Small statements move up to where what they read is there, so that statements over one large space are neighbours.

Before    y = build n < N { .. }    c = build { sqrt(s) }    z = build n < N { c * y[n] }
After     c = build { sqrt(s) }     y = build n < N { .. }   z = build n < N { c * y[n] }

`loops.group` makes one loop of neighbours. Large arrays keep their order, and so the memory they need.
"""

from __future__ import annotations

from dataclasses import replace

from pullback.ir.expr import Reduce
from pullback.ir.program import Block, Build, Choose, Fold, Program, Statement, While, statement_reads
from pullback.ir.traverse import walk
from pullback.passes.cost import size
from pullback.rewrite.fired import fired

SMALL = 64  # elements and terms of a statement that may move


def gather_neighbours(program: Program) -> Program:
    """The program with small statements as early as they can be."""
    return program.with_body(_block(program.body))


def _block(block: Block) -> Block:
    out: list[Statement] = []
    for s in block.statements:
        match s:
            case Fold():
                s = replace(s, body=_block(s.body))
            case While():
                s = replace(s, test=_block(s.test), body=_block(s.body))
            case Choose():
                s = replace(s, then=_block(s.then), otherwise=_block(s.otherwise))
            case _:
                pass
        at = len(out)
        if isinstance(s, Build) and _is_small(s):
            reads = set(statement_reads(s))
            while at and reads.isdisjoint(out[at - 1].outs) and not _is_small(out[at - 1]):
                at -= 1
        if at < len(out):
            fired("gather.small")
        out.insert(at, s)
    return replace(block, statements=tuple(out))


def _is_small(s: Statement) -> bool:
    if not isinstance(s, Build):
        return False
    own = size(tuple(v.extent for v in s.vars))
    terms = [size(tuple(v.extent for v in n.vars)) for e in s.values for n in walk(e) if isinstance(n, Reduce)]
    return all(n is not None and n <= SMALL for n in (own, *terms))
