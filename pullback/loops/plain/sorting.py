"""Kernels that sort rows, each row by a procedure of the target (`codegen/c/sorting.py`).

A row takes twice its keys and a few more as working memory, and one table of counts.
"""

from __future__ import annotations

from typing import Final

from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Var, as_index
from pullback.ir.types import u32, u64
from pullback.loops.plain.builder import KernelBuilder
from pullback.loops.program.ahead import Run
from pullback.loops.program.nodes import Check, For, Kernel, Procedure, Sorting, Stmt
from pullback.loops.program.values import Buffer

NETWORK: Final = 32  # keys beyond twice those of the shortest row that is sorted by vectors: eight vectors in all
MOST: Final = 1 << 32  # most elements of a row: counts and packed positions are 32-bit


def sort_kernel(s: ir.Sort, builder: KernelBuilder) -> Kernel:
    """The kernel of a sort of a stored array: see `passes.order`."""
    value = s.value
    assert isinstance(value, ir.Get) and value.indices == tuple(map(as_index, s.vars)), "a pass stores what is sorted"
    source, out = builder.parameter(value.ref), builder.parameter(s.out)
    count = s.vars[-1].extent
    rows = ONE_INDEX
    for v in s.vars[:-1]:
        rows = rows * v.extent
    wide, places = value.dtype.bits > 32, s.what == "positions"
    like = Buffer("keys", u64 if wide or places else u32, (), "arena", ONE_INDEX)
    keys = builder.scratch("keys", like, count * (4 if wide and places else 2) + NETWORK)
    counts = builder.scratch("counts", Buffer("counts", u32, (), "arena", ONE_INDEX), 256 * like.dtype.size)
    row = Var("row", rows)
    at = as_index(row) * count
    body: Stmt = Procedure(
        Sorting(value.dtype, s.what),
        reads=(Run(source, at, count),),
        writes=(Run(out, at, count), Run(keys, ZERO_INDEX, keys.elements), Run(counts, ZERO_INDEX, counts.elements)),
        numbers=(count,),
    )
    checks = () if (count.constant or MOST) < MOST else (Check(count, as_index(MOST), builder.site(s.out.name, None)),)
    return builder.kernel((*checks, For(row, ZERO_INDEX, rows, (body,), independent=True)))
