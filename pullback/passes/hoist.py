"""Hoisting: loop-invariant small statements and number conversions leave their loop.

Before    fold t < T (w = w0) { f = build { all n < N { isfinite(x[n]) } }  .. f .. }
After     f = build { all n < N { isfinite(x[n]) } }  fold t < T (w = w0) { .. f .. }

Before    y = build n < N { f32(a) * x[n] }
After     c = build { f32(a) }    y = build n < N { c * x[n] }

Hoisted results live as long as the loop, so only small ones are hoisted. A loop that may have no trip keeps its
statements, because one of them may test a range. A conversion leaves its statement because groups (`vectors.group`)
have one element type.
"""

from __future__ import annotations

from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Var
from pullback.ir.program import statement_reads, with_fields
from pullback.ir.traverse import rewrite, walk
from pullback.ir.walks import each_block
from pullback.passes.cost import has_data_index, is_inside
from pullback.rewrite.fired import fired

SMALL = 64  # most elements of a result that may live until the end of a loop


def hoist_small(program: ir.Program) -> ir.Program:
    """The program with small statements, and conversions, in front of the loops that do not change them."""
    return each_block(program, _block)


def _block(block: ir.Block) -> ir.Block:
    out: list[ir.Statement] = []
    converted: dict[ir.Scalar, ir.Scalar] = {}
    for s in block.statements:
        if isinstance(s, ir.Build):
            found, s = _without_conversions(s, converted)
            out += found
        if isinstance(s, ir.Fold) and (s.var.extent.constant or 0) >= 1:
            inner = _invariant(s)
            out += inner
            if inner:
                fired("hoist.small")
                kept = tuple(x for x in s.body.statements if x not in inner)
                s = with_fields(s, body=with_fields(s.body, statements=kept))
        out.append(s)
    return with_fields(block, statements=tuple(out))


def _invariant(s: ir.Fold) -> list[ir.Statement]:
    """The statements of the body that can stand before the loop, in order."""
    changing = {*s.states, *(o for x in s.body.statements for o in x.outs)}
    found: list[ir.Statement] = []
    for x in s.body.statements:
        if (isinstance(x, ir.Build) and not _free(x, s.var) and changing.isdisjoint(statement_reads(x))
                and all(_size(x) <= SMALL and o not in s.body.results for o in x.outs)):
            found.append(x)
            changing -= set(x.outs)
    return found


def _free(x: ir.Build, var: Var) -> bool:
    return any(var in v.free for v in x.values) or any(var in v.extent.free for v in x.vars)


def _size(x: ir.Build) -> int:
    return prod(SMALL + 1 if v.extent.constant is None else v.extent.constant for v in x.vars)


def _without_conversions(s: ir.Build, converted: dict[ir.Scalar, ir.Scalar]) -> tuple[list[ir.Build], ir.Build]:
    """Split off new conversions that are equal for all elements of s; return them and the new s."""
    out: list[ir.Build] = []
    inner = {*s.vars, *(v for e in s.values for n in walk(e) if isinstance(n, ir.Reduce) for v in n.vars)}
    if not inner:
        return out, s

    def once(e: ir.Scalar) -> ir.Scalar | None:
        if not isinstance(e, ir.Cast) or not e.dtype.is_floating or not inner.isdisjoint(e.free):
            return None
        if any(isinstance(n, ir.Reduce) or has_data_index(n) or not is_inside(n, ()) for n in walk(e)):
            return None  # costly, or in range only under a condition
        if e not in converted:
            made = ir.Ref(_name(e), e.dtype, ())
            out.append(ir.Build((made,), (), (e,), s.positions))
            converted[e] = expr.get(made)
            fired("hoist.conversion")
        return converted[e]

    values = tuple(rewrite(v, once) for v in s.values)
    return out, with_fields(s, values=values)


def _name(e: ir.Scalar) -> str:
    return next((n.ref.name for n in walk(e) if isinstance(n, ir.Get)), "number")
