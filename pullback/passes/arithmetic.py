"""Arithmetic operation counts from statements, as shown in the header of generated C."""

from __future__ import annotations

from collections.abc import Iterable

from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, as_index, prove_nonnegative
from pullback.ir.traverse import children

UNKNOWN = 1 << 20  # elements that a search covers if no number is known


def count_operations(block: ir.Block) -> Index:
    """The operations of one run, in the dims; a summed product counts as one, open loops run once."""
    total = ZERO_INDEX
    for s in block.statements:
        match s:
            case ir.Build():
                total += _size(v.extent for v in s.vars) * _total(_operations(v, {}) for v in s.values)
            case ir.Scatter():
                total += _size(v.extent for v in s.vars) * (_operations(s.value, {}) + 1)
            case ir.Sort():
                total += _size(v.extent for v in s.vars) * (_operations(s.value, {}) + 1)
            case ir.External():
                total += _total(_size(r.shape) for r in (*s.operands, *s.outs))  # each element is touched, at least
            case ir.Fold():
                total += _size((s.var.extent,)) * count_operations(s.body)
            case ir.While():
                total += count_operations(s.test) + count_operations(s.body)
            case ir.Choose():
                total += _larger(count_operations(s.then), count_operations(s.otherwise))
    return total


def _larger(a: Index, b: Index) -> Index:
    """The larger of two counts, their sum where that depends on the dims."""
    return a if prove_nonnegative(a - b) else b if prove_nonnegative(b - a) else a + b


def _size(extents: Iterable[Index]) -> Index:
    out = ONE_INDEX
    for e in extents:
        out *= e if e.is_dim else 1
    return out


def _total(counts: Iterable[Index]) -> Index:
    out = ZERO_INDEX
    for c in counts:
        out += c
    return out


def _operations(e: ir.Scalar, done: dict[ir.Scalar, int]) -> Index:
    """Operations for one evaluation; shared parts count once."""
    if e in done:
        return ZERO_INDEX
    done[e] = 1
    match e:
        case ir.Apply():
            own = max(1, e.primitive.cost)
        case ir.Add() | ir.Mul():
            own = len(e.args) - 1
        case ir.Select() | ir.Cast():
            own = 1
        case ir.Reduce():
            inner = _operations(e.arg, dict(done))
            body = e.arg.arg if isinstance(e.arg, ir.Bracket) else e.arg
            fused = e.op == "sum" and isinstance(body, ir.Mul)
            if e.op == "search":
                return as_index((e.vars[0].extent.constant or UNKNOWN).bit_length()) * (inner + 1)
            return _size(v.extent for v in e.vars) * (inner if fused and inner is not ZERO_INDEX else inner + 1)
        case _:
            own = 0
    return _total(_operations(c, done) for c in children(e)) + own
