"""The C printer: a loop program with its memory plan as one C99 translation unit.

The text is standalone: what it needs beyond libc and libm stands at its top. The function takes its inputs, its
outputs, an arena of the planned size aligned to 64 bytes, and, where indices are checked at run time, a pointer to
two numbers (index and extent) that describe a failure; it returns 0 or the code of the check that failed. Where loops
are shared out among threads it takes a pool too: a number of workers and a function that runs a task for each of its
chunks. The text itself starts no threads, and without a pool it runs the chunks in order.

Kernels become static functions whose parameters are `restrict`, equal ones are printed once. A program of a single
kernel is printed as one function, and so are kernels without loops inside their caller. Kernels of few scalar
operations are `inline` where the program has loops: a call costs as much, and moves all values through memory.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from dataclasses import dataclass, field
from typing import Final, Literal, assert_never

from pullback.codegen import sizes
from pullback.codegen.expressions import Expressions
from pullback.codegen.helpers import Helpers
from pullback.codegen.names import Names, Style, identifier, unique
from pullback.codegen.units import split
from pullback.ir.index import ZERO_INDEX, Data, Index
from pullback.loops import nodes
from pullback.loops.memory import MemoryPlan
from pullback.loops.nodes import (
    Assign,
    Binary,
    Break,
    Buffer,
    Call,
    Check,
    Comment,
    Copy,
    Extreme,
    Fill,
    For,
    Function,
    If,
    Kernel,
    Let,
    LetIndex,
    Loop,
    Parallel,
    Read,
    Site,
    Stmt,
    Store,
    Task,
)
from pullback.loops.work import is_little
from pullback.source import Position

WIDTH: Final = 120
ELEMENTS: Final = 4  # that are copied one by one
VECTORS: Final = "#if (defined(__GNUC__) || defined(__clang__)) && !defined(PB_NO_VECTORS)"
_CUT: Final = re.compile(r"(?<=,)( )|( )(?=(?:[-+*/?:]|&&|\|\|) )")
QUIET: Final = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* no vector crosses the boundary of this file */
#endif
#define PB_INLINE static inline __attribute__((always_inline))
"""
POOL: Final = """\
typedef struct pb_pool pb_pool;
struct pb_pool { /* runs a task for every chunk; `worker` tells threads that run at the same time apart */
    int64_t workers;
    void (*run)(pb_pool *pool, void (*task)(void *context, int64_t chunk, int64_t worker), void *context,
                int64_t chunks);
};

static void pb_run(pb_pool *pool, void (*task)(void *context, int64_t chunk, int64_t worker), void *context,
                   int64_t chunks) {
    if (pool) {
        pool->run(pool, task, context, chunks);
        return;
    }
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        task(context, chunk, 0);
    }
}
"""
_MATH: Final = re.compile(
    r"\b(?:exp|expm1|log|log1p|log2|log10|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|atanh|sqrt|pow|fabs|"
    r"floor|ceil|rint|trunc|fmod|copysign|hypot|erf|isnan|isinf|isfinite|fma|fmax|fmin|ldexp)f?\(|\bNAN\b|\bINFINITY\b")


@dataclass(frozen=True)
class CSource:
    """A printed program.

    Attributes:
        text: the translation unit.   name: the C name of its function.   declaration: its prototype.
        sites: what each return code (from 1) means.
        arena_bytes: what `arena` must have; of C for all sizes, what it must have beside what the dims ask for.
        kernels: how many static functions it has.
        units: the same as files that are compiled apart, the first with the function; see `codegen.units`.
        straight: whether the first of several units computes nothing in loops.
        dims: the names of its dims, integer arguments between the arrays and the arena.
        arena_declaration: of C for all sizes, the prototype of the function that gives the bytes of the arena.
        needs: of C for all sizes, what the dims must fulfil.
        worker_bytes: what the arena must have more for each worker but the first.
        threaded: whether the function takes a pool.
    """

    text: str
    name: str
    declaration: str
    sites: tuple[Site, ...]
    arena_bytes: int
    kernels: int
    dims: tuple[str, ...] = ()
    arena_declaration: str = ""
    needs: tuple[str, ...] = ()
    worker_bytes: int = 0
    threaded: bool = False
    units: tuple[str, ...] = ()
    straight: bool = False


def print_c(function: Function, plan: MemoryPlan, *, names: Style | Literal["content"] = "user",
            comments: bool = True, lines: bool = False) -> CSource:
    """The C of a loop program.

    Args:
        names: "user" for the user's names, "canonical" for numbered ones, by which programs are compared; "content" for
            numbered ones with kernels named after what they are, in units by which they are found again.
        comments: whether to print the header and the mathematics of each kernel.
        lines: whether each line of a kernel says which line of the user's file it comes from, for debuggers.
    """
    return _Unit(function, plan, names, comments, lines).print()


@dataclass
class _Writer:
    """Prints the statements of one C function."""

    unit: _Unit
    names: Names
    fails: bool = False
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    defined: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.expressions = Expressions(self.names, self.unit.helpers)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text if text else "")

    def comment(self, texts: tuple[str, ...]) -> None:
        if not self.unit.comments or not texts:
            return
        room = WIDTH - 4 * self.depth - 6
        safe = [piece for t in texts for piece in _folded(t, room)]
        if len(safe) == 1:
            self.line(f"/* {safe[0]} */")
            return
        for k, t in enumerate(safe):
            self.line(("/* " if k == 0 else "   ") + t + (" */" if k == len(safe) - 1 else ""))

    def body(self, statements: tuple[Stmt, ...]) -> None:
        for s in statements:
            self.statement(s)

    def block(self, head: str, statements: tuple[Stmt, ...], tail: str = "}") -> None:
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        self.body(statements)
        self.depth -= 1
        self.line(tail)

    def statement(self, s: Stmt) -> None:
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
                const = "" if s.mutable or s.held else "const "
                value = e.value(s.value)
                self.line(f"{const}{self.type(s.temp.type)} {self.names(s.temp, s.temp.name)} = {value};")
                if s.held:
                    self.line(f"{self.unit.helpers.hold(s.temp.type)}({self.names(s.temp, s.temp.name)});")
            case LetIndex():
                value = e.bound(s.value) if isinstance(s.value, Index | Extreme) else e.value(s.value)
                if not isinstance(s.value, Index | Extreme) and s.value.type.dtype.name != "i64":
                    value = f"(int64_t){e.value(s.value, 14)}"
                wish = nodes.loaded_name(s.var) if isinstance(s.var, Data) else s.var.name
                self.line(f"const int64_t {self.names(s.var, wish)} = {value};")
            case Assign():
                self.line(self._assign(s) + ";")
            case Store():
                self._store(s)
            case nodes.StoreRows():
                e = self.expressions
                name = self.unit.helpers.store_rows(s.values[0].type, len(s.values))
                values = ", ".join(e.value(v) for v in s.values)
                self.line(f"{name}({e.pointer(s.buffer, s.offset)}, {s.step}, {values});")
            case Check():
                self._check(s)
            case Copy():
                self._copy(s)
            case Fill():
                size = self.expressions.index(s.count * s.buffer.dtype.size)
                self.line(f"memset({e.pointer(s.buffer, s.offset)}, 0, {_size(size, s.count)});")
            case Comment():
                self.comment((s.text,))
            case Call():
                self._call(s)
            case Parallel():
                self._parallel(s)
            case _:
                assert_never(s)

    def type(self, t: nodes.Type) -> str:
        return t.dtype.c if t.lanes == 1 else self.unit.helpers.type(t)

    def _assign(self, s: Assign) -> str:
        name = self.names(s.temp, s.temp.name)
        v = s.value
        if isinstance(v, Binary) and v.op in ("+", "-", "*") and isinstance(v.a, Read) and v.a.temp is s.temp:
            if v.type.dtype.is_floating:
                b = v.b.value if isinstance(v.b, nodes.Broadcast) else v.b
                return f"{name} {v.op}= {self.expressions.value(b)}"
        return f"{name} = {self.expressions.value(v)}"

    def _store(self, s: Store) -> None:
        e = self.expressions
        t = s.value.type
        if t.lanes > 1:
            target = f"*({self.unit.helpers.type(t)}u *)({e.pointer(s.buffer, s.offset)})"
            self.line(f"{target} {'+=' if s.accumulate else '='} {e.value(s.value)};")
            return
        name, where = e.place(s.buffer, s.offset)
        target = f"{name}[{e.index(where)}]"
        if not s.accumulate:
            self.line(f"{target} = {e.value(s.value)};")
        elif t.dtype.is_floating:
            self.line(f"{target} += {e.value(s.value)};")
        else:
            total = Binary("+", nodes.Load(s.buffer, s.offset, t), s.value, t)
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

    def _call(self, s: Call) -> None:
        if self.unit.inlined(s.kernel) and self._first_time(s.kernel):
            e = self.expressions
            for param, view in zip(s.kernel.params, s.arguments, strict=True):
                home, base = e.places.get(view.buffer, (view.buffer, None))
                e.places[param] = (home, view.offset if base is None else base + view.offset)
            self.comment(s.kernel.comment)
            self.kernel_body(s.kernel)
            return
        name = self.unit.kernel(s.kernel)
        if self.unit.lines and s.kernel.position is not None:
            self.lines.append(_line(s.kernel.position))
        arguments = [self.expressions.pointer(v.buffer, v.offset) for v in s.arguments]
        arguments += [self.expressions.index(i) for i in s.index_values]
        if s.kernel.checks:
            self.fails = True
            arguments.append("fault")
            self.line(f"if ((status = {name}({', '.join(arguments)}))) return status;")
        else:
            self.line(f"{name}({', '.join(arguments)});")

    def _parallel(self, s: Parallel) -> None:
        """What the tasks need as a struct, and one call of the pool."""
        tasks = TaskText(self.unit, self.expressions, s)
        name = self.unit.tasks(tasks)
        self.line("{")
        self.depth += 1
        values = ", ".join(f".{f} = {v}" for f, v in tasks.values.items())
        self.line(f"struct {name} shared = {{{values}}};")
        self.line(f"pb_run(pool, {name}_run, &shared, {tasks.chunks});")
        if tasks.fails:
            self.fails = True
            self.line(f"for (int64_t chunk = 0; chunk < {tasks.chunks}; ++chunk) {{")
            self.line("    if (shared.status[chunk]) {")
            self.line("        if (fault) fault[0] = shared.fault[chunk][0], fault[1] = shared.fault[chunk][1];")
            self.line("        return shared.status[chunk];")
            self.line("    }")
            self.line("}")
        self.depth -= 1
        self.line("}")

    def _first_time(self, k: Kernel) -> bool:
        """Whether nothing that the kernel defines has been defined in this function."""
        made = {s.temp if isinstance(s, Let) else s.var for s in nodes.walk(k.body) if isinstance(s, Let | LetIndex)}
        first = made.isdisjoint(self.defined)
        self.defined |= made
        return first

    def kernel_body(self, k: Kernel) -> None:
        """The statements of a kernel, in both forms where it has two."""
        if k.portable is None:
            self.body(k.body)
            return
        self.lines.append(VECTORS)
        self.body(k.body)
        self.lines.append("#else")
        for b in k.scratch:  # what only vectors need
            self.line(f"(void){self.expressions.place(b, ZERO_INDEX)[0]};")
        self.body(k.portable)
        self.lines.append("#endif")


class TaskText:
    """The C of a parallel statement: the fields of a struct with their values, and what each task calls.

    Attributes:
        fields: declarations by name.   values: what the caller puts there.   calls: first chunk and C of each task.
        chunks: of all tasks.   fails: whether one has a range check.
    """

    def __init__(self, unit: _Unit, expressions: Expressions, s: Parallel) -> None:
        self.unit = unit
        self.expressions = expressions
        self.fields: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.calls: list[tuple[int, str]] = []
        self.chunks = 0
        self.fails = any(t.call.kernel.checks for t in s.tasks)
        self.wish = unit.kernel(s.tasks[0].call.kernel)
        for t in s.tasks:
            self._task(t)

    def _task(self, t: Task) -> None:
        k, e = t.call.kernel, self.expressions
        arguments = []
        for p, view in zip(k.params, t.call.arguments, strict=True):
            const = "" if p.written else "const "
            field = self._field(p.name, f"{const}{p.dtype.c} *", e.pointer(view.buffer, view.offset))
            own = f" + worker * {self.unit.plan.worker_bytes // p.dtype.size}"
            arguments.append(f"shared->{field}" + own * (view.buffer.space == "worker"))
        for v, i in zip(k.indices, t.call.index_values, strict=True):
            if v is t.chunk:
                arguments.append("chunk" + f" - {self.chunks}" * (self.chunks > 0))
            else:
                arguments.append("shared->" + self._field(v.name, "int64_t ", e.index(i)))
        if k.checks:
            arguments.append("shared->fault[chunk]")
        text = f"{self.unit.kernel(k)}({', '.join(arguments)});"
        self.calls.append((self.chunks, f"shared->status[chunk] = {text}" if k.checks else text))
        self.chunks += t.chunks

    def _field(self, wish: str, declared: str, value: str) -> str:
        """The name of the field with this value."""
        for name, v in self.values.items():
            if v == value and self.fields[name] == declared:
                return name
        name = unique(wish, lambda n: n in self.fields or n in ("status", "fault"))
        self.fields[name] = declared
        self.values[name] = value
        return name

    def text(self, name: str) -> str:
        """The struct and the function that runs a chunk."""
        fields = [f"{declared}{f};" for f, declared in self.fields.items()]
        if self.fails:
            fields += [f"int status[{self.chunks}];", f"int64_t fault[{self.chunks}][2];"]
        lines = [f"struct {name} {{", *(f"    {f}" for f in fields), "};", "",
                 f"static void {name}_run(void *context, int64_t chunk, int64_t worker) {{",
                 f"    struct {name} *const shared = context;", "    (void)worker;"]
        for start, call in reversed(self.calls[1:]):
            lines += [f"    if (chunk >= {start}) {{", f"        {call}", "        return;", "    }"]
        if self.chunks == 1:
            lines.append("    (void)chunk;")
        return "\n".join([*lines, f"    {self.calls[0][1]}", "}", ""])


class _Unit:
    """One translation unit being printed."""

    def __init__(self, function: Function, plan: MemoryPlan, style: Style | Literal["content"], comments: bool,
                 lines: bool = False) -> None:
        self.function = function
        self.lines = lines
        self.plan = plan
        self.by_content = style == "content"
        self.style: Style = "canonical" if style == "content" else style
        self.comments = comments
        self.helpers = Helpers()
        self.sites: dict[Site, int] = {}
        self.kernel_texts: dict[str, str] = {}
        self.name = unique(function.name, lambda n: False) if style == "user" else "program"
        self._tasks: list[str] = []
        self._by_text: dict[str, str] = {}
        self._by_kernel: dict[Kernel, str] = {}
        self._taken: set[str] = {self.name}
        calls = [s for s in nodes.walk(function.body) if isinstance(s, Call)]
        top = [s for s in function.body if not isinstance(s, Comment)]
        single = len(calls) == 1 and calls[0] in top and not _loops(function.body)
        self._single = calls[0].kernel if single else None
        self._repeats = any(isinstance(s, For | Loop) for s in nodes.walk(function.body))

    def site(self, site: Site) -> int:
        """The return code of a check."""
        return self.sites.setdefault(site, len(self.sites) + 1)

    def inlined(self, k: Kernel) -> bool:
        """Whether a kernel is printed where it is called: the only one, or one without loops."""
        return k is self._single or not k.is_function

    def inline(self, k: Kernel) -> bool:
        """Whether a kernel is too little to be called: the C compiler is told so."""
        return self._repeats and is_little(k.body)

    def tasks(self, tasks: TaskText) -> str:
        """The name of the struct of a parallel statement, printed when first needed; equal ones are one."""
        text = tasks.text("")
        known = self._by_text.get(text)
        if known is not None:
            return known
        name = self._by_text[text] = unique(f"{tasks.wish}_tasks", self._taken.__contains__)
        self._taken.update((name, f"{name}_run"))
        self.kernel_texts[name] = tasks.text(name)
        self._tasks.append(name)
        return name

    def kernel(self, k: Kernel) -> str:
        """The name of the static function for a kernel, printed when first needed; equal ones are one."""
        known = self._by_kernel.get(k)
        if known is not None:
            return known
        names = Names()
        writer = _Writer(self, names)
        params = [self._parameter(b, names) for b in k.params]
        params += [f"int64_t {names(v, v.name)}" for v in k.indices]
        writer.kernel_body(k)
        if k.checks:
            params.append("int64_t *fault")
            writer.line("return 0;")
        result = ("inline " if self.inline(k) else "") + ("int" if k.checks else "void")
        static = f"{self.helpers.apart()} static" if k.apart and k.only_vectors else "static"
        signature = ", ".join(params)
        raw = f"({signature}) {{\n" + "\n".join(writer.lines) + "\n}\n"
        key = result + names.numbered(raw) + (str(_line(k.position)) if self.lines else "")
        name = self._by_text.get(key)
        if name is None:
            name = unique(self._wish(k, key), self._taken.__contains__)
            self._taken.add(name)
            self._by_text[key] = name
            comment = _Writer(self, names, depth=0)
            comment.comment(k.comment)
            resolved = names.resolve(raw, self.style)
            head = "".join(f"{t}\n" for t in comment.lines)
            text = head + _wrap(f"{static} {result} {name}", resolved)
            if self.lines:
                text = _marked(text, k.position)
            self.kernel_texts[name] = f"{VECTORS}\n{text}#endif\n" if k.only_vectors else text
        self._by_kernel[k] = name
        return name

    def _wish(self, k: Kernel, text: str) -> str:
        """What a kernel would like to be called."""
        if self.by_content:
            return "kernel_" + hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        return f"kernel{len(self._by_text)}" if self.style == "canonical" else f"{self.name}_{identifier(k.name)}"

    def _parameter(self, b: Buffer, names: Names) -> str:
        const = "" if b.written else "const "
        return f"{const}{b.dtype.c} *restrict {names(b, b.name)}"

    def print(self) -> CSource:
        """The whole text."""
        f = self.function
        names = Names()
        writer = _Writer(self, names)
        params: list[str] = []
        shared = {f.inputs[j] for _, j in f.in_place}
        for b in f.inputs:
            restrict = "" if b in shared else "restrict "
            params.append(f"const {b.dtype.c} *{restrict}{names(b, b.name)}")
        params += [f"{b.dtype.c} *restrict {names(b, b.name)}" for b in f.outputs]
        params += [f"int64_t {names(d, d.name)}" for d in f.dims]
        body = _Writer(self, names)
        body.expressions = writer.expressions
        body.body(f.body)
        params.append("void *restrict arena")
        if body.fails:
            params.append("int64_t *fault")
        threaded = any(isinstance(s, Parallel) for s in nodes.walk(f.body))
        if threaded:
            params.append("pb_pool *pool")
        text = "\n".join(body.lines)
        if f.dims:
            self._sizes(writer, text)
        if not self.plan.offsets and not self.plan.slots:
            writer.line("(void)arena;")
        for b, offset in self.plan.offsets.items():
            token = names(b, b.name)
            if token in text:
                place = "arena" if offset == 0 else f"((char *)arena + {offset})"
                shape = f" /* {_shape(b)} */" if self.comments else ""
                writer.line(f"{b.dtype.c} *const {token} = ({b.dtype.c} *){place};{shape}")
        for b in self.plan.local:
            token = names(b, b.name)
            if token in text:
                shape = f" /* {_shape(b)} */" if self.comments else ""
                writer.line(f"{b.dtype.c} {token}[{b.elements}];{shape}")
        self._slots(writer, text)
        for b in f.inputs:
            if names(b, b.name) not in text:
                writer.line(f"(void){names(b, b.name)};")
        if re.search(r"\bstatus\b", text):
            writer.line("int status;")
        if writer.lines:
            writer.line("")
        raw = f"({', '.join(params)}) {{\n" + "\n".join([*writer.lines, text, "    return 0;"]) + "\n}\n"
        reserved = frozenset(self._taken | {"status"} | ({"pool", "shared", "chunk", "worker"} if threaded else set()))
        resolved = names.resolve(raw, self.style, reserved)
        definition = _wrap(f"int {self.name}", resolved)
        declaration = definition[: definition.index(" {\n")] + ";"
        arena, arena_declaration = self._arena_function() if f.dims else ("", "")
        texts = [*self.kernel_texts.values(), arena]
        parts = [self._header(), self._preamble("\n".join([*texts, definition])), POOL * threaded, *texts]
        if self.lines:
            definition = _own_line(self.name) + definition
        entry = self._entry_comment() + definition
        units = self._units(POOL * threaded, arena + definition) if self.by_content else ()
        return CSource(_fit("\n".join([*(p for p in parts if p), entry])), self.name, declaration, tuple(self.sites),
                       self.plan.bytes, len(self.kernel_texts), tuple(d.name for d in f.dims), arena_declaration,
                       tuple(map(str, f.needs)), self.plan.worker_bytes, threaded, units,
                       len(units) > 1 and self._straight(f.body))

    def _straight(self, body: tuple[Stmt, ...]) -> bool:
        """Whether the statements do their work in functions: nothing is computed in a loop here."""
        here = [s for s in nodes.walk(body) if isinstance(s, Call) and self.inlined(s.kernel)]
        if any(isinstance(s, For | Loop) for call in here for s in nodes.walk(call.kernel.body)):
            return False  # the only kernel is written out here
        inside = (s for loop in nodes.walk(body) if isinstance(loop, For | Loop) for s in nodes.walk(loop.body))
        return not any(
            isinstance(s, Store | Let) or (isinstance(s, Call) and (self.inlined(s.kernel) or self.inline(s.kernel)))
            for s in inside
        )

    def _units(self, before: str, after: str) -> tuple[str, ...]:
        """The text in units: kernels, and in the first what calls them."""
        kernels = {n: t for n, t in self.kernel_texts.items() if n not in self._tasks}
        tasks = [self.kernel_texts[n] for n in self._tasks]
        return split(kernels, "\n".join([before, *tasks, after]), self._preamble)

    def _sizes(self, writer: _Writer, text: str) -> None:
        """Tests of the dims, and which of them are not used."""
        f = self.function
        if f.needs:
            writer.line(f"if ({sizes.fails(f.needs, writer.expressions)}) return {sizes.WRONG_DIMS};")
        if self.plan.slots:
            dims = ", ".join(writer.names(d, d.name) for d in f.dims)
            writer.line(f"if ({self.name}_arena_bytes({dims}) == SIZE_MAX) return {sizes.TOO_LARGE};")
        else:
            tested = {s for c in f.needs for s in c.index.symbols}
            for d in f.dims:
                if d not in tested and writer.names(d, d.name) not in text:
                    writer.line(f"(void){writer.names(d, d.name)};")

    def _slots(self, writer: _Writer, text: str) -> None:
        """Where each slot begins, and what is in it."""
        before = f"(char *)arena + {self.plan.bytes}" if self.plan.bytes else "(char *)arena"
        last = len(self.plan.slots) - 1
        bytes_of = sizes.slot_sizes(self.plan, writer.expressions)
        for k, (slot, size) in enumerate(zip(self.plan.slots, bytes_of, strict=True)):
            name = writer.names(slot, f"memory{k}")
            writer.line(f"char *const {name} = {before};")
            before = f"{name} + {size}" if k < last else ""
            for b in slot.buffers:
                token = writer.names(b, b.name)
                if token in text:
                    shape = f" /* {_shape(b)} */" if self.comments else ""
                    writer.line(f"{b.dtype.c} *const {token} = ({b.dtype.c} *){name};{shape}")

    def _arena_function(self) -> tuple[str, str]:
        """The function that gives the bytes of the arena for some dims, and its prototype."""
        f = self.function
        names = Names()
        writer = _Writer(self, names)
        params = ", ".join(f"int64_t {names(d, d.name)}" for d in f.dims)
        for line in sizes.arena_body(self.plan, f.needs, writer.expressions):
            writer.line(line)
        used = "\n".join(writer.lines)
        unused = [f"    (void){t};" for d in f.dims if (t := names(d, d.name)) not in used]
        raw = f"({params}) {{\n" + "\n".join([*unused, *writer.lines]) + "\n}\n"
        text = _wrap(f"size_t {self.name}_arena_bytes", names.resolve(raw, self.style, frozenset(self._taken)))
        declaration = text[: text.index(" {\n")] + ";"
        comment = "/* Bytes of the arena; SIZE_MAX for dims that the function does not take. */\n" * self.comments
        return f"{comment}{declaration}\n{text}", declaration

    def _header(self) -> str:
        """What the function is, for the reader: the user's words, shapes and counts."""
        if not self.comments:
            return ""
        f = self.function
        lines = [f.name]
        if f.doc:
            lines += ["", *(line.strip() for line in f.doc.strip().splitlines())]
        for title, buffers in (("inputs", f.inputs), ("outputs", f.outputs)):
            text = f"{title:9}" + ", ".join(f"{b.name}: {_shape(b)}" for b in buffers)
            lines += ["", *_folded(text, WIDTH - 3, 9)]
        n = len(self.plan.offsets)
        n += sum(len(slot.buffers) for slot in self.plan.slots)
        if f.dims:
            lines += ["", f"dims     {', '.join(d.name for d in f.dims)}, for which {', '.join(map(str, f.needs))}"]
        lines += ["", f"{_count(f.operations)} multiply-adds, {n} buffer{'' if n == 1 else 's'}, peak "
                  f"{self.plan.formula if self.plan.slots else _thousands(self.plan.bytes)} bytes"]
        safe = [piece for line in lines for piece in _folded(line, WIDTH - 3)]
        return "/* " + "\n".join(f" * {line}".rstrip() if k else line for k, line in enumerate(safe)) + "\n */\n"

    def _entry_comment(self) -> str:
        if not self.comments:
            return ""
        text = f"/* Returns 0. `arena` has {_thousands(self.plan.bytes)} bytes, aligned to 64."
        if self.plan.slots:
            text = f"/* Returns 0. `arena` has {self.name}_arena_bytes(..) bytes, aligned to 64."
        elif not self.plan.bytes:
            text = "/* Returns 0. `arena` is not used and may be null."
        if self.function.dims:
            text += " For other dims than it takes it returns -1."
        if self.sites:
            text = text.replace("Returns 0.", "Returns 0, or the number of the range check that failed; `fault` may be "
                                "null, else it gets\n   the index and its bound.")
        return text + " */\n"

    def _preamble(self, text: str) -> str:
        """Headers and helpers for a text."""
        helpers, vectors = self.helpers.used(text)
        everything = helpers + vectors + text
        includes = []
        if _MATH.search(everything):
            includes.append("math.h")
        if re.search(r"\b(bool|true|false)\b", everything):
            includes.append("stdbool.h")
        if self.function.dims:
            includes.append("stddef.h")
        includes.append("stdint.h")
        if "memcpy(" in everything or "memset(" in everything:
            includes.append("string.h")
        out = "".join(f"#include <{i}>\n" for i in includes)
        if helpers:
            out += "\n" + helpers
        if vectors:
            inlined = vectors.replace("static inline ", "PB_INLINE ")
            out += f"\n{VECTORS}\n{QUIET}\n{inlined}#endif\n"
        return out


def _folded(text: str, width: int, indent: int = 4) -> list[str]:
    """Text for a comment: nothing that ends it, and lines of limited width."""
    safe = text.replace("*/", "* /").replace("/*", "/ *").rstrip()
    start = len(safe) - len(safe.lstrip())
    return textwrap.wrap(safe, width, subsequent_indent=" " * (start + indent), break_long_words=False,
                         break_on_hyphens=False, drop_whitespace=True) or [""]


def _line(position: Position | None) -> str:
    """What tells a compiler where the next line comes from."""
    if position is None:
        return _own_line("pullback").rstrip("\n")
    file = position.file.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {position.line} "{file}"'


def _own_line(name: str) -> str:
    return f'#line 1 "{name}.c"\n'


def _marked(text: str, position: Position | None) -> str:
    """A function of which every line comes from one line of the user's file."""
    return "".join(f"{_line(position)}\n{line}\n" for line in text.splitlines())


def _once(s: For) -> bool:
    """Whether a loop runs exactly once."""
    if not (isinstance(s.lower, Index) and isinstance(s.upper, Index)):
        return False
    trips = (s.upper - s.lower).constant
    return trips is not None and 0 < trips <= s.step and not any(isinstance(x, Break) for x in nodes.walk(s.body))


def _loops(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(s, For | Loop | If) for s in body)


def _shape(b: Buffer) -> str:
    return f"{b.dtype.name}[{', '.join(str(d) for d in b.shape)}]"


def _thousands(n: int) -> str:
    return f"{n:,}".replace(",", " ")


def _count(i: Index) -> str:
    return str(i) if i.constant is None else _thousands(i.constant)


def _size(text: str, count: Index) -> str:
    return text if count.constant is not None else f"(size_t)({text})"


def _fit(text: str) -> str:
    """The text with long statements broken after a comma or before an operator."""
    lines = text.split("\n")
    if all(len(line) <= WIDTH for line in lines):
        return text
    out: list[str] = []
    for line in lines:
        indent = len(line) - len(line.lstrip()) + 4
        while len(line) > WIDTH and line.lstrip()[:2] not in ("/*", "* ", "#l"):
            cuts = [m.start() for m in _CUT.finditer(line, indent + 20, WIDTH)]
            if not cuts:
                break
            out.append(line[:cuts[-1]].rstrip())
            line = " " * indent + line[cuts[-1]:].lstrip()
        out.append(line)
    return "\n".join(out)


def _wrap(head: str, rest: str) -> str:
    """A function whose parameters are broken into lines of at most WIDTH."""
    signature, brace, body = rest.partition(") {\n")
    first, *others = signature[1:].split(", ")
    line = f"{head}({first}"
    out = []
    indent = " " * min(len(head) + 1, WIDTH // 2)
    for p in others:
        if len(line) + len(p) + 5 > WIDTH:
            out.append(line + ",")
            line = indent + p
        else:
            line += ", " + p
    return "\n".join([*out, line]) + brace + body

