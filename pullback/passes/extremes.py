"""An extreme whose position is known is read there.

Before    p = build { argmax n < N { x[n] } }     m = build { max n < N { x[n] } }
After     p = build { argmax n < N { x[n] } }     m = build { x[p] }

The gradient of a maximum needs its position anyway, so one pass over the array serves both. The statement of the
position moves before its first reader; this is possible because both statements read the same arrays.
"""

from __future__ import annotations

from dataclasses import replace

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index
from pullback.ir.program import with_fields
from pullback.ir.reduction import REDUCTIONS
from pullback.ir.traverse import Substitution, rewrite, walk
from pullback.ir.walks import each_block
from pullback.rewrite.fired import fired


def read_extremes(program: ir.Program) -> ir.Program:
    """The program with maxima and minima read where their positions are known."""
    return each_block(program, _block)


def _block(block: ir.Block) -> ir.Block:
    statements = list(block.statements)
    for position in [s for s in statements if isinstance(s, ir.Build) and _is_position(s)]:
        assert isinstance(position, ir.Build)
        changed = {k: new for k, s in enumerate(statements) if (new := _reading(s, position)) is not None}
        for k, new in changed.items():
            fired("extremes.read")
            statements[k] = new
        if changed and (first := min(changed)) < statements.index(position):
            statements.remove(position)
            statements.insert(first, position)
    return with_fields(block, statements=tuple(statements))


def _is_position(s: ir.Build) -> bool:
    value = s.values[0]
    return (
        len(s.values) == 1
        and isinstance(value, ir.Reduce)
        and value.op in ("argmax", "argmin")
        and len(value.vars) == 1
        and isinstance(value.arg, ir.Get)
    )


def _reading(s: ir.Statement, position: ir.Build) -> ir.Build | None:
    """The statement with its extremes read at the position, if variables and extremes match."""
    if not isinstance(s, ir.Build) or s is position or len(s.vars) != len(position.vars):
        return None
    if any(v.extent is not w.extent for v, w in zip(s.vars, position.vars, strict=True)):
        return None
    wanted = position.values[0]
    assert isinstance(wanted, ir.Reduce)
    found: dict[ir.Scalar, ir.Scalar] = {}
    for value in s.values:
        for n in walk(value):
            if isinstance(n, ir.Reduce) and REDUCTIONS[n.op].position == wanted.op and len(n.vars) == 1:
                names: dict[Var, Index] = {v: as_index(w) for v, w in zip(s.vars, position.vars, strict=True)}
                names[n.vars[0]] = as_index(wanted.vars[0])
                if n.vars[0].extent is wanted.vars[0].extent and Substitution(names).scalar(n.arg) is wanted.arg:
                    found[n] = _at(n, position.outs[0], s.vars)
    return replace(s, values=tuple(rewrite(v, found.get) for v in s.values)) if found else None


def _at(n: ir.Reduce, position: ir.Ref, variables: tuple[Var, ...]) -> ir.Scalar:
    """The term of the reduction at its position."""
    where = expr.data_index(expr.get(position, *variables), n.vars[0].extent)
    return Substitution({n.vars[0]: where}).scalar(n.arg)
