"""Alternatives: of two forms of a part of the program, the one that suits the target.

Before    y = either { w = build i < L, j < L { .. }, y = .. sum j < L { w[i, j] .. } }
                  or { y = fold b < L / B { .. blocks of w .. } }
After     one of the two

Both give the same up to rounding. The first has whole arrays. It is for devices, where each statement of a loop would
be launched in every step, for processors without vectors, and for exact programs, which round as written. The second
has blocks that stay in the caches.
"""

from __future__ import annotations

from pullback.ir import nodes as ir
from pullback.machine import Machine
from pullback.rewrite.calls import inline
from pullback.rewrite.fired import fired


def choose_alternatives(program: ir.Program, machine: Machine) -> ir.Program:
    """The program with one block for each of its alternatives."""
    in_blocks = machine.vector_bytes > 0 and not program.settings.exact

    def chosen(s: ir.Statement) -> ir.Block | None:
        if not isinstance(s, ir.Alternatives):
            return None
        fired("alternatives.form")
        return s.otherwise if in_blocks else s.then

    return program.with_body(inline(program.body, chosen))
