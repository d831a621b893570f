"""Kernels that call a user's C function with the whole arrays it reads and writes, and sizes."""

from __future__ import annotations

from pullback.errors import CompilerError
from pullback.ir import nodes as ir
from pullback.ir.foreign import Foreign
from pullback.ir.index import ZERO_INDEX
from pullback.ir.program import walk_statements
from pullback.loops.plain.builder import KernelBuilder
from pullback.loops.program.ahead import Run
from pullback.loops.program.nodes import Kernel, Procedure


def external_kernel(s: ir.External, builder: KernelBuilder) -> Kernel:
    """The kernel of a call of the user's C function."""

    def whole(r: ir.Ref) -> Run:
        buffer = builder.parameter(r)
        return Run(buffer, ZERO_INDEX, buffer.elements)

    reads, writes = tuple(map(whole, s.operands)), tuple(map(whole, s.outs))
    return builder.kernel((Procedure(s.foreign, reads, writes, s.sizes),))


def check_names(program: ir.Program) -> None:
    """Refuse two functions of one name with different texts: C has one function per name.

    Raises:
        CompilerError: [E413] two functions of one name have different texts.
    """
    found: dict[str, Foreign] = {}
    for s in walk_statements(program.body):
        if isinstance(s, ir.External) and found.setdefault(s.foreign.name, s.foreign).source != s.foreign.source:
            raise CompilerError(
                "E413",
                f"{program.name} calls two functions in C named {s.foreign.name}, which is one too many for one file",
                position=s.positions[0] if s.positions else None,
                remedy="give them names of their own, or both the same `c_source`",
            )
