"""The host program of a device program: C that calls the driver, which it loads with `dlopen`.

A program is a handle. It has the loaded kernels and one block of device memory with precomputed offsets. A call on
arrays of the host copies them to a second block, runs, waits and copies back. A call on arrays of the device runs on a
stream of the caller, and returns before it is done. It waits only if it needs a condition from the device.

Repeated calls with the same arrays are one launch of a graph, if the driver has graphs and the host reads no condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from pullback.codegen.c.expressions import Expressions
from pullback.codegen.c.kernels import Dialect, Unit
from pullback.codegen.c.literals import ATOM, Text, literal
from pullback.codegen.c.names import Names
from pullback.codegen.c.statements import Writer
from pullback.codegen.c.text import fit, shape_text, wrap
from pullback.codegen.c.types import c_type
from pullback.codegen.c.words import PlainWords
from pullback.codegen.device.dialect import DeviceWords
from pullback.codegen.device.drivers import DRIVERS
from pullback.codegen.device.kernels import Kernels
from pullback.codegen.target import Printing
from pullback.grid.estimates import launches
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import Call, Copy, Fill, Function, If, Stmt, walk
from pullback.loops.program.values import Buffer, Load, View, walk_value
from pullback.loops.program.vendor import LibraryCall

ALIGNED: Final = 256
START: Final = 16  # arrays of the caller begin at multiples of it, where a kernel needs that
NO_DRIVER, OLD_DRIVER, NOT_OPEN, NO_MEMORY, NOT_ALIGNED = -1001, -1002, -1003, -1004, -1005
# the driver's own errors are nearer to 0
MOST_APART: Final = 1 << 20  # bytes of an array that a graph may have at a place of its own
MOST_NODES: Final = 4096  # of a graph; loops of the host are unrolled in it
FAULT_BYTES: Final = 24  # the code of the check that failed first, its index and its size

# stdlib.h has more names, such as `random`, that a function of the user may have
MEMORY: Final = """\
void *calloc(size_t, size_t), *realloc(void *, size_t);
void free(void *);

"""
LOOK: Final = """\

/* Reads a condition that was computed on the device. */
static int look(const void *at, bool *seen, STREAM stream) {
    OK(fetch(seen, at, 1, stream));
    return wait_for(stream);
}
"""
CHECKED: Final = """\

/* The code of the check that failed first, if any. */
static int failed_check(const void *at, int64_t *fault, STREAM stream) {
    uint64_t found[3];
    OK(fetch(found, at, sizeof found, stream));
    OK(wait_for(stream));
    if (found[0] && fault) fault[0] = (int64_t)found[1], fault[1] = (int64_t)found[2];
    return (int)found[0];
}
"""

USE: Final = """\

/* Lets libraries compute kernels; NULL for none. */
void {name}_use(struct {name} *self, const struct library_call *calls) {{
    self->calls = calls;
}}
"""

_OWN: Final = frozenset((
    "device", "stream", "self", "on", "memory", "arrays", "attach", "enter", "leave", "load", "kernel", "detach",
    "release", "allocate", "freed", "send", "fetch", "copy", "zero", "wait_for", "look", "request", "failed_check",
    "seen", "run", "call", "queue", "prepare", "failed", "graph_of", "begin_capture", "end_capture", "launch_graph",
    "drop_graphs", "find_graphs", "found", "fault", "status", "made", "image", "OK", "LAUNCH", "LAUNCH_WITH", "ARRAY",
    "NUMBER", "MEMORY_BYTES", "ARRAY_BYTES", "APART_BYTES", "ARRAYS", "INPUTS", "places", "STREAM", "KERNEL",
    "NO_DRIVER", "OLD_DRIVER", "NOT_OPEN", "NO_MEMORY", "NOT_ALIGNED", "NULL", "dlopen", "dlsym", "dlclose", "dlerror",
    "calloc", "realloc", "free", "calls", "library", "library_call", "by_library"))  # fmt: skip


class HostExpressions(Expressions):
    """The printer of the host's values; values loaded from the device were copied before."""

    def _load(self, v: Load) -> Text:
        return "seen", ATOM


@dataclass
class HostWriter(Writer):
    """Prints the statements of the host: launches, copies, and loops and conditions around them."""

    def printed(self) -> Expressions:
        """The expression printer."""
        return HostExpressions(self.names, self.unit.words)

    def statement(self, s: Stmt) -> None:
        """Add a statement."""
        e = self.expressions
        match s:
            case Call():
                self.launches(s)
            case Copy():
                size = e.index(s.count * s.target.buffer.dtype.size)
                to, source = (e.pointer(v.buffer, v.offset) for v in (s.target, s.source))
                self.line(f"OK(copy({to}, {source}, {size}, stream));")
            case Fill():
                size = e.bound(s.count * s.buffer.dtype.size)
                self.line(f"OK(zero({e.pointer(s.buffer, s.offset)}, {size}, stream));")
            case If():
                self.line("{")
                self.depth += 1
                (load,) = (v for v in walk_value(s.test) if isinstance(v, Load))
                self.line("bool seen;")
                self.line(f"OK(look({e.pointer(load.buffer, load.offset)}, &seen, stream));")
                super().statement(s)
                self.depth -= 1
                self.line("}")
            case _:
                super().statement(s)

    def launches(self, s: Call) -> None:
        """Add the launches of a kernel, which a library may replace."""
        assert isinstance(self.unit, DeviceUnit)
        wanted, views = s.kernel.vendor, dict(zip(s.kernel.params, s.arguments, strict=True))
        if wanted is None or not self.unit.driver.vendor or not all(_is_aligned(views[b]) for b in wanted.buffers):
            self._launches(s)
            return
        if wanted not in self.unit.calls:
            self.unit.calls.append(wanted)
        given = (self.expressions.pointer(views[b].buffer, views[b].offset) for b in wanted.buffers)
        self.line(f"if (by_library(self->calls, {self.unit.calls.index(wanted)}, {', '.join(given)}, stream)) {{")
        self.depth += 1
        self._launches(s)
        self.depth -= 1
        self.line("}")

    def _launches(self, s: Call) -> None:
        assert isinstance(self.unit, DeviceUnit)
        e, views = self.expressions, dict(zip(s.kernel.params, s.arguments, strict=True))
        numbers = dict(zip(s.kernel.indices, s.index_values, strict=True))
        for launch in self.unit.kernels.launches(s.kernel):
            arguments = [f"ARRAY({e.pointer(views[b].buffer, views[b].offset)})" for b in launch.params]
            arguments += [f"NUMBER({launch.index}, {e.index(numbers[v])})" for v in launch.indices]
            arguments += ["ARRAY((uint64_t *)fault)"] * launch.checks
            given = (f"self->{launch.name}", str(launch.groups), str(launch.threads), *arguments)
            if launch.requested:
                self.line(f"LAUNCH_WITH({launch.requested}, {', '.join(given)});")
            else:
                self.line(f"LAUNCH({', '.join(given)});")


def _is_aligned(v: View) -> bool:
    """Whether a view begins at a multiple of `START` in its buffer."""
    return all(k * v.buffer.dtype.size % START == 0 for _, k in v.offset.terms)


class DeviceUnit(Unit):
    """A device program being printed."""

    def __init__(self, function: Function, plan: MemoryPlan, words: DeviceWords, comments: bool = True) -> None:
        super().__init__(Printing("user", comments), Dialect(PlainWords, HostWriter))
        self.complete(function, plan)
        self.driver = DRIVERS[words.name]
        self.own = _OWN | self.driver.taken
        if self.name in self.own:
            self.name += "_"
        parts = *self.driver.openings, "enqueue", "close", "messages", "use"
        self.taken |= {self.name, *(f"{self.name}_{part}" for part in parts)}
        self.kernels = Kernels(self, words)
        self.calls: list[LibraryCall] = []

    @property
    def aligned(self) -> bool:
        """Whether arrays of the caller must begin at multiples of `START`; known when all kernels are printed."""
        return self.kernels.aligned or bool(self.calls)

    @cached_property
    def has_graphs(self) -> bool:
        """Whether repeated calls are graphs: of several launches, and without a condition for the host.

        It is known when all kernels are printed.
        """
        body = self.function.body
        is_straight = not any(isinstance(s, If) for s in walk(body))
        return bool(self.driver.graphs) and is_straight and 1 < launches(body) + self.kernels.checks <= MOST_NODES

    def places(self) -> Places:
        """The offsets of all arrays in device memory."""
        f, plan = self.function, self.plan
        memory = dict(plan.offsets)
        end = _placed(memory, (*plan.local, *f.constants), _up(plan.bytes))
        arrays: dict[Buffer, int] = {}
        return Places(memory, end, arrays, _placed(arrays, (*f.given, *f.outputs), 0))


class Places(NamedTuple):
    """The places of arrays in device memory.

    Attributes:
        memory: the offsets of working memory.   memory_bytes: its size.
        arrays: the offsets of arguments and results of a call on arrays of the host.   array_bytes: their size.
    """

    memory: Mapping[Buffer, int]
    memory_bytes: int
    arrays: Mapping[Buffer, int]
    array_bytes: int


def _placed(at: dict[Buffer, int], buffers: Sequence[Buffer], end: int) -> int:
    for b in buffers:
        at[b] = end
        end += _up(b.bytes)
    return end


def _up(n: int) -> int:
    return -(-n // ALIGNED) * ALIGNED


@dataclass(frozen=True)
class HostText:
    """The host program.

    Attributes:
        text: its C.
        declarations: the prototypes of the function on arrays of the host, and on arrays of the device.
        memory_bytes: its working memory on the device.   array_bytes: the memory for arrays of the host.
    """

    text: str
    declarations: tuple[str, str]
    memory_bytes: int
    array_bytes: int


def host_text(unit: DeviceUnit) -> HostText:
    """The host program of a function; its kernels are printed into the unit on the way."""
    name, driver, places = unit.name, unit.driver, unit.places()
    run, inside = _run(unit, places)
    kernels, checks = list(unit.kernels.texts), unit.kernels.checks
    array_bytes = places.array_bytes + ALIGNED * checks
    called, entry = _call(unit, places, checks)
    enqueued, enqueue = _enqueue(unit, checks)
    count = len(unit.function.given) + len(unit.function.outputs) + checks
    members = "".join(f"    KERNEL {k};\n" for k in kernels) + "    struct graphs graphs;\n" * unit.has_graphs
    members += "    const struct library_call *calls;\n" * bool(unit.calls)
    parts = [
        f'#include "{name}.h"\n\n#include <dlfcn.h>\n#include <stddef.h>\n\n{MEMORY}',
        f"enum {{ NO_DRIVER = {NO_DRIVER}, OLD_DRIVER = {OLD_DRIVER}, NOT_OPEN = {NOT_OPEN}, ",
        f"NO_MEMORY = {NO_MEMORY}, NOT_ALIGNED = {NOT_ALIGNED} }};\n",
        f"#define MEMORY_BYTES {places.memory_bytes} /* working memory */\n",
        f"#define ARRAY_BYTES {array_bytes} /* arguments and results */\n\n",
        driver.blocks.format(count + 2), driver.text, driver.kernel * bool(kernels),
        *(part for part, word in ((driver.copy, "copy("), (driver.zero, "zero("), (LOOK, "look("))
          if f"OK({word}" in inside or (part is driver.zero and checks)), CHECKED * checks,
        driver.request * bool(unit.kernels.requested), driver.vendor * bool(unit.calls),
        _small(unit) * unit.has_graphs, driver.graphs * unit.has_graphs,
        f"\nstruct {name} {{\n    struct device on;\n{members}    char *memory, *arrays;\n}};\n",
        run, _queue(unit) * unit.has_graphs, _open(unit, kernels, places), driver.extra[1].format(name=name),
        USE.format(name=name) * bool(unit.calls), entry, enqueue]  # fmt: skip
    return HostText(fit("".join(parts)), (called, enqueued), places.memory_bytes, array_bytes)


def _parameters(f: Function, names: Names) -> list[str]:
    """The arrays that the function takes."""
    given = [f"const {c_type(b.dtype)} *{names(b, b.name)}" for b in f.given]
    return given + [f"{c_type(b.dtype)} *{names(b, b.name)}" for b in f.outputs]


def _run(unit: DeviceUnit, places: Places) -> tuple[str, str]:
    """The function that launches all kernels, and its statements."""
    f, names = unit.function, Names()
    writer = HostWriter(unit, names)
    writer.body(f.body)
    inside = "\n".join(writer.lines)
    checks = unit.kernels.checks
    params = [f"const struct {unit.name} *self", "STREAM stream", *_parameters(f, names), *["void *fault"] * checks]
    lines = []
    for b, offset in places.memory.items():
        if names(b, b.name) in inside:
            kind = f"{'const ' * (b in f.constants)}{c_type(b.dtype)} *"
            at = f"({kind})(self->memory + {offset})"
            lines.append(f"    {kind}const {names(b, b.name)} = {at}; /* {shape_text(b)} */")
    lines += [f"    OK(zero(fault, {FAULT_BYTES}, stream));"] * checks
    unused = [f"    (void){names(b, b.name)};" for b in (*f.given, *f.outputs) if names(b, b.name) not in inside]
    unused += ["    (void)self;"] * ("self->" not in inside and not lines)
    raw = f"({', '.join(params)}) {{\n" + "\n".join([*lines, *unused, inside, "    return 0;"]) + "\n}\n"
    taken = frozenset((*unit.taken, *unit.own, *unit.kernels.texts))
    return "\n" + wrap("static int run", names.resolve(raw, "user", taken)), inside


def _small(unit: DeviceUnit) -> str:
    """The places of small arrays of a call beside its graph."""
    f = unit.function
    sizes = [*(b.bytes for b in (*f.given, *f.outputs)), *[FAULT_BYTES] * unit.kernels.checks]
    end, places = 0, []
    for n in sizes:
        small = n if n <= MOST_APART else 0
        places.append(f"{{{end}, {small}}}")
        end += _up(small)
    return f"""
#define ARRAYS {len(sizes)} /* of a call */
#define INPUTS {len(f.given)} /* the first of these */
#define APART_BYTES {end} /* for small ones */
static const struct {{ size_t at, bytes; }} places[ARRAYS] = {{{", ".join(places)}}};
"""


def _queue(unit: DeviceUnit) -> str:
    """The function that launches the graph for a call's arrays, or all kernels."""
    f, names, checks = unit.function, Names(), unit.kernels.checks
    arrays = [*(names(b, b.name) for b in (*f.given, *f.outputs)), *["fault"] * checks]
    given = ", ".join(f"(void *){a}" for a in arrays)
    there = ", ".join(f"graph->arrays[{k}]" for k in range(len(arrays)))
    params = [f"struct {unit.name} *self", "STREAM stream", *_parameters(f, names), *["void *fault"] * checks]
    raw = f"""({', '.join(params)}) {{
    void *const arrays[ARRAYS] = {{{given}}};
    struct graph *const graph = graph_of(&self->graphs, arrays, stream);
    if (graph && !graph->made && begin_capture(&self->on)) {{
        end_capture(&self->graphs, graph, &self->on, run(self, self->on.stream, {there}));
    }}
    if (graph && graph->made) return launch_graph(graph, arrays, stream);
    return run(self, stream, {", ".join(arrays)});
}}
"""
    return "\n" + wrap("static int queue", names.resolve(raw, "user", frozenset((*unit.taken, *unit.own))))


def _started(unit: DeviceUnit) -> str:
    """The name of the function that does the work of a call."""
    return "queue" if unit.has_graphs else "run"


def _open(unit: DeviceUnit, kernels: list[str], places: Places) -> str:
    """The functions that open and close the program."""
    f, name = unit.function, unit.name
    steps = [f'kernel(&self->on, &self->{k}, "{k}")' for k in kernels]
    steps += [f"request(self->{k}, {count})" for k, count in unit.kernels.requested.items()]
    steps += ["allocate(&self->memory, MEMORY_BYTES)"] * (places.memory_bytes > 0)
    steps += [f"send(self->memory + {places.memory[b]}, table{k}, {b.bytes}, self->on.stream)"
              for k, b in enumerate(f.constants)]  # fmt: skip
    steps += ["wait_for(self->on.stream)"] * bool(f.constants)
    prepared = "".join(f"    OK({step});\n" for step in steps) + "    find_graphs();\n" * unit.has_graphs
    dropped = "        drop_graphs(&self->graphs);\n" * unit.has_graphs
    return _tables(f) + f"""
static int prepare(struct {name} *self, const void *image) {{
    OK(load(&self->on, image));
{prepared}    return 0;
}}

void {name}_close(struct {name} *self) {{
    if (!self) return;
    if (self->on.context && !enter(&self->on)) {{
        freed(self->memory), freed(self->arrays);
{dropped}        detach(&self->on);
        leave();
    }}
    release(&self->on);
    free(self);
}}

""" + "\n".join(_opening(name, *opening) for opening in unit.driver.openings.items())


def _opening(name: str, suffix: str, taken: tuple[str, str]) -> str:
    """The function that opens a program on a device."""
    params, attach = taken
    return wrap(f"int {name}_{suffix}", f"""(struct {name} **made, const void *image, {params}) {{
    struct {name} *self = *made = calloc(1, sizeof *self);
    if (!self) return NO_MEMORY;
    int status = {attach};
    if (!status) status = enter(&self->on);
    if (!status) status = prepare(self, image), leave();
    if (status) {name}_close(self), *made = NULL;
    return status;
}}
""")


def _tables(f: Function) -> str:
    """The constant arrays."""
    out = ""
    for k, (b, elements) in enumerate(f.constants.items()):
        numbers = ", ".join(literal(v, b.dtype)[0] for v in elements)
        out += f"\n/* {b.name} */\nstatic const {c_type(b.dtype)} table{k}[] = {{{numbers}}};\n"
    return out


def _call(unit: DeviceUnit, places: Places, checks: bool) -> tuple[str, str]:
    """The prototype and the definition of the function on arrays of the host."""
    f, names = unit.function, Names()
    arrays = {b: f"self->arrays + {places.arrays[b]}" for b in (*f.given, *f.outputs)}
    place = f"self->arrays + {places.array_bytes}"
    given = [f"({'const ' * (b in f.given)}{c_type(b.dtype)} *)({at})" for b, at in arrays.items()]
    run = ", ".join(["self", "stream", *given, *[place] * checks])
    lines = ["    const STREAM stream = self->on.stream;"]
    lines += ["    if (!self->arrays) OK(allocate(&self->arrays, ARRAY_BYTES));"]
    lines += [f"    OK(send({arrays[b]}, {names(b, b.name)}, {b.bytes}, stream));" for b in f.given if b.bytes]
    lines += [f"    OK({_started(unit)}({run}));"]
    lines += [f"    OK(fetch({names(b, b.name)}, {arrays[b]}, {b.bytes}, stream));" for b in f.outputs if b.bytes]
    lines += [f"    return {f'failed_check({place}, fault, stream)' if checks else 'wait_for(stream)'};"]
    params = [f"struct {unit.name} *self", *_parameters(f, names), *["int64_t *fault"] * checks]
    passed = ["self", *(names(b, b.name) for b in (*f.given, *f.outputs)), *["fault"] * checks]
    return _defined(unit, names, unit.name, params, lines, f"call({', '.join(passed)})")


def _enqueue(unit: DeviceUnit, checks: bool) -> tuple[str, str]:
    """The prototype and the definition of the function on arrays of the device."""
    f, driver, names = unit.function, unit.driver, Names()
    arrays = [*(names(b, b.name) for b in (*f.given, *f.outputs)), *["fault"] * checks]
    pointers = [*_parameters(f, names), *["void *fault"] * checks]
    given = [f"{driver.array}{a}" for a in arrays] if driver.array else pointers
    params = [f"struct {unit.name} *self", f"{driver.stream}stream", *given]
    passed = ["self", "stream", *(driver.address.format(k, a) for k, a in enumerate(arrays))]
    places = " | ".join(f"(uintptr_t){names(b, b.name)}" for b in (*f.given, *f.outputs) if b.bytes)
    first = [f"    if (({places}) % {START}) return NOT_ALIGNED;"] * unit.aligned
    return _defined(unit, names, f"{unit.name}_enqueue", params, [],
                    f"{_started(unit)}({', '.join(passed)})", first)


def _defined(unit: DeviceUnit, names: Names, name: str, params: Sequence[str], lines: Sequence[str],
             status: str, first: Sequence[str] = ()) -> tuple[str, str]:
    """The prototype and the definition of a function that makes its device the current one.

    Args:
        lines: the statements of the function `call` that it needs, if any.   status: the call that it makes.
        first: statements before that call.
    """
    entry = ["    if (!self) return NOT_OPEN;", *first, "    OK(enter(&self->on));",
             f"    const int status = {status};", "    leave();", "    return status;"]  # fmt: skip
    head = f"({', '.join(params)})"
    parts = [(f"int {name}", entry)] + [("static int call", lines)] * bool(lines)
    made = [wrap(what, names.resolve(f"{head} {{\n" + "\n".join(body) + "\n}\n", "user", unit.own | unit.taken))
            for what, body in parts]  # fmt: skip
    return made[0][: made[0].index(" {\n")] + ";", "".join(f"\n{m}" for m in reversed(made))
