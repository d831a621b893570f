"""Recomputation: elementwise results are computed again for late readers, to save memory.

Before    y = build i { gelu(x[i]) }  z = .. y ..    ..    u = .. y ..    v = .. x ..
After     y = build i { gelu(x[i]) }  z = .. y ..    ..    y' = build i { gelu(x[i]) }  u = .. y' ..    v = .. x ..

A derivative reads its function's arrays from the last statement to the first, so nearly all are alive at once. The
weight gradient reads an activation again, but the array before it is enough: the activation follows from it. A
normalized array follows from the original in the same way. Recomputing costs operations, but memory only at the reader.
Numbers do not change. This is checkpointing of single statements (Chen and others, Training deep nets with sublinear
memory cost, 2016).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index
from pullback.ir.program import statement_reads, with_fields
from pullback.ir.traverse import Substitution
from pullback.ir.walks import each_block
from pullback.passes.cost import has_data_index, has_reduction
from pullback.rewrite.fired import fired

LARGE = 64 * 1024  # least bytes of an array worth recomputing
SMALL = 16  # bytes of other arrays that may stay alive for it, as a multiple of its size
LONG = 4  # bytes of arrays made between two distant readers, as a multiple of its size


def compute_again(program: ir.Program) -> ir.Program:
    """Recompute long-lived elementwise arrays for their late readers."""
    return each_block(program, _block)


def _block(block: ir.Block) -> ir.Block:
    readers: dict[ir.Ref, list[int]] = {}
    for k, s in enumerate(block.statements):
        for r in statement_reads(s):
            readers.setdefault(r, []).append(k)
    made = [sum(map(_bytes, s.outs)) for s in block.statements]
    changed: dict[int, ir.Statement] = {}
    before: dict[int, list[ir.Statement]] = {}
    for s in block.statements:
        late = _late(s, readers, made, block)
        if late:
            assert isinstance(s, ir.Build)
            fired("again.elementwise")
            again = Substitution().statement(s)
            before.setdefault(late[0], []).append(again)
            for k in late:
                reader = changed.get(k, block.statements[k])
                assert isinstance(reader, ir.Build)
                changed[k] = _reading(reader, {s.outs[0]: again.outs[0]})
    if not changed:
        return block
    statements = (x for k, s in enumerate(block.statements) for x in (*before.get(k, ()), changed.get(k, s)))
    return with_fields(block, statements=tuple(statements))


def _late(s: ir.Statement, readers: Mapping[ir.Ref, list[int]], made: list[int], block: ir.Block) -> list[int]:
    """The positions of late readers of an array; none if recomputing does not pay."""
    if not isinstance(s, ir.Build) or len(s.outs) != 1 or s.outs[0] in block.results:
        return []
    r, value = s.outs[0], s.values[0]
    size = _bytes(r)
    places = readers.get(r, [])
    if size < LARGE or len(places) < 2 or has_reduction(value) or has_data_index(value):
        return []
    gaps = [sum(made[a + 1 : b]) for a, b in pairwise(places)]
    widest = max(gaps)
    first = gaps.index(widest) + 1
    late = places[first:]
    if widest < LONG * size or not all(isinstance(block.statements[k], ir.Build) for k in late):
        return []
    waiting = [q for q in statement_reads(s) if SMALL * _bytes(q) > size]
    return late if all(readers[q][-1] > places[first - 1] for q in waiting) else []


def _reading(s: ir.Build, instead: Mapping[ir.Ref, ir.Ref]) -> ir.Build:
    """The statement reading other arrays."""

    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        return expr.get(instead.get(ref, ref), *indices)

    return replace(s, values=tuple(map(Substitution(get=element).scalar, s.values)))


def _bytes(r: ir.Ref) -> int:
    return prod(d.constant or 1 for d in r.shape) * r.dtype.size
