"""Inlining of calls: calls with rules once derivatives are taken, checkpoints once merging is over."""

from __future__ import annotations

from functools import partial

from pullback.ir import nodes as ir
from pullback.ir.program import map_blocks, with_fields
from pullback.ir.traverse import Substitution
from pullback.rewrite.cse import rename_reads
from pullback.rewrite.fired import fired


def inline_rules(program: ir.Program) -> ir.Program:
    """Replace each call that has a rule by its body; checkpoints stay."""
    return program.with_body(_block(program.body, checkpoints=False))


def inline_checkpoints(program: ir.Program) -> ir.Program:
    """Inline all calls: recomputation by checkpoints becomes ordinary statements."""
    return program.with_body(_block(program.body, checkpoints=True))


def inlined(s: ir.Call) -> ir.Block:
    """The body of a call over its operands, with fresh names."""
    return Substitution(refs=dict(zip(s.params, s.operands, strict=True))).block(s.body)


def _block(block: ir.Block, checkpoints: bool) -> ir.Block:
    out: list[ir.Statement] = []
    given: dict[ir.Ref, ir.Ref] = {}
    for s in block.statements:
        s = rename_reads(s, given) if given else s
        if isinstance(s, ir.Call) and (checkpoints or s.rules):
            fired("call.inline")
            body = _block(inlined(s), checkpoints)
            out += body.statements
            given.update(zip(s.outs, body.results, strict=True))
        else:
            out.append(map_blocks(s, partial(_block, checkpoints=checkpoints)))
    return with_fields(block, statements=tuple(out), results=tuple(given.get(r, r) for r in block.results))
