"""Reverse mode as two programs: a forward one with residuals, and a backward one that reads them.

The statements of `ad.reverse.vjp` that depend on no cotangent and that the outputs need are the forward program. All
others are the backward program. The arrays that it reads from the first, or from the inputs, are the residuals.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.ad.reverse import vjp
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.dims import determined_dims
from pullback.ir.index import Var, symbol
from pullback.ir.program import block_reads, needed_for
from pullback.records import dataclass, replace
from pullback.rewrite.cse import rename_block


@dataclass(frozen=True)
class Split:
    """Both programs.

    Attributes:
        forward: the inputs of the original; its outputs, then the residuals.
        backward: the residuals, the cotangents of the floating outputs, then the `shared` inputs; it returns the
            cotangents of `wrt`.
        residuals: the arrays passed from one to the other, by their names in backward.
    """

    forward: ir.Program
    backward: ir.Program
    residuals: tuple[ir.Ref, ...]


def split(program: ir.Program, wrt: Sequence[int], shared: Sequence[ir.Ref]) -> Split:
    """A program and its reverse mode in two parts.

    Args:
        wrt: positions of floating inputs.
        shared: inputs that both parts receive, so that they need not be kept.
    """
    derived = vjp(program, wrt)
    given, seeds = derived.inputs[: len(program.inputs)], derived.inputs[len(program.inputs) :]
    stay = [r for r, p in zip(given, program.inputs, strict=True) if p in shared]
    outputs, cotangents = derived.outputs[: len(program.outputs)], derived.outputs[len(program.outputs) :]
    forward, backward = _parted(derived.body.statements, outputs)
    own = {o for s in backward for o in s.outs} | set(seeds) | set(stay)
    reads = block_reads(ir.Block(tuple(backward), cotangents))
    kept = [r for r in reads if r not in own]
    carriers = _carriers(derived, [*kept, *seeds, *stay])
    kept += [b.outs[0] for b in carriers]
    entered = {r: ir.Ref(r.name, r.dtype, r.shape, r.bounds) for r in kept}
    names = (*derived.output_names[: len(outputs)], *(r.name for r in kept))
    first = ir.Block((*forward, *carriers), (*outputs, *kept))
    body = rename_block(ir.Block(tuple(backward), cotangents), entered)
    made = replace(derived, inputs=(*entered.values(), *seeds, *stay), body=body)
    made = replace(made, sizes=(), output_names=derived.output_names[len(outputs) :], name=f"{program.name}_backward")
    forth = replace(derived, inputs=given, body=first, output_names=names, name=f"{program.name}_forward")
    return Split(forth, made, tuple(entered.values()))


def _parted(
    statements: Sequence[ir.Statement], outputs: Sequence[ir.Ref]
) -> tuple[list[ir.Statement], list[ir.Statement]]:
    """The statements that the outputs need, and the others."""
    needed = set(needed_for(statements, outputs))
    return [s for s in statements if s in needed], [s for s in statements if s not in needed]


def _carriers(program: ir.Program, known: Sequence[ir.Ref]) -> list[ir.Build]:
    """An array of bytes for each open dim, with the dim as its size."""
    solved = determined_dims(replace(program, inputs=tuple(known), sizes=()))
    open_dims = [d for d in determined_dims(program) if d not in solved]
    out = []
    for name in open_dims:
        v = Var("i", symbol(name))
        out.append(
            ir.Build((ir.Ref(f"extent_{name}", types.bool_, (v.extent,)),), (v,), (expr.const(False, types.bool_),))
        )
    return out
