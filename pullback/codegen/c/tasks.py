"""Parallel statements: a struct with the tasks' needs, a function per chunk, and a pool call."""

from __future__ import annotations

from typing import Final, Protocol

from pullback.codegen.c.expressions import Expressions
from pullback.codegen.c.names import unique
from pullback.codegen.c.types import c_type
from pullback.codegen.c.words import PlainWords
from pullback.codegen.marks import Marks
from pullback.codegen.target import Style
from pullback.ir.index import ZERO_INDEX
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import Kernel, Parallel, Site, Task

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


class Printed(Protocol):
    """The interface of a unit for its statement writers (`kernels.Unit`)."""

    plan: MemoryPlan
    words: PlainWords
    style: Style
    comments: bool
    lines: bool
    marks: Marks | None

    def site(self, site: Site) -> int:
        """The return code of a check."""

    def inlined(self, k: Kernel) -> bool:
        """Whether a kernel is printed where it is called."""

    def kernel(self, k: Kernel) -> str:
        """The name of the function for a kernel, printed when first needed."""

    def tasks(self, tasks: TaskText) -> str:
        """The name of the struct of a parallel statement, printed when first needed."""


class TaskText:
    """The C of a parallel statement: a struct's fields with values, and the calls of each task.

    Attributes:
        fields: declarations by name.   values: the caller's values for them.   calls: first chunk and C of each task.
        chunks: the chunks of all tasks.   most: their maximal number.   fails: whether a task has a range check.
    """

    def __init__(self, unit: Printed, expressions: Expressions, s: Parallel) -> None:
        self.unit = unit
        self.expressions = expressions
        self.fields: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.calls: list[tuple[str, str]] = []
        self.chunks = ZERO_INDEX
        self.most = 0
        self.fails = any(t.call.kernel.checks for t in s.tasks)
        self.wish = unit.kernel(s.tasks[0].call.kernel)
        for t in s.tasks:
            self._task(t)

    def _task(self, t: Task) -> None:
        k, e = t.call.kernel, self.expressions
        arguments = []
        first = e.index(self.chunks)
        if self.chunks.constant is None:
            first = "shared->" + self._field("first", "int64_t ", first)
        for p, view in zip(k.params, t.call.arguments, strict=True):
            const = "" if p.written else "const "
            field = self._field(p.name, f"{const}{c_type(p.dtype)} *", e.pointer(view.buffer, view.offset))
            own = f" + worker * {self.unit.plan.worker_bytes // p.dtype.size}"
            arguments.append(f"shared->{field}" + own * (view.buffer.space == "worker"))
        for v, i in zip(k.indices, t.call.index_values, strict=True):
            if v is t.chunk:
                arguments.append("chunk" + f" - {first}" * bool(self.calls))
            else:
                arguments.append("shared->" + self._field(v.name, "int64_t ", e.index(i)))
        if k.checks:
            arguments.append("shared->fault[chunk]")
        text = f"{self.unit.kernel(k)}({', '.join(arguments)});"
        self.calls.append((first, f"shared->status[chunk] = {text}" if k.checks else text))
        self.chunks += t.chunks
        self.most += t.most

    def _field(self, wish: str, declared: str, value: str) -> str:
        """The name of the field with this value."""
        for name, v in self.values.items():
            if v == value and self.fields[name] == declared:
                return name
        wish = "v" if self.unit.style == "canonical" else wish
        name = unique(wish, lambda n: n in self.fields or n in ("status", "fault"))
        self.fields[name] = declared
        self.values[name] = value
        return name

    def text(self, name: str) -> str:
        """The struct and the function that runs a chunk."""
        fields = [f"{declared}{f};" for f, declared in self.fields.items()]
        if self.fails:
            fields += [f"int status[{self.most}];", f"int64_t fault[{self.most}][2];"]
        lines = [f"struct {name} {{", *(f"    {f}" for f in fields), "};", "",
                 f"static void {name}_run(void *context, int64_t chunk, int64_t worker) {{",
                 f"    struct {name} *const shared = context;", "    (void)worker;"]
        for start, call in reversed(self.calls[1:]):
            lines += [f"    if (chunk >= {start}) {{", f"        {call}", "        return;", "    }"]
        if self.most == 1:
            lines.append("    (void)chunk;")
        return "\n".join([*lines, f"    {self.calls[0][1]}", "}", ""])
