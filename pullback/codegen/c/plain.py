"""Plain C as a target: scalars, loops and libm, for every C99 compiler and for readers."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.codegen.c import build
from pullback.codegen.c.kernels import Dialect
from pullback.codegen.c.printer import print_c
from pullback.codegen.c.statements import Writer
from pullback.codegen.c.words import PlainWords
from pullback.codegen.target import Printing, Source
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import Function
from pullback.machine import Machine
from pullback.records import dataclass

DIALECT = Dialect(PlainWords, Writer)


@dataclass(frozen=True)
class PlainC:
    """C99 without vectors."""

    name: str = "plain C"

    def machine(self, machine: Machine) -> Machine:
        """The machine to lower for: the given one without vectors."""
        return machine.plain

    def words(self) -> PlainWords:
        """The words for a new file."""
        return DIALECT.words()

    def source(self, function: Function, plan: MemoryPlan, printing: Printing) -> Source:
        """The text of a program."""
        return print_c(function, plan, printing, DIALECT)

    def flags(self, command: Sequence[str], version: str) -> tuple[str, ...]:
        """The compiler flags."""
        return build.flags(command, version)
