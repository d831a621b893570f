"""Inlining of calls: calls with rules once derivatives are taken, checkpoints once merging is over."""

from __future__ import annotations

from collections.abc import Callable

from pullback.ir import nodes as ir
from pullback.ir.program import map_blocks, with_fields
from pullback.ir.traverse import Substitution
from pullback.rewrite.cse import rename_reads
from pullback.rewrite.fired import fired


def inline_rules(program: ir.Program) -> ir.Program:
    """Replace each call that has a rule by its body; checkpoints stay."""
    return program.with_body(inline(program.body, lambda s: _body(s) if isinstance(s, ir.Call) and s.rules else None))


def inline_checkpoints(program: ir.Program) -> ir.Program:
    """Inline all calls: recomputation by checkpoints becomes ordinary statements."""
    return program.with_body(inline(program.body, lambda s: _body(s) if isinstance(s, ir.Call) else None))


def inlined(s: ir.Call) -> ir.Block:
    """The body of a call over its operands, with fresh names."""
    return Substitution(refs=dict(zip(s.params, s.operands, strict=True))).block(s.body)


def _body(s: ir.Call) -> ir.Block:
    fired("call.inline")
    return inlined(s)


def inline(block: ir.Block, body_of: Callable[[ir.Statement], ir.Block | None]) -> ir.Block:
    """The block with statements replaced by those of their bodies, at all depths; others have no body."""
    out: list[ir.Statement] = []
    given: dict[ir.Ref, ir.Ref] = {}
    for s in block.statements:
        s = rename_reads(s, given) if given else s
        body = body_of(s)
        if body is None:
            out.append(map_blocks(s, lambda inner: inline(inner, body_of)))
        else:
            body = inline(body, body_of)
            out += body.statements
            given.update(zip(s.outs, body.results, strict=True))
    return with_fields(block, statements=tuple(out), results=tuple(given.get(r, r) for r in block.results))
