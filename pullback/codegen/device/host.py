"""The host program of a device program: C that calls the driver, which it loads with `dlopen`.

All arrays are in one block of device memory with precomputed offsets. All launches use one stream. The host waits when
it needs a condition from the device, and at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pullback.codegen.c.expressions import Expressions
from pullback.codegen.c.kernels import Dialect, Unit
from pullback.codegen.c.literals import ATOM, Text, literal
from pullback.codegen.c.names import Names
from pullback.codegen.c.statements import Writer
from pullback.codegen.c.text import fit, shape_text, wrap
from pullback.codegen.c.types import c_type
from pullback.codegen.c.words import PlainWords
from pullback.codegen.device.dialect import DeviceWords
from pullback.codegen.device.kernels import Kernels
from pullback.codegen.target import Printing
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import Call, Copy, Fill, Function, If, Stmt
from pullback.loops.program.values import Buffer, Load, walk_value

ALIGNED: Final = 256
NO_DRIVER, OLD_DRIVER, NOT_LOADED = -1001, -1002, -1003  # beside -1 to -999, the driver's own errors

DRIVER: Final = """\
/* The part of the driver that is used. */
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUmodule, *CUfunction, *CUstream;
static struct {
    int (*Init)(unsigned), (*DeviceGet)(int *, int), (*DevicePrimaryCtxRetain)(CUcontext *, int);
    int (*DevicePrimaryCtxRelease)(int), (*CtxSetCurrent)(CUcontext), (*ModuleLoadData)(CUmodule *, const void *);
    int (*ModuleUnload)(CUmodule), (*ModuleGetFunction)(CUfunction *, CUmodule, const char *);
    int (*MemAlloc)(CUdeviceptr *, size_t), (*MemFree)(CUdeviceptr);
    int (*StreamCreate)(CUstream *, unsigned), (*StreamDestroy)(CUstream), (*StreamSynchronize)(CUstream);
    int (*MemcpyHtoDAsync)(CUdeviceptr, const void *, size_t, CUstream);
    int (*MemcpyDtoHAsync)(void *, CUdeviceptr, size_t, CUstream);
    int (*MemcpyDtoDAsync)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
    int (*MemsetD8Async)(CUdeviceptr, unsigned char, size_t, CUstream);
    int (*LaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                        void **, void **);
} cu;
static void *driver;
static CUcontext context;
static CUmodule module;
static CUstream stream;
static char *memory; /* an address on the device, for which nothing is read here */

/* Leaves with the driver's error, below 0. */
#define OK(call) do { const int failed = (call); if (failed) return failed < 0 ? failed : -failed; } while (0)
#define ON_DEVICE(p) ((CUdeviceptr)(uintptr_t)(p))
#define ARRAY(p) &(const void *){p}
#define NUMBER(type, n) &(type){(type)(n)}

static int find_driver(void) {
    static const struct { void *function; const char *name; } wanted[] = {
        {&cu.Init, "cuInit"}, {&cu.DeviceGet, "cuDeviceGet"},
        {&cu.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain"},
        {&cu.DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2"}, {&cu.CtxSetCurrent, "cuCtxSetCurrent"},
        {&cu.ModuleLoadData, "cuModuleLoadData"}, {&cu.ModuleUnload, "cuModuleUnload"},
        {&cu.ModuleGetFunction, "cuModuleGetFunction"}, {&cu.MemAlloc, "cuMemAlloc_v2"},
        {&cu.MemFree, "cuMemFree_v2"}, {&cu.StreamCreate, "cuStreamCreate"},
        {&cu.StreamDestroy, "cuStreamDestroy_v2"}, {&cu.StreamSynchronize, "cuStreamSynchronize"},
        {&cu.MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2"}, {&cu.MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2"},
        {&cu.MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2"}, {&cu.MemsetD8Async, "cuMemsetD8Async"},
        {&cu.LaunchKernel, "cuLaunchKernel"}};
    if (!driver && !(driver = dlopen("libcuda.so.1", RTLD_NOW))) return NO_DRIVER;
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; ++k) {
        if (!(*(void **)wanted[k].function = dlsym(driver, wanted[k].name))) return OLD_DRIVER;
    }
    return 0;
}

static int launch(CUfunction kernel, unsigned groups, unsigned threads, void **arguments) {
    return cu.LaunchKernel(kernel, groups, 1, 1, threads, 1, 1, 0, stream, arguments, NULL);
}
"""
COPY: Final = """\

static int copy(void *to, const void *from, size_t bytes) {
    return to == from ? 0 : cu.MemcpyDtoDAsync(ON_DEVICE(to), ON_DEVICE(from), bytes, stream);
}
"""
ZERO: Final = """\

static int zero(void *at, size_t bytes) {
    return cu.MemsetD8Async(ON_DEVICE(at), 0, bytes, stream);
}
"""
LOOK: Final = """\

/* Reads a condition that was computed on the device. */
static int look(const void *at, bool *seen) {
    OK(cu.MemcpyDtoHAsync(seen, ON_DEVICE(at), 1, stream));
    return cu.StreamSynchronize(stream);
}
"""
CHECKED: Final = """\

/* The code of the check that failed first, if any. */
static int failed_check(int64_t *fault) {
    uint64_t found[3];
    OK(cu.MemcpyDtoHAsync(found, ON_DEVICE(FAULT), sizeof found, stream));
    OK(cu.StreamSynchronize(stream));
    if (found[0] && fault) fault[0] = (int64_t)found[1], fault[1] = (int64_t)found[2];
    return (int)found[0];
}
"""



_OWN: Final = frozenset((
    "cu", "driver", "context", "module", "stream", "memory", "find_driver", "launch", "load", "copy", "zero", "look",
    "failed_check", "seen", "run", "failed", "status", "OK", "ON_DEVICE", "ARRAY", "NUMBER", "FAULT", "DEVICE_BYTES",
    "NO_DRIVER", "OLD_DRIVER", "NOT_LOADED", "NULL",
    "dlopen", "dlsym", "dlclose", "dlerror"))  # fmt: skip


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
                self.line(f"OK(copy({to}, {source}, {size}));")
            case Fill():
                size = e.bound(s.count * s.buffer.dtype.size)
                self.line(f"OK(zero({e.pointer(s.buffer, s.offset)}, {size}));")
            case If():
                self.line("{")
                self.depth += 1
                (load,) = (v for v in walk_value(s.test) if isinstance(v, Load))
                self.line("bool seen;")
                self.line(f"OK(look({e.pointer(load.buffer, load.offset)}, &seen));")
                super().statement(s)
                self.depth -= 1
                self.line("}")
            case _:
                super().statement(s)

    def launches(self, s: Call) -> None:
        """Add the launches of a kernel."""
        assert isinstance(self.unit, DeviceUnit)
        e, views = self.expressions, dict(zip(s.kernel.params, s.arguments, strict=True))
        numbers = dict(zip(s.kernel.indices, s.index_values, strict=True))
        for launch in self.unit.kernels.launches(s.kernel):
            arguments = [f"ARRAY({e.pointer(views[b].buffer, views[b].offset)})" for b in launch.params]
            arguments += [f"NUMBER({launch.index}, {e.index(numbers[v])})" for v in launch.indices]
            arguments += ["ARRAY(FAULT)"] * launch.checks
            given = ", ".join(arguments)
            self.line(f"OK(launch({launch.name}, {launch.groups}, {launch.threads}, (void *[]){{{given}}}));")


class DeviceUnit(Unit):
    """A device program being printed."""

    def __init__(self, function: Function, plan: MemoryPlan, words: DeviceWords, comments: bool = True) -> None:
        super().__init__(function, plan, Printing("user", comments), Dialect(PlainWords, HostWriter))
        if self.name in _OWN:
            self.name += "_"
        self.taken |= {self.name, f"{self.name}_load", f"{self.name}_unload"}
        self.kernels = Kernels(self, words)

    def places(self) -> tuple[Mapping[Buffer, int], int]:
        """The offset of each array in the block of device memory, and the end of the arrays."""
        f, plan = self.function, self.plan
        at: dict[Buffer, int] = dict(plan.offsets)
        end = _up(plan.bytes)
        for b in (*plan.local, *f.inputs, *f.outputs):
            at[b] = end
            end += _up(b.bytes)
        return at, end


def _up(n: int) -> int:
    return -(-n // ALIGNED) * ALIGNED


@dataclass(frozen=True)
class HostText:
    """The host program.

    Attributes:
        text: its C.   declaration: the prototype of the function.   device_bytes: the device memory that it uses.
    """

    text: str
    declaration: str
    device_bytes: int


def host_text(unit: DeviceUnit) -> HostText:
    """The host program of a function; its kernels are printed into the unit on the way."""
    f, name = unit.function, unit.name
    places, end = unit.places()
    names = Names()
    body = HostWriter(unit, names)
    body.body(f.body)
    inside = "\n".join(body.lines)
    kernels = list(unit.kernels.texts)
    checks = unit.kernels.checks
    arrays = []
    for b, offset in places.items():
        if names(b, b.name) in inside:
            const = "const " * (b in f.inputs)
            text = f"    {const}{c_type(b.dtype)} *const {names(b, b.name)} = ({const}{c_type(b.dtype)} *)"
            arrays.append(f"{text}(memory + {offset}); /* {shape_text(b)} */")
    raw = " {\n" + "\n".join([*arrays, "", inside, "    return 0;"]) + "\n}\n"
    taken = frozenset((*unit.taken, *_OWN, *kernels))
    run = "\nstatic int run(void)" + names.resolve(raw, "user", taken)
    declaration, entry = _entry(unit, places, checks)
    parts = [
        f'#include "{name}.h"\n\n#include <dlfcn.h>\n#include <stddef.h>\n\n',
        f"enum {{ NO_DRIVER = {NO_DRIVER}, OLD_DRIVER = {OLD_DRIVER}, NOT_LOADED = {NOT_LOADED} }};\n",
        f"#define DEVICE_BYTES {end + ALIGNED * checks}\n", f"#define FAULT (memory + {end})\n" * checks, "\n", DRIVER,
        *(part for part, word in ((COPY, "copy("), (ZERO, "zero("), (LOOK, "look("))
          if f"OK({word}" in inside or (part is ZERO and checks)), CHECKED * checks, "\n",
        *(f"static CUfunction {k};\n" for k in kernels), run, _load(unit, kernels, places), entry]  # fmt: skip
    return HostText(fit("".join(parts)), declaration, end + ALIGNED * checks)


def _load(unit: DeviceUnit, kernels: list[str], places: Mapping[Buffer, int]) -> str:
    """The functions that load and unload the program."""
    f, name = unit.function, unit.name
    found = "".join(f'    OK(cu.ModuleGetFunction(&{k}, module, "{k}"));\n' for k in kernels)
    tables = "".join(f"    OK(cu.MemcpyHtoDAsync(ON_DEVICE(memory + {places[b]}), table{k}, {b.bytes}, stream));\n"
                     for k, b in enumerate(f.constants))  # fmt: skip
    return _tables(f) + f"""
static int load(const void *image) {{
    int device;
    CUdeviceptr block;
    OK(find_driver());
    OK(cu.Init(0));
    OK(cu.DeviceGet(&device, 0));
    OK(cu.DevicePrimaryCtxRetain(&context, device));
    OK(cu.CtxSetCurrent(context));
    OK(cu.ModuleLoadData(&module, image));
{found}    OK(cu.StreamCreate(&stream, 1)); /* 1: it does not wait for others */
    OK(cu.MemAlloc(&block, DEVICE_BYTES));
    memory = (char *)(uintptr_t)block;
{tables}    return {"-cu.StreamSynchronize(stream)" if tables else "0"};
}}

void {name}_unload(void) {{
    if (memory) cu.MemFree(ON_DEVICE(memory));
    if (stream) cu.StreamDestroy(stream);
    if (module) cu.ModuleUnload(module);
    if (context) cu.DevicePrimaryCtxRelease(0);
    memory = NULL, stream = NULL, module = NULL, context = NULL;
}}

int {name}_load(const void *image) {{
    const int status = memory ? 0 : load(image);
    if (status) {name}_unload();
    return status;
}}
"""


def _tables(f: Function) -> str:
    """The constant arrays."""
    out = ""
    for k, (b, elements) in enumerate(f.constants.items()):
        numbers = ", ".join(literal(v, b.dtype)[0] for v in elements)
        out += f"\n/* {b.name} */\nstatic const {c_type(b.dtype)} table{k}[] = {{{numbers}}};\n"
    return out


def _entry(unit: DeviceUnit, places: Mapping[Buffer, int], checks: bool) -> tuple[str, str]:
    """The prototype and the definition of the entry function, which takes arrays in host memory."""
    f, names = unit.function, Names()
    params = [f"const {c_type(b.dtype)} *{names(b, b.name)}" for b in f.given]
    params += [f"{c_type(b.dtype)} *{names(b, b.name)}" for b in f.outputs]
    params += ["int64_t *fault"] * checks
    lines = ["    int status;", "    if (!memory) return NOT_LOADED;", "    OK(cu.CtxSetCurrent(context));"]
    lines += [f"    OK(cu.MemcpyHtoDAsync(ON_DEVICE(memory + {places[b]}), {names(b, b.name)}, {b.bytes}, stream));"
              for b in f.given if b.bytes]  # fmt: skip
    lines += ["    OK(zero(FAULT, 24));"] * checks
    lines += ["    status = run();", "    if (status) return status;"]
    lines += [f"    OK(cu.MemcpyDtoHAsync({names(b, b.name)}, ON_DEVICE(memory + {places[b]}), {b.bytes}, stream));"
              for b in f.outputs if b.bytes]  # fmt: skip
    lines += ["    OK(cu.StreamSynchronize(stream));", f"    return {'failed_check(fault)' if checks else '0'};"]
    raw = f"({', '.join(params)}) {{\n" + "\n".join(lines) + "\n}\n"
    text = names.resolve(raw, "user", _OWN | {unit.name})
    definition = "\n" + wrap(f"int {unit.name}", text)
    return definition[1 : definition.index(" {\n")] + ";", definition
