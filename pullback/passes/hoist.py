"""Small statements that are the same in every trip of a loop leave it.

Before    fold t < T (w = w0) { f = build { all n < N { isfinite(x[n]) } }  .. f .. }
After     f = build { all n < N { isfinite(x[n]) } }  fold t < T (w = w0) { .. f .. }

What is hoisted lives as long as the loop, so only small results are. A loop that may have no trip keeps its statements,
as one of them may test a range.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from pullback.ir.index import Var
from pullback.ir.program import Block, Build, Fold, Program, Statement, map_blocks, statement_reads
from pullback.rewrite.fired import fired

SMALL = 64  # elements of a result that may wait for the end of a loop


def hoist_small(program: Program) -> Program:
    """The program with small statements in front of the loops that do not change them."""
    return program.with_body(_block(program.body))


def _block(block: Block) -> Block:
    out: list[Statement] = []
    for s in block.statements:
        s = map_blocks(s, _block)
        if isinstance(s, Fold) and (s.var.extent.constant or 0) >= 1:
            inner = _invariant(s)
            out += inner
            if inner:
                fired("hoist.small")
                kept = tuple(x for x in s.body.statements if x not in inner)
                s = replace(s, body=replace(s.body, statements=kept))
        out.append(s)
    return replace(block, statements=tuple(out))


def _invariant(s: Fold) -> list[Statement]:
    """The statements of the body that can stand before the loop, in order."""
    changing = {*s.states, *(o for x in s.body.statements for o in x.outs)}
    found: list[Statement] = []
    for x in s.body.statements:
        if (isinstance(x, Build) and not _free(x, s.var) and changing.isdisjoint(statement_reads(x))
                and all(_size(x) <= SMALL and o not in s.body.results for o in x.outs)):
            found.append(x)
            changing -= set(x.outs)
    return found


def _free(x: Build, var: Var) -> bool:
    return any(var in v.free for v in x.values) or any(var in v.extent.free for v in x.vars)


def _size(x: Build) -> int:
    return prod(SMALL + 1 if v.extent.constant is None else v.extent.constant for v in x.vars)
