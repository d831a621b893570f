"""The plain reading: groups and threads are loops, from the first to the last or the other way round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pullback.codegen.c.kernels import Dialect
from pullback.codegen.c.printer import print_c
from pullback.codegen.c.statements import Writer
from pullback.codegen.c.types import c_type
from pullback.codegen.c.words import PlainWords
from pullback.codegen.target import Printing, Source
from pullback.loops.program import nodes
from pullback.loops.program.nodes import For, Stmt
from pullback.loops.program.values import LOCAL
from pullback.runtime.emit import Lowered


@dataclass
class Forward(Writer):
    """A writer that prints groups and threads as loops."""

    backward: ClassVar[bool] = False

    def statement(self, s: Stmt) -> None:
        """Add a statement."""
        if not isinstance(s, For) or s.kind not in ("group", "thread"):
            super().statement(s)
            return
        if s.kind == "group":
            self.line("{")
            self.depth += 1
            used = dict.fromkeys(a.buffer for x in nodes.walk(s.body) for a in nodes.accesses(x))
            for b in used:
                if b.space in LOCAL:
                    self.line(f"{c_type(b.dtype)} {self.names(b, b.name)}[{b.elements}];")
        v, end = self.names(s.var, s.var.name), self.expressions.bound(s.upper)
        head = f"for (int64_t {v} = {end} - 1; {v} >= 0; --{v})"
        self.block(head if self.backward else f"for (int64_t {v} = 0; {v} < {end}; ++{v})", s.body)
        if s.kind == "group":
            self.depth -= 1
            self.line("}")


@dataclass
class Backward(Forward):
    """A writer that prints them from the last to the first."""

    backward: ClassVar[bool] = True


def reading(lowered: Lowered, backward: bool = False) -> Source:
    """The C of a program that was lowered for a device."""
    dialect = Dialect(PlainWords, Backward if backward else Forward)
    return print_c(lowered.function, lowered.memory, Printing("user"), dialect)
