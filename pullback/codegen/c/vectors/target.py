"""The target C with vector extensions; its kernels have a plain form for all other compilers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.codegen.c import build
from pullback.codegen.c.kernels import Dialect
from pullback.codegen.c.printer import UnitsFile, print_c
from pullback.codegen.c.vectors.statements import VectorWriter
from pullback.codegen.c.vectors.words import VectorWords
from pullback.codegen.target import Printing, Source
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import Function
from pullback.machine import Machine
from pullback.records import dataclass

DIALECT = Dialect(VectorWords, VectorWriter)


@dataclass(frozen=True)
class VectorC:
    """C99 with the vector extensions of gcc and clang."""

    name: str = "C"

    def machine(self, machine: Machine) -> Machine:
        """The machine to lower for: any."""
        return machine

    def words(self) -> VectorWords:
        """The words for a new file."""
        return VectorWords()

    def source(self, function: Function, plan: MemoryPlan, printing: Printing) -> Source:
        """The text of a program."""
        return print_c(function, plan, printing, DIALECT)

    def file(self, printing: Printing, ready: Callable[[str], None]) -> UnitsFile:
        """A file of a program that is still lowered; `ready` is called with its units."""
        return UnitsFile(printing, DIALECT, ready)

    def flags(self, command: Sequence[str], version: str) -> tuple[str, ...]:
        """The compiler flags."""
        return build.flags(command, version)
