"""Code emission: the loop program, memory plan and C of a program, before any compiler runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from pullback.clock import stage
from pullback.codegen.target import Printing, Source, Style, Target
from pullback.codegen.targets import PLAIN_C, C
from pullback.device import Device
from pullback.errors import CompilerError
from pullback.ir import nodes as ir
from pullback.ir.dims import determined_dims, needed_conditions
from pullback.ir.equivalence import equivalence
from pullback.ir.expr import in_order
from pullback.ir.halves import elements_of
from pullback.ir.index import Cond
from pullback.ir.intern import uncollected
from pullback.ir.printer import print_statement
from pullback.ir.renewal import renewed
from pullback.ir.settings import MODES, MemoryMode, Settings
from pullback.ir.traverse import specialize
from pullback.ir.verify import verifying
from pullback.loops.memory.ordering import schedule
from pullback.loops.memory.plan import MemoryPlan, plan
from pullback.loops.memory.swapping import swapped
from pullback.loops.memory.verify import verify_function
from pullback.loops.plain.candidates import Chooser, Preference
from pullback.loops.plain.lower import Templates, lower
from pullback.loops.plain.unroll import unroll_copies
from pullback.loops.program.nodes import Function, Kernel
from pullback.loops.strategies.table import chooser
from pullback.loops.threads.parallel import Early, Known, parallelize
from pullback.machine import GENERIC, SCALAR, Machine, native
from pullback.memory.size_table import SizeTable, size_table
from pullback.memory.table import Build, MemoryTable, memory_table
from pullback.passes.halves import store_rounded
from pullback.passes.pipeline import DEBUG_PASSES, Pass, chosen, optimize
from pullback.records import dataclass, replace
from pullback.runtime.buffer import NDArray
from pullback.runtime.stamps import stamped
from pullback.single_flight import deep_recursion

Ready = Callable[[Sequence[Kernel]], None]  # takes kernels that are final, and none at the end
MOST_LEVELS = 8  # most levels of checkpoint blocks for loops that recompute values


@dataclass(frozen=True)
class Lowered:
    """An optimized program with its loops and memory plan."""

    program: ir.Program
    function: Function
    memory: MemoryPlan
    mode: MemoryMode = "fastest"


def mathematics(s: ir.Statement) -> tuple[str, ...]:
    """A statement as lines of program text, for the comment on its kernel."""
    return tuple(print_statement(s).splitlines())


def lower_program(program: ir.Program, dims: Mapping[str, int], comments: bool = True,
                  machine: Machine = GENERIC, canonical: bool = False, threaded: bool = False,
                  timed: bool = False, device: Device | None = None, ready: Ready | None = None,
                  prefer: Preference | None = None) -> Lowered:
    """Optimize, lower and plan a program for dims, in the first form within its memory limit.

    Dims without a value become arguments of its function; statements then keep their order.

    Args:
        comments: whether kernels carry their mathematics.
        machine: the target processor.
        canonical: whether to renumber the program first, so that equal programs give equal C (`ir.renewal`).
        threaded: whether threads share the iterations of loops with enough work.
        timed: whether the last results are times between statements; see `runtime.stamps`.
        device: the target device; the machine is then `SCALAR`.
        ready: for threads, is called with kernels as soon as they are final, and with none at the end.
        prefer: chooses kernels of a device before the estimates do.
    """
    settings = _Settings(comments, machine if device is None else SCALAR, canonical, threaded, timed, device, ready,
                         prefer)  # fmt: skip
    return _Forms(program, dims, settings).first_that_fits(asked_mode(program), program.settings.memory_limit)


@dataclass(frozen=True)
class _Form:
    """A form of a program's C: the memory mode, and the levels of loop checkpointing."""

    mode: MemoryMode
    levels: int = 1


@dataclass(frozen=True)
class _Settings:
    """The settings shared by all forms of a program."""

    comments: bool
    machine: Machine
    canonical: bool
    threaded: bool
    timed: bool = False
    device: Device | None = None
    ready: Ready | None = None
    prefer: Preference | None = None


class _Forms:
    """The forms of a program for some dims, made on first use; shared parts are made once."""

    def __init__(self, program: ir.Program, dims: Mapping[str, int], settings: _Settings) -> None:
        self.program = program
        self.dims = dims
        self.exact = program.settings.exact
        # exact programs have no vectors, which sum in another order and have their own exp, tanh and log
        self.machine = settings.machine.plain if self.exact else settings.machine
        self.symbolic = not determined_dims(program).keys() <= dims.keys()
        self.settings = settings
        self._made: dict[_Form, Lowered] = {}
        self._prepared: dict[tuple[int, tuple[Pass, ...]], ir.Program] = {}
        self._kernels: Templates = {}
        self._shared_out: Known = {}

    def first_that_fits(self, asked: MemoryMode, limit: int | None = None) -> Lowered:
        """The best mode up to the requested one; if it exceeds a limit, the first form within the limit.

        Swapping comes before other work, as it leaves results as they are.
        """
        best = self.lowered(_Form("fastest"), self.settings.ready if asked == "fastest" and limit is None else None)
        if self.symbolic:
            return best
        modes = MODES[: MODES.index(asked) + 1]
        more = [_Form("least", levels) for levels in range(2, MOST_LEVELS + 1)]
        for form in (*map(_Form, MODES[1:]), *more):
            if (limit is None or best.memory.bytes <= limit) and form not in map(_Form, modes):
                break
            if form.mode == "least" and form not in map(_Form, modes) and (found := self._swapped(best, limit)):
                return found
            made = self.lowered(form)
            if made.memory.bytes < best.memory.bytes:
                best = made
            elif form.levels > 2:
                break
        if limit is not None and best.memory.bytes > limit:
            if found := self._swapped(best, limit):
                return found
            raise _too_large(self.program.name, limit, best)
        return best

    def _swapped(self, made: Lowered, limit: int | None) -> Lowered | None:
        """The form with moves that keep the limit, if the program may swap."""
        if limit is None or not self.program.settings.swap or self.settings.device is not None:
            return None
        found = swapped(made.function, made.memory, limit)
        if found is None:
            return None
        function, memory = found
        if verifying():
            verify_function(function, memory)
        return replace(made, function=function, memory=memory)

    def lowered(self, form: _Form, ready: Ready | None = None) -> Lowered:
        """The program in one form; `ready` takes its kernels if it is certain that the form is used."""
        if form not in self._made:
            with deep_recursion(), uncollected(), in_order(self.exact):
                self._made[form] = self._lowered(form, ready)
        return self._made[form]

    def _lowered(self, form: _Form, ready: Ready | None) -> Lowered:
        machine, needs, device = self.machine, self._needs(), self.settings.device
        optimized = self._optimized(form) if device is None else store_rounded(self._optimized(form))
        choose, spread = (chooser(machine), None) if device is None else (
            _for_device(device, self.program.settings, self.settings.prefer))
        choose = replace(choose, workspace=self.program.settings.workspace_limit)
        if form.mode != "fastest":
            with stage("schedule"):
                optimized = schedule(optimized, choose.head)
        if self.settings.timed:
            optimized = stamped(optimized, choose.head)
        with stage("lower"):
            early = None if ready is None else Early(not self.exact, machine, self._shared_out, ready)
            function = lower(optimized, mathematics if self.settings.comments else None, choose, needs,
                             known=self._kernels, early=early)
            if early is not None:
                early.end()
            function = replace(function, machine=machine)
            if spread is not None:
                function = spread(function)
            if self.settings.threaded:
                function = parallelize(function, not self.exact, self._shared_out)
        if (compare := equivalence()) is not None and not self.settings.timed:
            compare.check_loops(self.program, self.dims, function)
        return _planned(optimized, function, form.mode)

    def _needs(self) -> tuple[Cond, ...]:
        """The conditions on dims that are arguments.

        Raises:
            CompilerError: [E262] there are such dims, and a memory limit.
        """
        if not self.symbolic:
            return ()
        needs = needed_conditions(specialize(self.program, self.dims))
        if self.program.settings.memory_limit is not None:
            facts = [f"all that is known of them is {', '.join(map(str, needs))}"]
            raise CompilerError("E262", f"{self.program.name} has a memory limit, which takes a number for each dim",
                                facts=facts, remedy="numbers for all dims")
        return needs

    def _optimized(self, form: _Form) -> ir.Program:
        """The program for lowering, before its statements are ordered."""
        key = form.levels, chosen(self.program.settings, form.mode)
        if key not in self._prepared:
            found = optimize(self.program, self.dims, form.levels, form.mode, self.settings.machine)
            self._prepared[key] = unroll_copies(renewed(found) if self.settings.canonical else found)
        return self._prepared[key]


def device_for(device: Device, settings: Settings) -> Device:
    """The device with what the settings permit."""
    return replace(device, tf32=settings.precision == "tf32", libraries=settings.tune == "libraries")


def _for_device(device: Device, settings: Settings,
                prefer: Preference | None) -> tuple[Chooser, Callable[[Function], Function]]:
    """The chooser for a device, and the function that moves loops there."""
    from pullback.grid.function import on_device  # most processes use no device
    from pullback.grid.table import device_chooser

    own = device_for(device, settings)
    return replace(device_chooser(own), prefer=prefer), lambda function: on_device(function, own)


def lower_as_preferred(program: ir.Program, device: Device, prefer: Preference) -> Lowered:
    """Lower an optimized program for a device, with the kernels that a tuner tries."""
    choose, spread = _for_device(device, program.settings, prefer)
    with deep_recursion(), uncollected(), in_order(program.settings.exact):
        return _planned(program, spread(lower(program, None, choose)))


def _planned(program: ir.Program, function: Function, mode: MemoryMode = "fastest") -> Lowered:
    with stage("plan memory"):
        memory = plan(function)
    if verifying():
        verify_function(function, memory)
    return Lowered(program, function, memory, mode)


def lower_debug(program: ir.Program, dims: Mapping[str, int]) -> Lowered:
    """Lower a program as written for debug builds: each statement separately, with a tested result."""
    with deep_recursion(), in_order(program.settings.exact):
        prepared = specialize(program, dims)
        for p in DEBUG_PASSES:
            prepared = p(prepared, GENERIC)
        with stage("lower"):
            function = lower(prepared, mathematics, trapping=True)
        if (compare := equivalence()) is not None:
            compare.check_loops(program, dims, function)
        return _planned(prepared, function)


def asked_mode(program: ir.Program) -> MemoryMode:
    """The memory mode that a program's function requests."""
    return program.settings.memory


def _too_large(name: str, limit: int, best: Lowered) -> CompilerError:
    largest = sorted(memory_table(best.function, best.memory).buffers, key=lambda r: -r.bytes)[:5]
    return CompilerError(
        "E260",
        f"{name} needs {best.memory.bytes:,} bytes of working memory, and its limit is {limit:,}",
        facts=[f"{r.name} : {r.dims}, {r.bytes:,} bytes" for r in largest],
        remedy="a larger `memory_limit`, smaller dims, `swap=True`, or `pb.checkpoint` around parts to compute again",
    )


def print_lowered(lowered: Lowered, *, names: Style | Literal["content"] = "user", comments: bool = True,
                  lines: bool = False, places: bool = False, target: Target = C) -> Source:
    """Print a lowered program for a target; the other arguments are those of `Printing`."""
    with deep_recursion(), uncollected(), stage("print C"):
        return target.source(lowered.function, lowered.memory, Printing(names, comments, lines, places))


def lower_and_print(program: ir.Program, dims: Mapping[str, int], machine: Machine,
                    finished: Callable[[str], None], threaded: Callable[[], None]) -> tuple[Lowered, Source]:
    """Lower a program for calls and print it in units.

    Args:
        finished: takes each unit of kernels as soon as it is written.
        threaded: is called once it is known that threads share loops.
    """
    is_known = False

    def ready(kernels: Sequence[Kernel]) -> None:
        nonlocal is_known
        if not is_known:
            is_known = True
            threaded()
        file.add(kernels)
        if not kernels:
            file.hand_over()

    file = C.file(Printing("content", comments=False), finished)
    lowered = lower_program(program, dims, False, machine, threaded=True, ready=ready)
    with deep_recursion(), uncollected(), stage("print C"):
        return lowered, file.source(lowered.function, lowered.memory)


def emit_c(program: ir.Program, dims: Mapping[str, int], *, names: Style = "user", comments: bool = True,
           machine: Machine = GENERIC, target: Target = C) -> Source:
    """Lower and print a program as C; return the text with its properties."""
    lowered = lower_program(program, dims, comments, target.machine(machine), canonical=names == "canonical")
    return print_lowered(with_constants(lowered, program), names=names, comments=comments, target=target)


def with_constants(lowered: Lowered, program: ir.Program) -> Lowered:
    """Embed read-only captured arrays in the C, for export.

    These are the library's own tables, and arrays that users made read-only with `setflags`. Others are arguments.
    """
    captured = program.settings.captured
    buffers = lowered.function.inputs[len(lowered.function.inputs) - len(captured) :]
    constant = [(b, a) for b, a in zip(buffers, captured, strict=True) if is_constant(a)]
    constants = {b: elements_of(a, b.dtype).ravel().tolist() for b, a in constant}
    return replace(lowered, function=replace(lowered.function, constants=constants))


def is_constant(array: NDArray) -> bool:
    """Whether a captured array is constant: read-only, as is the array it is a view of."""
    held: Any = array
    while isinstance(held, np.ndarray) and not held.flags.writeable:
        held = held.base
    return held is None


def c_source(program: ir.Program, dims: Mapping[str, int], names: Style = "user", comments: bool = True,
             plain: bool = False) -> str:
    """Standalone C99 of a program for the given dims; the other dims are arguments.

    Args:
        names: "user" keeps the user's names; "canonical" numbers them, for comparing programs.
        comments: whether to keep the header and the mathematics.
        plain: whether to print C without vectors.
    """
    return emit_c(program, dims, names=names, comments=comments, target=PLAIN_C if plain else C).text


def memory(program: ir.Program, dims: Mapping[str, int], mode: MemoryMode | None = None,
           threads: int = 1, build: Build = "call") -> MemoryTable | SizeTable:
    """The memory of a program's calls, or of its exported C, in a mode; by default the program's own.

    Raises:
        CompilerError: [E260] no mode keeps the program's memory limit.
    """
    called = build == "call"
    forms = _Forms(program, dims, _Settings(True, native() if called else GENERIC, False, called))

    def lowered(mode: MemoryMode, limit: int | None = None) -> Lowered:
        found = forms.first_that_fits(mode, limit)
        return found if called else with_constants(found, program)

    def modes() -> dict[str, MemoryTable]:
        return {m: table(lowered(m)) for m in MODES}

    def table(made: Lowered) -> MemoryTable:
        return memory_table(made.function, made.memory, made.mode, modes, threads if called else 1, build)

    found = lowered(mode or asked_mode(program), program.settings.memory_limit)
    return size_table(found.function, found.memory) if found.function.dims else table(found)


def exported_memory(lowered: Lowered) -> MemoryTable | SizeTable:
    """The memory of exported C, in its mode."""
    f, plan = lowered.function, lowered.memory
    return size_table(f, plan) if f.dims else memory_table(f, plan, lowered.mode, build="export")


def with_mode(program: ir.Program, mode: MemoryMode) -> ir.Program:
    """The program with a requested memory mode."""
    return replace(program, settings=replace(program.settings, memory=mode))
