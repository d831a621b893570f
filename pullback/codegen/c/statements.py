"""The statements of one function of plain C."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Final, assert_never

from pullback.codegen.c.expressions import Expressions
from pullback.codegen.c.names import Names
from pullback.codegen.c.tasks import Printed, TaskText
from pullback.codegen.c.text import WIDTH, folded, line_of, written_line
from pullback.codegen.c.types import c_type
from pullback.ir.index import ZERO_INDEX, Data, Index, Var, as_index
from pullback.loops.program import nodes
from pullback.loops.program.ahead import EndBatch, Finish, Prefetch, Wait
from pullback.loops.program.nodes import (
    Assign,
    Break,
    Call,
    Check,
    Comment,
    Copy,
    Fill,
    For,
    If,
    Kernel,
    Let,
    LetIndex,
    Loop,
    Multiply,
    Parallel,
    Procedure,
    Stmt,
    Store,
    StoreRows,
)
from pullback.loops.program.values import Binary, Broadcast, Extreme, Literal, Load, Read, loaded_name, scalar
from pullback.records import dataclass, field

ELEMENTS: Final = 4  # the most elements that are copied one by one


@dataclass
class Writer:
    """Prints the statements of one C function."""

    unit: Printed
    names: Names
    fails: bool = False
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    defined: set[object] = field(default_factory=set)
    shares: bool = False  # whether statements in a row share pointers, which compilers read faster

    def __post_init__(self) -> None:
        self.expressions = self.printed()

    def printed(self) -> Expressions:
        """The expression printer for this writer."""
        return Expressions(self.names, self.unit.words)

    def line(self, text: str) -> None:
        """Add a line, indented."""
        self.lines.append("    " * self.depth + text if text else "")

    def comment(self, texts: tuple[str, ...]) -> None:
        """Add a comment, folded."""
        if not self.unit.comments or not texts:
            return
        room = WIDTH - 4 * self.depth - 6
        safe = [piece for t in texts for piece in folded(t, room)]
        if len(safe) == 1:
            self.line(f"/* {safe[0]} */")
            return
        for k, t in enumerate(safe):
            self.line(("/* " if k == 0 else "   ") + t + (" */" if k == len(safe) - 1 else ""))

    def body(self, statements: tuple[Stmt, ...]) -> None:
        """Add statements."""
        for straight, run in groupby(statements, lambda s: isinstance(s, Let | Assign | Store | StoreRows)):
            if straight and self.shares:
                self._straight(tuple(run))
            else:
                for s in run:
                    self.statement(s)

    def _straight(self, statements: tuple[Stmt, ...]) -> None:
        """Add straight-line statements, after one pointer for each group of indices that differ by a constant."""
        count = Counter((a.buffer, a.offset - a.offset.offset) for s in statements for a in nodes.accesses(s))
        for (buffer, index), uses in count.items():
            if uses > 1 and index.terms:
                pointer, place = self.names(object(), buffer.name), self.expressions.pointer(buffer, index)
                self.line(f"{'' if buffer.written else 'const '}{c_type(buffer.dtype)} *const {pointer} = {place};")
                self.expressions.addresses[buffer, index] = pointer
        for s in statements:
            self.statement(s)
        self.expressions.addresses.clear()

    def block(self, head: str, statements: tuple[Stmt, ...], tail: str = "}") -> None:
        """Add statements in braces."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        self.body(statements)
        self.depth -= 1
        self.line(tail)

    def statement(self, s: Stmt) -> None:
        """Add a statement."""
        e = self.expressions
        match s:
            case For() if _once(s):
                assert isinstance(s.lower, Index)
                read = any(s.var in i.free for x in nodes.walk(s.body) for i in nodes.statement_indices(x))
                self.block("", (LetIndex(s.var, s.lower), *s.body) if read else s.body)
            case For():
                v = self.names(s.var, s.var.name)
                step = f"++{v}" if s.step == 1 else f"{v} += {s.step}"
                self.block(f"for (int64_t {v} = {e.bound(s.lower)}; {v} < {e.bound(s.upper)}; {step})", s.body)
            case Loop():
                self.block("for (;;)", s.body)
            case If():
                self.block(f"if ({e.value(s.test)})", s.then, "} else {" if s.otherwise else "}")
                if s.otherwise:
                    self.depth += 1
                    self.body(s.otherwise)
                    self.depth -= 1
                    self.line("}")
            case Break():
                self.line("break;")
            case Let():
                value = e.value(s.value)
                c, name = self.unit.words.type(s.temp.type), e.temp(s.temp)
                held = self._held(s)
                self.line(f"{'' if s.mutable or held else 'const '}{c} {name} = {value};")
                self.lines += held
            case LetIndex():
                value = e.bound(s.value) if isinstance(s.value, Index | Extreme) else e.value(s.value)
                if not isinstance(s.value, Index | Extreme) and s.value.type.dtype.name != "i64":
                    value = f"(int64_t){e.value(s.value, 14)}"
                wish = loaded_name(s.var) if isinstance(s.var, Data) else s.var.name
                self.line(f"const int64_t {self.names(s.var, wish)} = {value};")
            case Assign():
                self.line(self._assign(s) + ";")
                self.lines += self._held(s)
            case Store():
                self.store(s)
            case StoreRows():
                self.store_rows(s)
            case Check():
                self._check(s)
            case Copy():
                self._copy(s)
            case Fill():
                size = self.expressions.index(s.count * s.buffer.dtype.size)
                self.line(f"memset({e.pointer(s.buffer, s.offset)}, 0, {_size(size, s.count)});")
            case Prefetch():
                self._prefetch(s)
            case Multiply():
                self.body(s.body)
            case EndBatch() | Wait() | Finish():
                pass
            case Procedure():
                name = self.unit.words.procedure(s.work)
                places = [e.pointer(run.buffer, run.offset) for run in (*s.reads, *s.writes)]
                self.line(f"{name}({', '.join([*places, *map(e.index, s.numbers)])});")
            case Comment():
                self.comment((s.text,))
            case Call():
                self.call(s)
            case Parallel():
                self._parallel(s)
            case _:
                assert_never(s)

    def _held(self, s: Let | Assign) -> list[str]:
        """The line that keeps a temporary in a register, if it is requested."""
        word = self.unit.words.hold(s.temp.type) if s.held else ""
        return ["    " * self.depth + f"{word}({self.expressions.temp(s.temp)});"] if word else []

    def _assign(self, s: Assign) -> str:
        name = self.expressions.temp(s.temp)
        v = s.value
        if isinstance(v, Binary) and v.op in ("+", "-", "*") and isinstance(v.a, Read):
            if v.type.dtype.is_floating and self.expressions.temp(v.a.temp) == name:
                b = v.b.value if isinstance(v.b, Broadcast) else v.b
                return f"{name} {v.op}= {self.expressions.value(b)}"
        return f"{name} = {self.expressions.value(v)}"

    def store_rows(self, s: StoreRows) -> None:
        """Add stores of the lanes of vectors."""
        raise AssertionError("rows of lanes: plain C has no vectors")

    def store(self, s: Store) -> None:
        """Add a store."""
        e, t = self.expressions, s.value.type
        name, where = e.place(s.buffer, s.offset)
        target = f"{name}[{e.index(where)}]"
        if not s.accumulate:
            self.line(f"{target} = {e.value(s.value)};")
        elif t.dtype.is_floating:
            self.line(f"{target} += {e.value(s.value)};")
        else:
            total = Binary("+", Load(s.buffer, s.offset, t), s.value, t)
            self.line(f"{target} = {e.value(total)};")

    def _check(self, s: Check) -> None:
        self.fails = True
        e = self.expressions
        i, low, high = e.index(s.index, 11), e.index(s.lower, 11), e.index(s.extent, 11)
        self.line(f"if ({i} < {low} || {i} >= {high}) {{")
        self.line(f"    if (fault) fault[0] = {e.index(s.index)}, fault[1] = {e.index(s.extent)};")
        self.line(f"    return {self.unit.site(s.site)};")
        self.line("}")

    def _copy(self, s: Copy) -> None:
        e = self.expressions
        target = e.pointer(s.target.buffer, s.target.offset)
        source = e.pointer(s.source.buffer, s.source.offset)
        dtype = s.target.buffer.dtype
        if s.count.constant in range(1, 2 if s.maybe_same else ELEMENTS + 1):  # memcpy keeps arrays out of registers
            to, at = e.place(s.target.buffer, s.target.offset)
            origin, whence = e.place(s.source.buffer, s.source.offset)
            for k in range(s.count.constant or 0):
                self.line(f"{to}[{e.index(at + k)}] = {origin}[{e.index(whence + k)}];")
            return
        size = _size(e.index(s.count * dtype.size), s.count)
        guard = f"if ({target} != {source}) " if s.maybe_same else ""
        self.line(f"{guard}memcpy({target}, {source}, {size});")

    def _prefetch(self, s: Prefetch) -> None:
        """Copy at once."""
        k, dtype = Var("k", as_index(s.count)), scalar(s.target.buffer.dtype)
        to, value = s.target.offset + as_index(k), Load(s.source.buffer, s.source.offset + as_index(k), dtype)
        copy = For(k, ZERO_INDEX, k.extent, (Store(s.target.buffer, to, value),))
        zero = For(k, ZERO_INDEX, k.extent, (Store(s.target.buffer, to, Literal(0, dtype)),))
        self.statement(copy if s.test is None else If(s.test, (copy,), (zero,)))

    def call(self, s: Call) -> None:
        """Add a call of a kernel, or its statements if it is printed inside its caller."""
        marks = self.unit.marks if s.kernel.positions else None
        if marks is not None:
            self.lines.append(marks.begin(s.kernel, s.kernel.positions))
        self._called(s)
        if marks is not None:
            self.lines.append(marks.end)

    def _called(self, s: Call) -> None:
        if self.unit.inlined(s.kernel) and self._first_time(s.kernel):
            e = self.expressions
            for param, view in zip(s.kernel.params, s.arguments, strict=True):
                home, base = e.places.get(view.buffer, (view.buffer, None))
                e.places[param] = (home, view.offset if base is None else base + view.offset)
            if self.unit.style != "canonical" and (line := written_line(s.kernel.position)):
                self.comment((line,))
            self.comment(s.kernel.comment)
            self.kernel_body(s.kernel)
            return
        name = self.unit.kernel(s.kernel)
        if self.unit.lines and s.kernel.position is not None:
            self.lines.append(line_of(s.kernel.position))
        arguments = [self.expressions.pointer(v.buffer, v.offset) for v in s.arguments]
        arguments += [self.expressions.index(i) for i in s.index_values]
        if s.kernel.checks:
            self.fails = True
            arguments.append("fault")
            self.line(f"if ((status = {name}({', '.join(arguments)}))) return status;")
        else:
            self.line(f"{name}({', '.join(arguments)});")

    def _parallel(self, s: Parallel) -> None:
        """Write a parallel statement: a struct with its tasks' needs, and one call of the pool."""
        tasks = TaskText(self.unit, self.expressions, s)
        name = self.unit.tasks(tasks)
        self.line("{")
        self.depth += 1
        values = ", ".join(f".{f} = {v}" for f, v in tasks.values.items())
        self.line(f"struct {name} shared = {{{values}}};")
        chunks = self.expressions.index(tasks.chunks)
        self.line(f"pb_run(pool, {name}_run, &shared, {chunks});")
        if tasks.fails:
            self.fails = True
            self.line(f"for (int64_t chunk = 0; chunk < {chunks}; ++chunk) {{")
            self.line("    if (shared.status[chunk]) {")
            self.line("        if (fault) fault[0] = shared.fault[chunk][0], fault[1] = shared.fault[chunk][1];")
            self.line("        return shared.status[chunk];")
            self.line("    }")
            self.line("}")
        self.depth -= 1
        self.line("}")

    def _first_time(self, k: Kernel) -> bool:
        """Whether the kernel's definitions are all new in this function."""
        made = {s.temp if isinstance(s, Let) else s.var for s in nodes.walk(k.body) if isinstance(s, Let | LetIndex)}
        first = made.isdisjoint(self.defined)
        self.defined |= made
        return first

    def kernel_body(self, k: Kernel) -> None:
        """Add the statements of a kernel."""
        assert k.portable is None, "for plain C a kernel has one form"
        self.body(k.body)


def _once(s: For) -> bool:
    """Whether a loop runs once."""
    if not (isinstance(s.lower, Index) and isinstance(s.upper, Index)):
        return False
    trips = (s.upper - s.lower).constant
    return trips is not None and 0 < trips <= s.step and not any(isinstance(x, Break) for x in nodes.walk(s.body))


def _size(text: str, count: Index) -> str:
    return text if count.constant is not None else f"(size_t)({text})"
