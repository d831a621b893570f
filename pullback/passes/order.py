"""Sorting: sorted expressions become arrays, and elements read in sorted order are sorted instead.

Before    p = order n < N { -x[n] }                    v = build n < N { y[data(q[n])] }  with q = order n < N { y[n] }
After     k = build n < N { -x[n] }                    v = sort n < N { y[n] }
          p = order n < N { k[n] }

Elements move with less than their positions do; positions that something else needs are computed once and read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pullback.ir import expr
from pullback.ir.expr import Get, Ref
from pullback.ir.index import Data, Dim, as_index
from pullback.ir.program import Block, Build, Program, Sort, Statement, statement_reads, with_fields
from pullback.ir.walks import each_block
from pullback.rewrite.fired import fired


def order_arrays(program: Program) -> Program:
    """Make sorts read stored arrays."""
    return each_block(program, _block)


def _block(block: Block) -> Block:
    reads: Counter[Ref] = Counter(block.results)
    for s in block.statements:
        reads.update(statement_reads(s).keys())
    sorts: dict[Ref, Sort] = {}
    out: list[Statement] = []
    for s in block.statements:
        match s:
            case Sort():
                if not _reads_in_place(s):
                    keys = Ref(f"{s.out.name}_keys", s.value.dtype, tuple(v.extent for v in s.vars))
                    out.append(Build((keys,), s.vars, (s.value,), s.positions))
                    s = replace(s, value=expr.get(keys, *s.vars))
                sorts[s.out] = s
            case Build():
                order = sorts.get(_positions(s)) if len(s.values) == 1 else None  # type: ignore[arg-type]
                if order is not None and reads[order.out] == 1 and _is_sorted(s, order):
                    fired("order.values")
                    ordered = replace(order, what="values", positions=s.positions or order.positions)
                    out.remove(order)
                    if _extents(s) == _extents(order):
                        s = replace(ordered, out=s.outs[0])
                    else:
                        # Some of the elements, as `top_k` takes them: all are put in order, in an array of their own.
                        values = Ref(f"{s.outs[0].name}_in_order", s.outs[0].dtype, _extents(order))
                        out.append(replace(ordered, out=values))
                        s = replace(s, values=(expr.get(values, *s.vars),))
        out.append(s)
    return with_fields(block, statements=tuple(out))


def _reads_in_place(s: Sort) -> bool:
    value = s.value
    return isinstance(value, Get) and value.indices == tuple(map(as_index, s.vars))


def _positions(s: Build) -> Ref | None:
    """The array of positions that a build reads elements at, along the last axis."""
    value = s.values[0]
    last = value.indices[-1].single if isinstance(value, Get) and value.indices else None
    inner = last.scalar if isinstance(last, Data) else None
    return inner.ref if isinstance(inner, Get) and inner.indices == tuple(map(as_index, s.vars)) else None


def _extents(s: Build | Sort) -> tuple[Dim, ...]:
    return tuple(v.extent for v in s.vars)


def _is_sorted(s: Build, order: Sort) -> bool:
    """Whether a build reads the sorted array at the sort's positions."""
    value, key = s.values[0], order.value
    assert isinstance(value, Get) and isinstance(key, Get)
    return value.ref is key.ref and value.indices[:-1] == tuple(map(as_index, s.vars[:-1]))
