"""Builds whose conditions split an axis: a stretch of it at a time, each without conditions.

Before    y = build i < N { x[i] * ([i >= 1] y0[i - 1] + [0 >= i] 1.0) }
After     y[0] = x[0] * 1.0, then vectors over 1 .. N - 1 of x[i] * y0[i - 1]

An element past a border, the first or last of a stencil, a concatenation: on each stretch between the places where a
condition changes, all conditions are known, and the vector lowering takes what is left. It does not look at conditions
about several axes, nor at builds with reductions, whose conditions are bounds of their loops already.
"""

from __future__ import annotations

from dataclasses import replace

from pullback.ir import expr
from pullback.ir.expr import Bracket, Reduce, Ref, Scalar, Zero
from pullback.ir.index import Cond, Index, Var, as_index
from pullback.ir.program import Build, Statement
from pullback.ir.traverse import Substitution, walk
from pullback.loops.bounds import LoopNest
from pullback.loops.lower import KernelBuilder, Specialist, plain_build, without_units
from pullback.loops.nodes import Buffer, Kernel, Stmt, Store
from pullback.loops.scalar import ScalarLowering
from pullback.loops.scope import Scope
from pullback.loops.tile import tile

MOST = 6  # stretches


def part_kernels(vector_bytes: int, portable: bool) -> Specialist:
    """The lowering of builds that conditions split along one axis, for `loops.lower`; arguments as `vector_kernels`."""

    def kernel(s: Statement, builder: KernelBuilder) -> Kernel | None:
        if not isinstance(s, Build) or len(s.outs) != 1 or any(isinstance(n, Reduce) for n in walk(s.values[0])):
            return None
        split = _cuts(s)
        if split is None:
            return None
        axis, starts = split
        body: list[Stmt] = []
        vectors = False
        for start, end in zip(starts, (*starts[1:], axis.extent.constant or 0), strict=True):
            part, place = part_of(s, axis, start, end, builder)
            found = tile(part, place.address, vector_bytes)
            vectors |= found is not None
            body += plain_part(part, place) if found is None else found
        if not vectors:
            return None
        return builder.kernel(tuple(body), plain_build(s, builder) if portable else None)

    return kernel


def _cuts(s: Build) -> tuple[Var, list[int]] | None:
    """The one axis that all conditions are about, and where its stretches start."""
    conds = {c for n in walk(s.values[0]) if isinstance(n, Bracket) for c in n.conds}
    axes = {v for c in conds for v in c.free}
    if len(axes) != 1 or not axes <= set(s.vars):
        return None
    (axis,) = axes
    extent = axis.extent.constant
    places = [_changes(c, axis) for c in conds]
    if extent is None or any(p is None for p in places):
        return None
    starts = sorted({0, *(k for p in places for k in p or () if 0 < k < extent)})
    return (axis, starts) if len(starts) <= MOST else None


def _changes(c: Cond, axis: Var) -> tuple[int, ...] | None:
    """Where along the axis the condition starts or ends to hold; None where that is no number."""
    factor = c.index.coefficient(axis)
    if factor is None or factor.constant not in (1, -1):
        return None
    rest = (c.index - factor * as_index(axis)).constant
    if rest is None:
        return None
    root = -rest if factor.constant == 1 else rest
    if c.op == ">=":
        return (root,) if factor.constant == 1 else (root + 1,)
    return root, root + 1


def part_of(s: Build, axis: Var, start: int, end: int, builder: KernelBuilder) -> tuple[Build, Place]:
    """The stretch of the build from `start` to `end` along the axis, and where it lies."""
    part = Var(axis.name, as_index(end - start))
    value: Scalar = Substitution(variables={axis: as_index(part) + start}).scalar(s.values[0])
    if isinstance(value, Zero):
        value = expr.const(0, value.dtype)
    build = replace(s, vars=tuple(part if v is axis else v for v in s.vars), values=(value,))
    return build, Place(s.outs[0], s.vars.index(axis), start, builder)


class Place:
    """Where a stretch's elements lie: those of the result are shifted along the axis."""

    def __init__(self, out: Ref, position: int, start: int, builder: KernelBuilder) -> None:
        self.out, self.position, self.start, self.builder = out, position, start, builder

    def address(self, ref: Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
        """The buffer and flat index of an element."""
        if ref is self.out:
            indices = tuple(i + self.start if k == self.position else i for k, i in enumerate(indices))
        return self.builder.address(ref, indices)


def plain_part(part: Build, place: Place) -> list[Stmt]:
    """Plain loops over a stretch."""
    builder = place.builder
    loops = without_units(part)
    lowering = ScalarLowering(builder.parameter, builder.site, loops.values)
    root = Scope()
    nest = LoopNest(lowering, root, loops.vars, ())
    kept = {v: as_index(v) for v in loops.vars}
    out, position = place.address(place.out, tuple(kept.get(v, as_index(0)) for v in part.vars))
    nest.innermost.statements.append(Store(out, position, lowering.value(loops.values[0], nest.innermost)))
    nest.close()
    return root.statements
