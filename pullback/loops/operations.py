"""Arithmetic operations of a program, counted from its statements: the figure in the header of generated C."""

from __future__ import annotations

from pullback.ir.expr import Add, Apply, Bracket, Cast, Mul, Reduce, Scalar, Select
from pullback.ir.index import Index
from pullback.ir.program import Block, Build, Choose, Fold, Scatter, While
from pullback.ir.traverse import children


def count_operations(block: Block) -> int:
    """Operations of one run; a product that is summed counts as one, loops of unknown length run once."""
    total = 0
    for s in block.statements:
        match s:
            case Build():
                total += _size(tuple(v.extent for v in s.vars)) * sum(_operations(v, {}) for v in s.values)
            case Scatter():
                total += _size(tuple(v.extent for v in s.vars)) * (1 + _operations(s.value, {}))
            case Fold():
                total += _size((s.var.extent,)) * count_operations(s.body)
            case While():
                total += count_operations(s.test) + count_operations(s.body)
            case Choose():
                total += max(count_operations(s.then), count_operations(s.otherwise))
    return total


def _size(extents: tuple[Index, ...]) -> int:
    out = 1
    for e in extents:
        out *= e.constant if e.constant is not None else 1
    return out


def _operations(e: Scalar, done: dict[Scalar, int]) -> int:
    """Operations for one evaluation; shared parts count once."""
    if e in done:
        return 0
    done[e] = 1
    match e:
        case Apply():
            own = max(1, e.primitive.cost)
        case Add() | Mul():
            own = len(e.args) - 1
        case Select() | Cast():
            own = 1
        case Reduce():
            inner = _operations(e.arg, dict(done))
            body = e.arg.arg if isinstance(e.arg, Bracket) else e.arg
            fused = e.op == "sum" and isinstance(body, Mul)
            return _size(tuple(v.extent for v in e.vars)) * max(1, inner if fused else inner + 1)
        case _:
            own = 0
    return own + sum(_operations(c, done) for c in children(e))
