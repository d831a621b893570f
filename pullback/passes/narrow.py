"""Positions are stored in as few bytes as their range needs.

Before    p in [0, 4) = build i < N { argmax k < 4 { x[i, k] } }       i64[N]
          y = build i < N { x[i, data(p[i], 4)] }
After     p in [0, 4) = build i < N { u8(argmax k < 4 { x[i, k] }) }    u8[N]

One byte gives the position of the maximum in a block of up to 256 elements. As an index it would take eight, more than
the block's result itself. Arrays that are results, that are sorted, or that loops and choices take whole do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index
from pullback.ir.program import (
    blocks_of,
    map_blocks,
    map_scalars,
    statement_reads,
    walk_statements,
    whole_reads,
    with_fields,
)
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType, i32, i64, u8, u16
from pullback.rewrite.fired import fired

WIDTHS = ((1 << 8, u8), (1 << 16, u16), (1 << 31, i32))  # values are below the first


def narrow_positions(program: ir.Program) -> ir.Program:
    """The program with arrays of bounded positions in the smallest type that holds them."""
    whole = {r for b in _blocks(program.body) for r in b.results}
    whole.update(r for s in walk_statements(program.body) for r in whole_reads(s))
    whole.update(r for s in walk_statements(program.body) if isinstance(s, ir.Sort) for r in statement_reads(s))
    narrow: dict[ir.Ref, ir.Ref] = {}
    for s in walk_statements(program.body):
        if isinstance(s, ir.Build):
            for r in s.outs:
                dtype = _dtype(r)
                if dtype is not None and r not in whole:
                    fired("narrow.position")
                    narrow[r] = ir.Ref(r.name, dtype, r.shape, r.bounds)
    return program.with_body(_block(program.body, narrow)) if narrow else program


def _blocks(block: ir.Block) -> list[ir.Block]:
    return [block, *(b for s in walk_statements(block) for b in blocks_of(s))]


def _dtype(r: ir.Ref) -> DType | None:
    """The type for an array of positions; None to leave it."""
    if r.dtype is not i64 or r.rank == 0 or r.bounds is None:
        return None
    low, high = (b.constant for b in r.bounds)
    if low is None or high is None or low < 0:
        return None
    return next((dtype for limit, dtype in WIDTHS if high <= limit), None)


def _block(block: ir.Block, narrow: Mapping[ir.Ref, ir.Ref]) -> ir.Block:
    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        found = narrow.get(ref)
        return expr.get(ref, *indices) if found is None else expr.cast(expr.get(found, *indices), ref.dtype)

    statements = tuple(_statement(s, narrow, Substitution(get=element)) for s in block.statements)
    return with_fields(block, statements=statements)


def _statement(s: ir.Statement, narrow: Mapping[ir.Ref, ir.Ref], m: Substitution) -> ir.Statement:
    reads = not narrow.keys().isdisjoint(statement_reads(s))
    match s:
        case ir.Build():
            values = tuple(m.scalar(v) for v in s.values) if reads else s.values
            outs = tuple(narrow.get(r, r) for r in s.outs)
            return replace(s, outs=outs, values=tuple(expr.cast(v, o.dtype) for v, o in zip(values, outs, strict=True)))
        case ir.Scatter():
            return map_scalars(s, m.scalar, m.index) if reads else s
        case _:
            return map_blocks(s, lambda b: _block(b, narrow))
