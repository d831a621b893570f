"""Recomputation: elementwise results are computed again for late readers, to save memory.

Before    y = build i { gelu(x[i]) }  z = .. y ..    ..    u = .. y ..    v = .. x ..
After     y = build i { gelu(x[i]) }  z = .. y ..    ..    y' = build i { gelu(x[i]) }  u = .. y' ..    v = .. x ..

A derivative reads what its function made, from the last statement to the first, so that nearly all of it is alive at
once. Of an array and its activation, which the product after it reads again for the gradient of its weights, one is
enough; and a normalized array follows from the one that is to be normalized. To compute it again costs its operations,
and no memory but where it is read. Numbers do not change. (The idea is checkpointing, here of single statements:
Chen and others, Training deep nets with sublinear memory cost, 2016.)
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

LARGE = 64 * 1024  # bytes of an array that is worth computing again
SMALL = 16  # of how many times its size other arrays may stay alive for it
LONG = 4  # times its size in arrays that are made between two readers, for these to be far apart


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
