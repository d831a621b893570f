"""Statements of C functions with vectors: plain C, vector stores, and kernels of two forms."""

from __future__ import annotations

from pullback.codegen.c.statements import Writer
from pullback.codegen.c.vectors.expressions import VectorExpressions
from pullback.codegen.c.vectors.text import VECTORS
from pullback.codegen.c.vectors.words import VectorWords
from pullback.ir.index import ZERO_INDEX
from pullback.loops.program.nodes import Kernel, Stmt, Store, StoreRows
from pullback.records import dataclass


@dataclass
class VectorWriter(Writer):
    """Prints the statements of one function."""

    @property
    def words(self) -> VectorWords:
        """The words of its file."""
        assert isinstance(self.unit.words, VectorWords)
        return self.unit.words

    def printed(self) -> VectorExpressions:
        """The expression printer for this writer."""
        return VectorExpressions(self.names, self.words)

    def store(self, s: Store) -> None:
        """Add a store."""
        if s.value.type.lanes == 1:
            super().store(s)
            return
        e = self.expressions
        target = f"*({self.words.type(s.value.type)}u *)({e.pointer(s.buffer, s.offset)})"
        self.line(f"{target} {'+=' if s.accumulate else '='} {e.value(s.value)};")

    def store_rows(self, s: StoreRows) -> None:
        """Add stores of the lanes of vectors."""
        e = self.expressions
        name = self.words.store_rows(s.values[0].type, len(s.values))
        values = ", ".join(e.value(v) for v in s.values)
        self.line(f"{name}({e.pointer(s.buffer, s.offset)}, {s.step}, {values});")

    def vectors(self, body: tuple[Stmt, ...]) -> None:
        """Add statements of the form with vectors."""
        self.body(body)

    def kernel_body(self, k: Kernel) -> None:
        """Add the statements of a kernel, in both forms if it has two."""
        if k.portable is None:
            (self.vectors if k.only_vectors else self.body)(k.body)
            return
        self.lines.append(VECTORS)
        self.vectors(k.body)
        self.lines.append("#else")
        for b in k.scratch:  # buffers that only vectors need
            self.line(f"(void){self.expressions.place(b, ZERO_INDEX)[0]};")
        self.body(k.portable)
        self.lines.append("#endif")
