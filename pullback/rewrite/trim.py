"""Trimming: arrays are computed only where they are read.

Before    y = build i < 8 { sum k < 3 { [8 >= i + k, i + k >= 1] w[k] * x[i + k - 1] } }    z = build i < 6 { y[i + 1] }
After     y = build i < 6 { sum k < 3 { w[k] * x[i + k] } }                                 z = build i < 6 { y[i] }

If a window slides over a zero-padded array and results at the border are dropped, only the inner windows remain. So the
derivative has no border either. An axis is cut if all reads of the array are at a variable plus a constant, and no
guarded read goes beyond it. Computed values are the same. Arrays that a statement takes whole, or that have siblings in
one `build`, do not change.
"""

from __future__ import annotations

from dataclasses import replace

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index, prove_nonnegative
from pullback.ir.program import blocks_of, map_blocks, map_scalars, walk_statements, whole_reads, with_fields
from pullback.ir.traverse import Substitution
from pullback.rewrite.fired import fired

Box = tuple[tuple[Index, Index] | None, ...]  # for each axis the first read place and the number of places


def trim(program: ir.Program) -> ir.Program:
    """Trim arrays to the elements that are read."""
    body = program.body
    whole = {r for s in walk_statements(body) for r in (*whole_reads(s), *(r for b in blocks_of(s) for r in b.results))}
    whole.update(body.results)
    boxes: dict[ir.Ref, Box] = {}
    cut: dict[ir.Ref, tuple[ir.Ref, tuple[Index, ...]]] = {}
    out: list[ir.Statement] = []
    for s in reversed(body.statements):
        if isinstance(s, ir.Build) and len(s.outs) == 1 and s.outs[0] not in whole:
            s = _cut(s, boxes.get(s.outs[0]), cut)
        _collect(s, boxes)
        out.append(s)
    if not cut:
        return program

    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        if ref not in cut:
            return expr.get(ref, *indices)
        smaller, start = cut[ref]
        return expr.get(smaller, *(i - b for i, b in zip(indices, start, strict=True)))

    reading = Substitution(get=element)
    return program.with_body(with_fields(body, statements=tuple(_mapped(s, reading) for s in reversed(out))))


def _cut(s: ir.Build, box: Box | None, cut: dict[ir.Ref, tuple[ir.Ref, tuple[Index, ...]]]) -> ir.Build:
    """The statement restricted to the box."""
    if box is None:
        return s
    (out,) = s.outs
    ranges = [
        b if b and _is_within(*b, v.extent) else (as_index(0), v.extent) for b, v in zip(box, s.vars, strict=True)
    ]
    if all(extent is v.extent for (_, extent), v in zip(ranges, s.vars)):
        return s
    variables = tuple(Var(v.name, extent) for v, (_, extent) in zip(s.vars, ranges))
    smaller = ir.Ref(out.name, out.dtype, tuple(extent for _, extent in ranges), out.bounds)
    moved = Substitution({v: as_index(n) + start for v, n, (start, _) in zip(s.vars, variables, ranges)})
    fired("trim")
    cut[out] = smaller, tuple(start for start, _ in ranges)
    return replace(s, outs=(smaller,), vars=variables, values=tuple(map(moved.scalar, s.values)))


def _is_within(start: Index, extent: Index, whole: Index) -> bool:
    """Whether all places are inside the array; a guarded read may go beyond it."""
    return prove_nonnegative(start) and prove_nonnegative(whole - extent - start)


def _collect(s: ir.Statement, boxes: dict[ir.Ref, Box]) -> None:
    """Record the places that a statement reads; an axis read at different places becomes None."""

    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        new = tuple(map(_place, indices))
        known = boxes.get(ref, new)
        boxes[ref] = tuple(a if a is not None and a == b else None for a, b in zip(known, new, strict=True))
        return expr.get(ref, *indices)

    _mapped(s, Substitution(get=element))


def _place(index: Index) -> tuple[Index, Index] | None:
    """The first value and the number of values of a variable plus a constant."""
    if len(index.free) != 1 or index.data:
        return None
    (variable,) = index.free
    start = index - as_index(variable)
    return (start, variable.extent) if not start.free else None


def _mapped(s: ir.Statement, m: Substitution) -> ir.Statement:
    if isinstance(s, ir.Build | ir.Scatter | ir.Sort):
        return map_scalars(s, m.scalar, m.index)
    return map_blocks(s, lambda b: with_fields(b, statements=tuple(_mapped(t, m) for t in b.statements)))


__all__ = ["trim"]
