"""The functions of a translation unit: kernels and tasks, printed at first use, equal ones once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from pullback.codegen.c.given import names_in
from pullback.codegen.c.names import Names, identifier, unique
from pullback.codegen.c.statements import Writer
from pullback.codegen.c.tasks import TaskText
from pullback.codegen.c.text import line_of, marked, wrap, written_line
from pullback.codegen.c.types import c_type
from pullback.codegen.c.words import PlainWords
from pullback.codegen.marks import Marks
from pullback.codegen.target import Printing, Style
from pullback.ir.foreign import Foreign
from pullback.ir.index import DimSymbol
from pullback.loops.analysis.work import is_little
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Call, Comment, For, Function, If, Kernel, Loop, Procedure, Site, Stmt
from pullback.loops.program.values import Buffer
from pullback.records import dataclass


@dataclass(frozen=True)
class Dialect:
    """The dialect of a file: its words, the writer of statements, and what functions share.

    `shared` takes the functions by name, and their texts with numbered names.
    """

    words: Callable[[], PlainWords]
    writer: type[Writer]
    shared: Callable[[Mapping[str, str], Mapping[str, str]], Mapping[str, str]] = lambda kernels, numbered: kernels


class Unit:
    """One translation unit being printed.

    Kernels that are `settled` may be printed before the function is known; all others after `complete`.
    """

    function: Function
    plan: MemoryPlan
    name: str

    def __init__(self, printing: Printing, dialect: Dialect) -> None:
        self.lines = printing.lines
        self.marks = Marks() if printing.places else None
        self.by_content = printing.names == "content"
        self.style: Style = "canonical" if printing.names == "content" else printing.names
        self.comments = printing.comments
        self.dialect = dialect
        self.words = dialect.words()
        self.sites: dict[Site, int] = {}
        self.kernel_texts: dict[str, str] = {}
        self.numbered: dict[str, str] = {}  # the texts of kernels with numbered names
        self.task_names: list[str] = []
        self.taken: set[str] = set()
        self._by_text: dict[str, str] = {}
        self._by_kernel: dict[Kernel, str] = {}
        self.dims: tuple[DimSymbol, ...] = ()
        self._single: Kernel | None = None
        self._repeats = False

    def complete(self, function: Function, plan: MemoryPlan) -> None:
        """Take the function that calls the kernels."""
        self.function, self.plan, self.dims = function, plan, function.dims
        given = _given_names(function)
        self.name = unique(function.name if self.style == "user" else "program", given.__contains__)
        self.taken |= {self.name, *given}
        calls = [s for s in nodes.walk(function.body) if isinstance(s, Call)]
        top = [s for s in function.body if not isinstance(s, Comment)]
        single = len(calls) == 1 and calls[0] in top and not _loops(function.body)
        self._single = calls[0].kernel if single else None
        self._repeats = any(isinstance(s, For | Loop) for s in nodes.walk(function.body))

    def writer(self, names: Names, depth: int = 1) -> Writer:
        """The writer of a function's statements."""
        return self.dialect.writer(self, names, depth=depth)

    def site(self, site: Site) -> int:
        """The return code of a check."""
        return self.sites.setdefault(site, len(self.sites) + 1)

    def inlined(self, k: Kernel) -> bool:
        """Whether a kernel is printed where it is called: the only one, or one without loops."""
        return k is self._single or not k.is_function

    def settled(self, k: Kernel) -> bool:
        """Whether a kernel's text is independent of the function's loops and other range checks."""
        called = (s.kernel for s in nodes.walk(k.body) if isinstance(s, Call) and s.kernel.is_function)
        return k.is_function and not k.checks and not is_little(k.body) and all(map(self.settled, called))

    def inline(self, k: Kernel) -> bool:
        """Whether a kernel is too small to be called and is marked `inline`."""
        return self._repeats and is_little(k.body)

    def tasks(self, tasks: TaskText) -> str:
        """The name of the struct of a parallel statement, printed on first use; equal ones are shared."""
        text = tasks.text("")
        known = self._by_text.get(text)
        if known is not None:
            return known
        name = self._by_text[text] = unique(f"{tasks.wish}_tasks", self.taken.__contains__)
        self.taken.update((name, f"{name}_run"))
        self.kernel_texts[name] = tasks.text(name)
        self.task_names.append(name)
        return name

    def kernel(self, k: Kernel) -> str:
        """The name of the static function for a kernel, printed on first use; equal ones are shared."""
        known = self._by_kernel.get(k)
        if known is not None:
            return known
        names = Names()
        writer = self.writer(names)
        writer.shares = self.by_content
        params = [self._parameter(b, names) for b in k.params]
        params += [f"int64_t {names(v, v.name)}" for v in k.indices]
        writer.kernel_body(k)
        if k.checks:
            params.append("int64_t *fault")
            writer.line("return 0;")
        result = ("inline " if self.inline(k) else "") + ("int" if k.checks else "void")
        if apart := self.words.apart(k):
            result = f"{apart} {result}"
        signature = ", ".join(params)
        raw = f"({signature}) {{\n" + "\n".join(writer.lines) + "\n}\n"
        numbered = names.numbered(raw)
        key = result + numbered + (str(line_of(k.position)) if self.lines else "")
        name = self._by_text.get(key)
        if name is None:
            name = unique(self._wish(k, key), self.taken.__contains__)
            self.taken.add(name)
            self._by_text[key], self.numbered[name] = name, key
            comment = self.writer(names, depth=0)
            if self.style != "canonical" and (line := written_line(k.position)):
                comment.comment((line,))
            comment.comment(k.comment)
            if k.choice is not None and k.choice.schedule.steps:
                comment.comment((str(k.choice),))
            resolved = numbered if self.style == "canonical" else names.resolve(raw, self.style)
            head = "".join(f"{t}\n" for t in comment.lines)
            text = head + wrap(f"static {result} {name}", resolved)
            if self.lines:
                text = marked(text, k.position)
            if self.marks is not None:
                text = self.marks.around(name, text)
            self.kernel_texts[name] = text
        if self.marks is not None:
            self.marks.add(name, k.positions)
        self._by_kernel[k] = name
        return name

    def _wish(self, k: Kernel, text: str) -> str:
        """The preferred name of a kernel."""
        if self.by_content:
            return "kernel_" + hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        return f"kernel{len(self._by_text)}" if self.style == "canonical" else f"{self.name}_{identifier(k.name)}"

    def _parameter(self, b: Buffer, names: Names) -> str:
        const = "" if b.written else "const "
        return f"{const}{c_type(b.dtype)} *restrict {names(b, b.name)}"


def _given_names(function: Function) -> frozenset[str]:
    """The names of the functions in users' C."""
    kernels = [s.kernel for s in nodes.walk(function.body) if isinstance(s, Call)]
    called = [s for k in kernels for s in nodes.walk(k.body) if isinstance(s, Procedure)]
    return frozenset().union(*(names_in(s.work.source) for s in called if isinstance(s.work, Foreign)))


def _loops(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(s, For | Loop | If) for s in body)
