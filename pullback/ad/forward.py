"""Forward mode: the linear maps of the statements, applied in order.

The maps are those of reverse mode, applied instead of transposed. Loops carry tangents of their states as more states,
so forward mode goes through every statement, `while_loop` without a bound included, and needs no memory beyond the
tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pullback.ad.linear import Tangents, active_in, zeros
from pullback.ad.maps import linear_map
from pullback.ad.reverse import vjp
from pullback.ir import nodes as ir
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.fired import in_steps, step
from pullback.rewrite.kronecker import solve_deltas
from pullback.rewrite.normal_form import normalize
from pullback.rewrite.steps import Given


def jvp(program: ir.Program, wrt: Sequence[int]) -> ir.Program:
    """The program together with its Jacobian-vector product.

    Args:
        program: any program; it is brought to normal form first.
        wrt: positions of floating inputs.
    Returns:
        A program with inputs `program.inputs` and one tangent for each input of `wrt`; its outputs are those of
        `program`, then the tangent of each floating output, shaped like that output.
    """
    primal = normalize(solve_deltas(program))
    sources = [primal.inputs[k] for k in wrt]
    tangents = {r: ir.Ref(f"{r.name}_dot", r.dtype, r.shape) for r in sources}
    for r, direction in tangents.items():
        step(lambda r=r, direction=direction: Given(direction, r.name, True))  # type: ignore[misc]
    sweep = _Forward(dict(tangents))
    statements = sweep.block(primal.body, active_in(primal.body, set(sources)))
    floating = [r for r in primal.outputs if r.dtype.is_floating]
    results = [sweep.of(r, statements) for r in floating]
    names = primal.output_names or tuple(r.name for r in primal.outputs)
    dots = tuple(f"{n}_dot" for n, r in zip(names, primal.outputs, strict=True) if r.dtype.is_floating)
    out = replace(
        primal,
        name=f"{primal.name}_jvp",
        inputs=(*primal.inputs, *tangents.values()),
        body=ir.Block(tuple(statements), (*primal.outputs, *results)),
        output_names=(*names, *dots),
    )
    return in_steps(out, normalize, eliminate_common, eliminate_dead)


class _Forward(Tangents):
    """One forward walk; `known` maps an array to the array of its tangent, where it has one."""

    def __init__(self, known: dict[ir.Ref, ir.Ref]) -> None:
        self.known = known
        self.vjp = vjp

    def of(self, r: ir.Ref, statements: list[ir.Statement]) -> ir.Ref:
        found = self.known.get(r)
        if found is None:
            made = zeros(f"{r.name}_dot", r)
            statements.append(made)
            found = made.outs[0]
        return found

    def block(self, block: ir.Block, active: set[ir.Ref]) -> list[ir.Statement]:
        out: list[ir.Statement] = []
        for s in block.statements:
            out += linear_map(s, active).apply(self) if any(o in active for o in s.outs) else (s,)
        return out
