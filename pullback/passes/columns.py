"""Columns: a small operand that vectors would read down its columns is stored transposed.

Before    y = build i < N, j < K { sum d < D { (x[i, d] - c[j, d]) ** 2 } }
After     t = build d < D, j < K { c[j, d] }
          y = build i < N, j < K { sum d < D { (x[i, d] - t[d, j]) ** 2 } }

Lanes lie along the last axis of the result, so each vector of c would be put together from as many lines. That is done
once, if each element is used for many results. Arrays that leave the second cache stay as they are, as do products of
two arrays: `loops/product` packs their operands. Distances to centroids and densities of a mixture are such sums.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Var, as_index
from pullback.ir.traverse import rewrite, walk
from pullback.ir.walks import each_build, taken_out
from pullback.machine import Machine
from pullback.passes.cost import size
from pullback.rewrite.fired import fired

LEAST = 8  # least elements of a vector's axis, and of the sum
USES = 32  # least results for which an element is used


def transpose_operands(program: ir.Program, machine: Machine) -> ir.Program:
    """The program with operands of sums transposed where vectors would gather them."""
    if not machine.vector_bytes:
        return program
    room = machine.caches[1] // 2
    return each_build(program, lambda s: taken_out(s, lambda e: _transposed(e, s, room)) if s.vars else [s])


def _transposed(e: ir.Scalar, s: ir.Build, room: int) -> tuple[Sequence[ir.Build], ir.Scalar] | None:
    """The transposed operands of a sum, of at most `room` bytes each, and the sum of these; or None."""
    if not isinstance(e, ir.Reduce) or e.op != "sum" or _is_product(e.arg) or (s.vars[-1].extent.constant or 0) < LEAST:
        return None
    points = size(tuple(v.extent for v in (*s.vars, *e.vars)))
    gets = dict.fromkeys(n for n in walk(e.arg) if isinstance(n, ir.Get))
    if points is None or not all(s.vars[-1] not in g.free or _is_column(g, e, points, room) for g in gets):
        return None
    before: list[ir.Build] = []
    made: dict[ir.Scalar, ir.Scalar] = {}
    for g in gets:
        if s.vars[-1] in g.free:
            build, made[g] = _turned(g, s)
            before.append(build)
    if not made:
        return None
    fired("columns.turned")
    return before, expr.reduce(e.op, e.vars, rewrite(e.arg, made.get))


def _is_product(term: ir.Scalar) -> bool:
    """Whether a term is made of products of elements, for which there are kernels."""
    match term:
        case ir.Bracket():
            return _is_product(term.arg)
        case ir.Add():
            return all(map(_is_product, term.args))
        case ir.Select():
            return _is_product(term.then) and _is_product(term.otherwise)
        case ir.Mul():
            return all(isinstance(f, ir.Get | ir.Const) for f in term.args)
    return isinstance(term, ir.Get | ir.Const | ir.Zero)


def _is_column(g: ir.Get, e: ir.Reduce, points: int, room: int) -> bool:
    """Whether an operand is a whole small array whose last axis is summed, each element used often enough."""
    variables = [i.single for i in g.indices]
    whole = all(isinstance(v, Var) and v.extent is d for v, d in zip(variables, g.ref.shape, strict=True))
    elements = size(g.ref.shape)
    if not whole or elements is None or elements * g.dtype.size > room or len(set(variables)) < len(variables):
        return False
    last = variables[-1]
    return last in e.vars and (last.extent.constant or 0) >= LEAST and points >= USES * elements


def _turned(g: ir.Get, s: ir.Build) -> tuple[ir.Build, ir.Scalar]:
    """An array with the last axis of the result as its last axis, and its element."""
    order = [*(i for i in g.indices if s.vars[-1] not in i.free), as_index(s.vars[-1])]
    fresh = {i: Var(v.name, v.extent) for i in order if isinstance(v := i.single, Var)}
    out = ir.Ref(f"{g.ref.name}_turned", g.dtype, [v.extent for v in fresh.values()])
    element = expr.get(g.ref, *(as_index(fresh[i]) for i in g.indices))
    return ir.Build((out,), tuple(fresh.values()), (element,), s.positions), expr.get(out, *order)
