"""Initial constants: each loop gets its own copy of a constant initial state.

Before    z = build n < N { 0 }  a = fold t < T (s = z) { .. }  b = fold t < T (r = z) { .. }
After     z = build n < N { 0 }  a = fold t < T (s = z) { .. }  z' = build n < N { 0 }  b = fold t < T (r = z') { .. }

Equal arrays are computed once, and a state overwrites its initial value if that has no later reader. The two conflict
when several loops share an initial value. It is copied for each loop but the last, and stays alive from the first on.
In a recurrent network, the gradients of all layers would share one array of zeros. That array is as large as a layer's
inputs at all steps. Filling an array costs no more than copying one.
"""

from __future__ import annotations

from pullback.ir import nodes as ir
from pullback.ir.program import with_fields
from pullback.ir.traverse import Substitution
from pullback.ir.walks import each_block
from pullback.rewrite.fired import fired


def separate_starts(program: ir.Program) -> ir.Program:
    """Give each state that begins with a constant array its own copy."""
    return each_block(program, _block)


def _block(block: ir.Block) -> ir.Block:
    constant = {
        s.outs[0]: s for s in block.statements if isinstance(s, ir.Build) and len(s.outs) == 1 and _is_constant(s)
    }
    taken: set[ir.Ref] = set(block.results)
    out: list[ir.Statement] = []
    for s in block.statements:
        if not isinstance(s, ir.Fold):
            out.append(s)
            continue
        inits: list[ir.Ref] = []
        for r in s.inits:
            if r in constant and r in taken:
                fired("starts.own")
                again = Substitution().statement(constant[r])
                out.append(again)
                inits.append(again.outs[0])
            else:
                inits.append(r)
                taken.add(r)
        out.append(with_fields(s, inits=tuple(inits)))
    return with_fields(block, statements=tuple(out))


def _is_constant(s: ir.Build) -> bool:
    return not s.values[0].refs and bool(s.vars)
