"""Builds whose conditions split an axis: a stretch of it at a time, each without conditions.

Before    y = build i < N { x[i] * ([i >= 1] y0[i - 1] + [0 >= i] 1.0) }
After     y[0] = x[0] * 1.0, then vectors over 1 .. N - 1 of x[i] * y0[i - 1]

An element past a border, the first or last of a stencil, a concatenation: on each stretch between the places where a
condition changes, all conditions are known, and the vector lowering takes what is left. It does not look at conditions
about several axes, nor at builds with reductions, whose conditions are bounds of their loops already.
"""

from __future__ import annotations

from pullback.ir.expr import Ref
from pullback.ir.index import Index, Var, as_index
from pullback.ir.program import Build, Statement
from pullback.loops.bounds import LoopNest
from pullback.loops.joined import stretch_of
from pullback.loops.lower import KernelBuilder, Specialist, plain_build, without_units
from pullback.loops.nodes import Buffer, Kernel, Stmt, Store
from pullback.loops.scalar import ScalarLowering
from pullback.loops.scope import Scope
from pullback.loops.tile import tile
from pullback.passes.cost import cuts

MOST = 12  # stretches


def part_kernels(vector_bytes: int, portable: bool) -> Specialist:
    """The lowering of builds that conditions split along one axis, for `loops.lower`; arguments as `vector_kernels`."""

    def kernel(s: Statement, builder: KernelBuilder) -> Kernel | None:
        if not isinstance(s, Build) or len(s.outs) != 1:
            return None
        split = cuts(s)
        if split is None or len(split[1]) > MOST:
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


def part_of(s: Build, axis: Var, start: int, end: int, builder: KernelBuilder) -> tuple[Build, Place]:
    """The stretch of the build from `start` to `end` along the axis, and where it lies."""
    return stretch_of(s, axis, start, end), Place(s.outs[0], s.vars.index(axis), start, builder)


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
