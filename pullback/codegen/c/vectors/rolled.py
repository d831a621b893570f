"""C with vectors for people to read: loops over arrays of registers, and functions for what repeats.

Compilers make the same machine code of it, and take longer. Calls in this process have the statements written out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullback.codegen.c.kernels import Dialect
from pullback.codegen.c.literals import POSTFIX, SUM, Text
from pullback.codegen.c.names import Names
from pullback.codegen.c.printer import print_c
from pullback.codegen.c.text import WIDTH
from pullback.codegen.c.types import c_type
from pullback.codegen.c.vectors.expressions import VectorExpressions
from pullback.codegen.c.vectors.rolling import Element, Transpose, rolled
from pullback.codegen.c.vectors.shared import TEMPLATE, shared
from pullback.codegen.c.vectors.statements import VectorWriter
from pullback.codegen.c.vectors.target import VectorC
from pullback.codegen.c.vectors.text import VECTORS
from pullback.codegen.c.vectors.words import VectorWords
from pullback.codegen.target import Printing, Source
from pullback.ir.index import Index, Var, polynomial
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import For, Function, Let, Stmt
from pullback.loops.program.values import Gather, Temp, Type, Value
from pullback.records import dataclass

LOOPS: Final = ("for (int64_t", "PB_EACH(")
EACH: Final = """\
#ifdef __clang__ /* a loop over registers, which compilers write out */
#define PB_EACH(k, n) _Pragma("clang loop unroll(full)") for (int64_t k = 0; k < (n); ++k)
#else
#define PB_EACH(k, n) _Pragma("GCC unroll 256") for (int64_t k = 0; k < (n); ++k)
#endif
"""


class RolledWords(VectorWords):
    """The words for one file."""

    def __init__(self) -> None:
        super().__init__()
        self.scalar["PB_TEMPLATE"] = TEMPLATE

    def where_used(self, kernels: Mapping[str, str], rest: str) -> dict[str, str]:
        """The kernels; those that are unused without vectors go in vector sections, neighbors in one."""
        out: dict[str, str] = {}
        last = ""
        for name, text in super().where_used(kernels, rest).items():
            if text.startswith(VECTORS) and out.get(last, "").startswith(VECTORS):
                out[last] = out[last].removesuffix("#endif\n") + text.removeprefix(VECTORS)
                continue
            out[name], last = text, name
        return out

    def each(self) -> str:
        """A macro for a loop over registers."""
        self.vector.setdefault("PB_EACH", EACH)
        return "PB_EACH"

    def spread(self, t: Type) -> str:
        """A function that loads elements at equal distances."""
        c = self.type(t)
        name = f"pb_spread_{c[3:]}"
        places = ", ".join("p[0]" if k == 0 else "p[step]" if k == 1 else f"p[{k} * step]" for k in range(t.lanes))
        head = f"static inline {c} {name}(const {c_type(t.dtype)} *p, int64_t step)"
        self.vector.setdefault(name, f"{head} {{\n    return ({c}){{{places}}};\n}}\n")
        return name

    def transpose(self, t: Type) -> str:
        """A function that transposes a square of vectors, as many as each has lanes (Eklundh 1972)."""
        c, n, shuffle = self.type(t), t.lanes, self.shuffle(t)
        name = f"pb_transpose_{c[3:]}"
        body = ""
        for half in (1 << e for e in range(n.bit_length() - 1)):
            low = ", ".join(str(n + k - half if k & half else k) for k in range(n))
            high = ", ".join(str(n + k if k & half else k + half) for k in range(n))
            row = f"k / {half} * {2 * half} + k % {half}" if half > 1 else "k * 2"
            body += (
                f"    {self.each()}(k, {n // 2}) {{\n"
                f"        {c} *const a = v + {row}, *const b = a + {half};\n"
                f"        const {c} low = {shuffle}(*a, *b, {low});\n"
                f"        *b = {shuffle}(*a, *b, {high});\n        *a = low;\n    }}\n"
            )
        self.vector.setdefault(name, f"static inline void {name}({c} *v) {{\n{body}}}\n")
        return name


class RolledExpressions(VectorExpressions):
    """The printer of values, with elements of arrays of registers."""

    words: RolledWords

    def __init__(self, names: Names, words: RolledWords) -> None:
        super().__init__(names, words)
        self.variables: set[Var] = set()  # of loops over registers

    def _index(self, i: Index) -> Text:
        """An index; what a register's number adds comes last: written out it is a distance from one address."""
        own = {m: c for m, c in i.terms if not self.variables.isdisjoint(m)}
        rest = i - polynomial(own)
        if not own or not rest.terms or min(own.values()) < 0:
            return super()._index(i)
        return f"{super()._index(rest)[0]} + {super()._index(polynomial(own))[0]}", SUM

    def temp(self, t: Temp) -> str:
        """The name of a temporary, or an element."""
        if isinstance(t, Element):
            return f"{self.names(t.registers, t.registers.name)}[{self.index(t.at)}]"
        return super().temp(t)

    def text(self, v: Value) -> Text:
        """An expression."""
        if isinstance(v, Gather) and v.buffer.dtype is v.type.dtype and len(v.offsets) > 2:
            steps = {b - a for a, b in zip(v.offsets, v.offsets[1:], strict=False)}
            if len(steps) == 1:
                place = self.pointer(v.buffer, v.offsets[0])
                return f"{self.words.spread(v.type)}({place}, {self.index(steps.pop())})", POSTFIX
        return super().text(v)


@dataclass
class RolledWriter(VectorWriter):
    """Prints the statements of one function."""

    def printed(self) -> RolledExpressions:
        """The expression printer for this writer."""
        assert isinstance(self.words, RolledWords)
        return RolledExpressions(self.names, self.words)

    def vectors(self, body: tuple[Stmt, ...]) -> None:
        """Add statements of the form with vectors, after the arrays of their registers."""
        arrays, statements = rolled(body)
        for t in dict.fromkeys(a.type for a in arrays):
            own = ", ".join(f"{self.names(a, a.name)}[{len(a.temps)}]" for a in arrays if a.type == t)
            self.line(f"{self.words.type(t)} {own};")
        self.body(statements)

    def block(self, head: str, statements: tuple[Stmt, ...], tail: str = "}") -> None:
        """Add statements in braces; a loop over a single loop or statement is one line with it where it fits."""
        start = len(self.lines)
        super().block(head, statements, tail)
        inside = self.lines[start + 1 : -1]
        if not inside or not head.startswith(LOOPS) or tail != "}" or not _is_one(inside, self.depth + 1):
            return
        joined = "    " * self.depth + f"{head} {inside[0].lstrip()}"
        if self.names.width(joined) <= WIDTH:
            self.lines[start:] = [joined, *(line.removeprefix("    ") for line in inside[1:])]

    def statement(self, s: Stmt) -> None:
        """Add a statement."""
        match s:
            case Transpose():
                assert isinstance(self.words, RolledWords)
                name, at = self.words.transpose(s.registers.type), self.expressions.index(s.at)
                self.line(f"{name}({self.names(s.registers, s.registers.name)}{f' + {at}' if s.at.terms else ''});")
            case For(kind="unrolled"):
                self._each(s)
            case Let(temp=Element()):
                self.line(f"{self.expressions.temp(s.temp)} = {self.expressions.value(s.value)};")
                self.lines += self._held(s)
            case _:
                super().statement(s)

    def _each(self, s: For) -> None:
        """Add a loop over registers."""
        assert isinstance(self.words, RolledWords) and isinstance(self.expressions, RolledExpressions)
        self.expressions.variables.add(s.var)
        self.block(f"{self.words.each()}({self.names(s.var, s.var.name)}, {self.expressions.bound(s.upper)})", s.body)


def _is_one(lines: list[str], depth: int) -> bool:
    """Whether lines are one statement, or one loop with its braces."""
    own = [line for line in lines if not line.startswith("    " * (depth + 1))]
    if len(own) == 1:
        return len(lines) == 1 and own[0].endswith(";")
    return len(own) == 2 and own[0].lstrip().startswith(LOOPS) and own[0].endswith("{") and own[1].strip() == "}"


DIALECT = Dialect(RolledWords, RolledWriter, shared)


@dataclass(frozen=True)
class RolledC(VectorC):
    """C99 with the vector extensions of gcc and clang, for people to read."""

    name: str = "C to read"

    def words(self) -> RolledWords:
        """The words for a new file."""
        return RolledWords()

    def source(self, function: Function, plan: MemoryPlan, printing: Printing) -> Source:
        """The text of a program."""
        return print_c(function, plan, printing, DIALECT)
