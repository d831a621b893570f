"""Sorting: sorted expressions become arrays, and elements read in sorted order are sorted instead.

Before    p = order n < N { -x[n] }                    v = build n < N { y[data(q[n])] }  with q = order n < N { y[n] }
After     k = build n < N { -x[n] }                    v = sort n < N { y[n] }
          p = order n < N { k[n] }

Sorting elements is cheaper than sorting positions. Positions with other readers are computed once and read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Data, Dim, as_index
from pullback.ir.program import statement_reads, with_fields
from pullback.ir.traverse import Substitution
from pullback.ir.walks import each_block
from pullback.rewrite.fired import fired


def order_arrays(program: ir.Program) -> ir.Program:
    """Make sorts read stored arrays."""
    return each_block(program, _block)


def _block(block: ir.Block) -> ir.Block:
    reads: Counter[ir.Ref] = Counter(block.results)
    for s in block.statements:
        reads.update(statement_reads(s).keys())
    sorts: dict[ir.Ref, ir.Sort] = {}
    stored: dict[ir.Ref, ir.Build] = {}
    asked: dict[ir.Ref, tuple[ir.Scalar, ...]] = {}  # what each sorts, and what that was stored from
    out: list[ir.Statement] = []
    for s in block.statements:
        match s:
            case ir.Sort():
                asked[s.out] = (s.value, *_before(s, stored))
                if not _reads_in_place(s):
                    keys = ir.Ref(f"{s.out.name}_keys", s.value.dtype, tuple(v.extent for v in s.vars))
                    out.append(ir.Build((keys,), s.vars, (s.value,), s.positions))
                    s = replace(s, value=expr.get(keys, *s.vars))
                sorts[s.out] = s
            case ir.Build():
                order = sorts.get(_positions(s)) if len(s.values) == 1 else None  # type: ignore[arg-type]
                if order is not None and reads[order.out] == 1 and _is_sorted(s, order, asked[order.out]):
                    fired("order.values")
                    ordered = replace(order, what="values", positions=s.positions or order.positions)
                    out.remove(order)
                    if _extents(s) == _extents(order):
                        s = replace(ordered, out=s.outs[0])
                    else:
                        # For some of the elements, as in `top_k`: sort all into an array of their own.
                        values = ir.Ref(f"{s.outs[0].name}_in_order", s.outs[0].dtype, _extents(order))
                        out.append(replace(ordered, out=values))
                        s = replace(s, values=(expr.get(values, *s.vars),))
        if isinstance(s, ir.Build) and len(s.values) == 1:
            stored[s.outs[0]] = s
        out.append(s)
    return with_fields(block, statements=tuple(out))


def _reads_in_place(s: ir.Sort) -> bool:
    value = s.value
    return isinstance(value, ir.Get) and value.indices == tuple(map(as_index, s.vars))


def _positions(s: ir.Build) -> ir.Ref | None:
    """The array of positions that a build reads elements at, along one axis."""
    value = s.values[0]
    singles = [i.single for i in value.indices] if isinstance(value, ir.Get) else []
    inner = [i.scalar for i in singles if isinstance(i, Data)]
    here = tuple(map(as_index, s.vars))
    return next((g.ref for g in inner if isinstance(g, ir.Get) and g.indices == here), None)


def _extents(s: ir.Build | ir.Sort) -> tuple[Dim, ...]:
    return tuple(v.extent for v in s.vars)


def _before(s: ir.Sort, stored: Mapping[ir.Ref, ir.Build]) -> tuple[ir.Scalar, ...]:
    """The expression that an array to be sorted was stored from, for readers that do not read the array."""
    build = stored.get(s.value.ref) if isinstance(s.value, ir.Get) and _reads_in_place(s) else None
    if build is None:
        return ()
    return (Substitution(variables=dict(zip(build.vars, map(as_index, s.vars), strict=True))).scalar(build.values[0]),)


def _is_sorted(s: ir.Build, order: ir.Sort, asked: tuple[ir.Scalar, ...]) -> bool:
    """Whether a build reads the sorted elements at the sort's positions."""
    assert isinstance(s.values[0], ir.Get)
    place = next(i for i in s.values[0].indices if isinstance(i.single, Data))
    there = dict(zip(order.vars, (*map(as_index, s.vars[:-1]), place), strict=True))
    return any(Substitution(variables=there).scalar(e) is s.values[0] for e in asked)
