"""What is left of a statement when its sum is there: its values, in vectors where these can, else one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.ir.expr import Ref, Scalar
from pullback.ir.index import ZERO_INDEX, Index, Var
from pullback.ir.program import Build
from pullback.ir.traverse import Substitution
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import KernelBuilder
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.program.nodes import Let, Stmt, Store
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Buffer, Read, Temp
from pullback.loops.vectors.tile import tile
from pullback.machine import Machine


def finish(
    s: Build, variables: Sequence[Var], values: tuple[Scalar, ...], position: Index, partial: tuple[Ref, Buffer],
    builder: KernelBuilder, machine: Machine,
) -> list[Stmt]:
    """The loops that store the values of a statement at a flat index of its outputs.

    Args:
        partial: the array of flat elements that stands for the sum in the values, and where it is.
    """
    sums, place = partial
    outs = tuple(Ref(o.name, o.dtype, [v.extent for v in variables]) for o in s.outs)
    targets = dict(zip(outs, (builder.parameter(o) for o in s.outs), strict=True))

    def address(ref: Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
        if ref in targets:
            here = dict(zip(variables, indices, strict=True))
            return targets[ref], Substitution(variables=here).index(position)
        return (place, indices[0]) if ref is sums else builder.address(ref, indices)

    made = tile(Build(outs, tuple(variables), values), address, machine)
    if made is not None:
        return list(made)
    return scalar_loops(s, variables, values, position, builder, lambda r: place if r is sums else builder.parameter(r))


def scalar_loops(
    s: Build, variables: Sequence[Var], values: tuple[Scalar, ...], position: Index, builder: KernelBuilder,
    place: Callable[[Ref], Buffer],
) -> list[Stmt]:
    """Plain loops that store the values of a statement at a flat index of its outputs."""
    root = Scope()
    lowering = ScalarLowering(place, builder.site, values, beside=True)
    single = {v: ZERO_INDEX for v in variables if v.extent.constant == 1}
    m = Substitution(variables=single)
    nest = LoopNest(lowering, root, [v for v in variables if v not in single], ())
    inner = nest.innermost
    made = [lowering.value(m.scalar(v), inner) for v in values]
    temps = [Temp(o.name, v.type) for o, v in zip(s.outs, made, strict=True)]
    inner.statements += [Let(t, v) for t, v in zip(temps, made, strict=True)]
    inner.statements += [
        Store(builder.parameter(o), m.index(position), Read(t)) for o, t in zip(s.outs, temps, strict=True)
    ]
    nest.close()
    return root.statements
