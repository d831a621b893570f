"""Compiled programs as callables on NumPy arrays.

A call borrows an arena, so calls from several threads run at the same time, each in its own memory. The call runs
without the interpreter lock.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.clock import stage
from pullback.codegen.c.build import DEBUG_FLAGS, EXACT_FLAGS, PLAIN_FLAGS
from pullback.errors import CompilerError, IndexRangeError, NotFiniteError, UnfinishedError
from pullback.ir import nodes as ir
from pullback.ir.dims import determined_dims, evaluate
from pullback.ir.grid import unfinished_error
from pullback.ir.intern import uncollected
from pullback.ir.program import program_of
from pullback.ir.types import dtype_named
from pullback.machine import SCALAR, Machine, native
from pullback.records import dataclass, replace
from pullback.runtime import swap
from pullback.runtime.arena import Lender, arenas, empty
from pullback.runtime.buffer import NDArray, Spans, address, aligned_bytes, prepared
from pullback.runtime.compile import (
    Ahead,
    RefusedError,
    compiler_command,
    find_compiler,
)
from pullback.runtime.entry import fast_entry
from pullback.runtime.load import Entry, Library
from pullback.runtime.pool import compile_pool, pool_address
from pullback.runtime.record import CacheEntry, Parameter, Record
from pullback.runtime.shim import Form, Look, interruptible
from pullback.source import user_position
from pullback.state import registered

if TYPE_CHECKING:  # the compiler is imported only if a program is not in the cache
    from pullback.loops.program.nodes import Site
    from pullback.memory.size_table import SizeTable
    from pullback.memory.table import MemoryTable
    from pullback.runtime.emit import Lowered

LARGE = 10**9  # operations of programs that threads speed up for certain: some 30 ms of one
NO_SIZE = ctypes.c_size_t(-1).value
POISONS = (0xFF, 0xA5)  # the first reads as NaN, which multiplication by zero does not hide


class Poisoned(NamedTuple):
    """The result of a run in a poisoned arena.

    Attributes:
        outputs: the results; reads of uninitialized memory show in them.
        peak: the used bytes of the arena, up to the last one written.
        stray: the number of written bytes outside all planned buffers.
    """

    outputs: list[NDArray]
    peak: int
    stray: int


@dataclass(frozen=True)
class _Slot:
    """One parameter: its name, dtype and shape."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @staticmethod
    def of(p: Parameter) -> _Slot:
        return _Slot(p.name, dtype_named(p.dtype).numpy, p.shape)


class Executable:
    """A compiled program for fixed dims.

    `dims` are the values of the dims that are arguments of its C. `folder` takes the file of a program that swaps.

    Attributes:
        record: its C and the data that a call needs.
        workers: the most threads that a call uses; one if no work can be parallelized.
        in_place: for an output's position, the position of the input that may be the same array.
    """

    def __init__(
        self, record: Record, entry: Entry, lowered: Callable[[], Lowered], dims: Sequence[int] = (), threads: int = 1,
        folder: str = "",
    ) -> None:  # fmt: skip
        self.record = record
        self._folder = folder
        self.pool = pool_address(threads) if record.threaded else 0
        self.workers = threads if self.pool else 1
        self._dims = tuple(dims)
        self.in_place = dict(record.in_place)
        self._lowered = lowered
        self._entry = entry
        self._run_now = interruptible(entry, record.arity)
        self._inputs = tuple(_Slot.of(p) for p in record.inputs)
        self._outputs = tuple(_Slot.of(p) for p in record.outputs)

    def on(self, threads: int) -> Executable:
        """The same code on another number of threads."""
        return Executable(self.record, self._entry, self._lowered, self._dims, threads, self._folder)

    @cached_property
    def _arenas(self) -> Lender:
        """Where working memory comes from: the pool, or a file behind it for the program's swap."""
        r = self.record
        if not (self._folder and r.swap_bytes):
            return arenas()
        return swap.FileArenas(self._folder, r.arena_bytes - r.worker_bytes - r.swap_bytes, r.swap_bytes)

    @property
    def arena_bytes(self) -> int:
        """The bytes of working memory that a call uses."""
        return self.record.arena_bytes + (self.workers - 1) * self.record.worker_bytes

    @cached_property
    def lowered(self) -> Lowered:
        """The loops and the memory plan, lowered again on demand."""
        return self._lowered()

    @property
    def memory(self) -> MemoryTable | SizeTable:
        """The memory table."""
        from pullback.memory.size_table import size_table
        from pullback.memory.table import memory_table

        if self.lowered.function.dims:
            return size_table(self.lowered.function, self.lowered.memory)
        return memory_table(self.lowered.function, self.lowered.memory, self.lowered.mode, workers=self.workers)

    def empty_outputs(self) -> list[NDArray]:
        """Arrays for the outputs, not initialized."""
        return [empty(s.shape, s.dtype) for s in self._outputs]

    def run(self, inputs: Sequence[NDArray], outputs: Sequence[NDArray] | None = None) -> list[NDArray]:
        """Call the program.

        Args:
            inputs: arrays in order; non-contiguous ones are copied once.
            outputs: contiguous arrays to write; None for new ones. An output may be the same array as the input that
                `in_place` names for it. An output that overlaps an input otherwise is written after the call.

        Raises:
            IndexRangeError: [E401] a data-dependent index left its range. [E402] an input left its bounds.
        """
        ready = [a if a.dtype is s.dtype and a.shape == s.shape and (f := a.flags).c_contiguous and f.aligned
                 else prepared(a, s.name, s.dtype, s.shape) for a, s in zip(inputs, self._inputs, strict=True)]
        if outputs is None:
            results = targets = self.empty_outputs()
        else:
            results = list(outputs)
            given = Spans(ready)
            targets = [self._target(k, a, ready, given) for k, a in enumerate(results)]
        self._call([address(a) for a in ready], [address(a) for a in targets])
        for target, result in zip(targets, results, strict=True):
            if target is not result:
                result[...] = target
        return results

    def entry(
        self, form: Form, look: Look | None = None, held: Sequence[NDArray] = (), calls: int = -1
    ) -> Callable[..., Any] | None:
        """The program as a callable on unprocessed arguments (`runtime.entry`); None if impossible."""
        def failed(code: int, index: int, extent: int) -> None:
            error = check_error(self._site(code), index, extent)
            error.position = error.position or user_position()
            raise error

        r = self.record
        if r.swap_bytes:
            return None  # it takes memory from the pool
        checks = failed if r.sites else None
        pool = self.pool if r.threaded else None
        return fast_entry(self._entry, r.inputs, r.outputs, form, self.arena_bytes, checks, r.brief, look, held,
                          self._dims, pool, calls, self.in_place)

    def _target(self, k: int, a: NDArray, inputs: Sequence[NDArray], given: Spans) -> NDArray:
        """The array that the program writes for output k: the given one, or a temporary if that is unsuitable."""
        slot = self._outputs[k]
        usable = prepared(a, slot.name, slot.dtype, slot.shape) is a and all(
            self.in_place.get(k) == j and address(a) == address(inputs[j]) for j in given.meeting(a))
        return a if usable else np.empty(slot.shape, slot.dtype)

    def _call(self, inputs: list[int], outputs: list[int]) -> None:
        memory, count = self._arenas.lend(self.arena_bytes) if self.arena_bytes else (0, 0)
        try:
            last = (self.pool,) if self.record.threaded else ()
            if not self.record.sites:
                self._run_now(*inputs, *outputs, *self._dims, memory, *last)
                return
            fault = np.zeros(2, np.int64)
            code = self._run_now(*inputs, *outputs, *self._dims, memory, address(fault), *last)
            if code:
                raise check_error(self._site(code), int(fault[0]), int(fault[1]))
        finally:
            if memory:
                self._arenas.give_back(memory, count)

    def _site(self, code: int) -> Site:
        """The site of the check with this code."""
        from pullback.runtime.emit import print_lowered

        return print_lowered(self.lowered, comments=False).sites[code - 1]

    def run_poisoned(self, inputs: Sequence[NDArray], beyond: int = 4096) -> Poisoned:
        """Run twice in an oversized arena with different fill patterns, to test the memory plan."""
        first, touched = self._run_poisoned(inputs, beyond, POISONS[0])
        second, again = self._run_poisoned(inputs, beyond, POISONS[1])
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)
        used = np.flatnonzero(touched | again)
        known = np.zeros(len(touched), bool)
        known[: self.arena_bytes] = bool(self.lowered.memory.slots)
        for buffer, start in self.lowered.memory.offsets.items():
            for k in range(self.workers if buffer.space == "worker" else 1):
                own = start + k * self.record.worker_bytes
                known[own : own + buffer.bytes] = True
        return Poisoned(first, int(used[-1]) + 1 if len(used) else 0, int(np.count_nonzero(~known[used])))

    def _run_poisoned(self, inputs: Sequence[NDArray], beyond: int, poison: int) -> tuple[list[NDArray], NDArray]:
        """The results, and the changed bytes of the arena."""
        arena = aligned_bytes(self.arena_bytes + beyond)
        arena[:] = poison
        outputs = self.empty_outputs()
        for o in outputs:
            o.reshape(-1).view(np.uint8)[:] = poison
        ready = [prepared(a, s.name, s.dtype, s.shape) for a, s in zip(inputs, self._inputs, strict=True)]
        arguments = [*(address(a) for a in (*ready, *outputs)), *self._dims, address(arena)]
        if self.record.sites:
            arguments.append(0)
        if self.record.threaded:
            arguments.append(self.pool)
        code = self._entry(*arguments)
        assert code == 0, f"range check {code} failed"
        return outputs, arena != poison


def check_error(site: Site, index: int, extent: int) -> IndexRangeError | NotFiniteError | UnfinishedError:
    """The error for a failed check."""
    if site.ends:
        return unfinished_error(site.position)
    if site.shape is not None:
        return _not_finite(site, site.shape, index, extent)
    if site.of_call:
        return IndexRangeError("E402", f"{site.array} holds {index}, which is outside its declared range",
                               facts=(f"its values must be below {extent}",), remedy="check it before the call")
    where = "" if site.axis is None else f" on axis {site.axis} of {site.array}"
    return IndexRangeError(
        "E401", f"{site.statement}: the index {index}{where} is outside 0 … {extent - 1}",
        position=site.position, remedy="read with `.at(..., fill=...)` where an index may lie outside")


def _not_finite(site: Site, shape: tuple[int, ...], index: int, kind: int) -> NotFiniteError:
    from pullback.loops.plain.traps import NAN

    at = ", ".join(str(i) for i in np.unravel_index(index, shape)) if shape else ""
    element = f"{site.array}[{at}]" if shape else site.array
    return NotFiniteError(
        "E403", f"{element} is {'NaN' if kind == NAN else 'infinite'}, and all that its statement reads is finite",
        position=site.position, remedy=f"look at what makes {element}: a division by zero, a log of zero, an overflow")


def compile_program(
    program: ir.Known, dims: Mapping[str, int], threads: int = 1, entry: CacheEntry | None = None
) -> Executable:
    """Compile a program for the given dims, or find it in the cache.

    Args:
        entry: the program's cache entry, if the caller has looked it up already.
        threads: the most threads of a call; a memory limit may allow fewer. Code and results are the same for any
            number.

    Raises:
        CompilerError: [E410] there is no compiler. [E411] the compiler failed.
    """
    record, library, lowered = _compiled(program, dims, entry, threads)
    limit = program.settings.memory_limit
    if limit is not None and record.worker_bytes:
        resident = record.arena_bytes - record.swap_bytes
        threads = min(threads, 1 + max(0, limit - resident) // record.worker_bytes)
    return Executable(record, record.entry(library), lowered, threads=threads, folder=program.settings.swap)


Compiled = tuple[Record, Library, Callable[[], "Lowered"]]


def _compiled(
    program: ir.Known, dims: Mapping[str, int], entry: CacheEntry | None = None, threads: int = 1
) -> Compiled:
    """The compiled form of a program, cached or new, and a function that lowers it again to show loops.

    If the compiler fails, plain C with few flags is tried, because vectors are the most common cause.
    """
    if program.settings.debug:
        return _debug(program, dims)
    with uncollected():
        with stage("find record"):
            entry = entry or CacheEntry(program, dims)
            record = entry.record
        return _found_or_made(program, dims, entry, record, threads)


def _found_or_made(
    program: ir.Known, dims: Mapping[str, int], entry: CacheEntry, record: Record | None, threads: int
) -> Compiled:
    try:
        if record is not None:
            return record, record.load(), lambda: _lowered(program, dims, native())
        compiler = find_compiler()
        record = entry.plain(compiler)
        if record is not None:
            library = record.load()
            _warn(f"the C compiler failed before: {compiler.command[0]}")
            return record, library, lambda: _lowered(program, dims, SCALAR)
        record, _ = _made(program, dims, threads=threads)
        library = record.load()  # records that do not compile are not kept
        entry.keep(record)
        return record, library, lambda: _lowered(program, dims, native())
    except CompilerError as error:
        if error.code != "E411":
            raise
        return _plain(program, dims, entry, error)


def compile_timed(program: ir.Program, dims: Mapping[str, int], threads: int = 1) -> tuple[Executable, ir.Program]:
    """Compile a program with time stamps between statements; return it with the stamped program.

    Raises:
        CompilerError: [E410] there is no compiler. [E411] the compiler failed.
    """
    from pullback.runtime.emit import lower_program, print_lowered

    with uncollected():
        made = lower_program(program, dims, False, native(), threaded=True, timed=True)
        exact = EXACT_FLAGS if program.settings.exact else ()
        record = Record.of(made.function, print_lowered(made, names="content", comments=False), exact)
        return Executable(record, record.entry(record.load()), lambda: made, threads=threads), made.program


def _lowered(program: ir.Known, dims: Mapping[str, int], machine: Machine) -> Lowered:
    from pullback.runtime.emit import lower_program

    return lower_program(program_of(program), dims, False, machine, threaded=True)


def _made(
    program: ir.Known, dims: Mapping[str, int], plain: bool = False, threads: int = 1
) -> tuple[Record, Lowered]:
    """Lower and print the program: as one file of plain C, or in units, compiled meanwhile."""
    from pullback.runtime.emit import lower_and_print, print_lowered

    exact = EXACT_FLAGS if program.settings.exact else ()
    if plain:
        made = _lowered(program, dims, SCALAR)
        source = print_lowered(made, names="canonical", comments=False)
        return Record.of(made.function, source, (*PLAIN_FLAGS, *exact)), made
    with Ahead(exact) as ahead:
        whole = program_of(program)
        at_once = threads > 1 and _is_large(whole, dims)
        if at_once:  # a processor is idle until the first kernels are lowered
            compile_pool(ahead)
        needs_pool = partial(compile_pool, ahead) if threads > 1 and not at_once else lambda: None
        made, source = lower_and_print(whole, dims, native(), ahead.unit, needs_pool)
    return Record.of(made.function, source, exact), made


def _is_large(program: ir.Program, dims: Mapping[str, int]) -> bool:
    """Whether the program is certain to do enough work for threads."""
    from pullback.passes.operations import operation_count

    if not determined_dims(program).keys() <= dims.keys():
        return False
    counts = (operation_count(program.with_body(ir.Block((s,), ())), dims) for s in program.body.statements)
    return any(total > LARGE for total in accumulate(counts))


def _debug(program: ir.Known, dims: Mapping[str, int]) -> Compiled:
    """Compile a debug build; it is not recorded because it contains source lines."""
    from pullback.runtime.emit import lower_debug, print_lowered

    made = lower_debug(program_of(program), dims)
    record = Record.of(made.function, print_lowered(made, lines=True), DEBUG_FLAGS)
    return record, record.load(), lambda: lower_debug(program_of(program), dims)


_warned: set[str] = registered(set(), "one for each compiler", stays="with the process: a warning is given once")


def _plain(program: ir.Known, dims: Mapping[str, int], entry: CacheEntry, error: CompilerError) -> Compiled:
    """Compile the program as plain C after the usual compilation failed; warn once per compiler."""
    record, _ = _made(program, dims, plain=True)
    try:
        library = record.load()
    except CompilerError:
        raise error from None
    if isinstance(error, RefusedError):
        entry.keep_plain(find_compiler(), record)
    _warn(error.what)
    return record, library, lambda: _lowered(program, dims, SCALAR)


def _warn(what: str) -> None:
    command = " ".join(compiler_command() or ())
    if command not in _warned:
        _warned.add(command)
        warnings.warn(f"{what}: functions are compiled as plain C, which is slower; CC names another compiler",
                      RuntimeWarning, stacklevel=2)


class GeneralExecutable:
    """A compiled program with open dims."""

    def __init__(self, program: ir.Known, record: Record, library: Library, lowered: Callable[[], Lowered]) -> None:
        self.program = program
        self.record = record
        self._lowered = lowered
        arrays = len(record.inputs) + len(record.outputs)
        self._entry = record.entry(library)
        self._entry.argtypes = [  # type: ignore[attr-defined]
            *[ctypes.c_void_p] * arrays,
            *[ctypes.c_int64] * len(record.dims),
            *[ctypes.c_void_p] * (record.arity - arrays - len(record.dims)),
        ]
        self._arena_bytes = record.entry_of_arena(library)

    @cached_property
    def lowered(self) -> Lowered:
        """The loops and the memory plan, lowered again on demand."""
        return self._lowered()

    def at(self, dims: Mapping[str, int], threads: int = 1) -> Executable:
        """The program for these dims and thread limit; nothing is compiled.

        Raises:
            CompilerError: [E263] the program needs more working memory than any machine has.
        """
        numbers = [dims[name] for name in self.record.dims]
        count = self._arena_bytes(*numbers)
        if count == NO_SIZE:
            raise CompilerError("E263", f"{self.program.name} needs more working memory than there are addresses",
                                facts=[f"{name} = {dims[name]}" for name in self.record.dims], remedy="smaller dims")
        inputs, outputs = (
            tuple(replace(p, shape=tuple(evaluate(d, dims) for d in r.shape)) for p, r in zip(ps, rs, strict=True))
            for ps, rs in ((self.record.inputs, self.program.inputs), (self.record.outputs, self.program.outputs))
        )
        record = replace(self.record, inputs=inputs, outputs=outputs, arena_bytes=count)
        return Executable(record, self._entry, lambda: self.lowered, numbers, threads)


def compile_general(program: ir.Known, given: Mapping[str, int] | None = None) -> GeneralExecutable:
    """Compile a program for all sizes, or find it in the cache.

    Args:
        given: dims with fixed sizes.

    Raises:
        CompilerError: [E262] the program has a memory limit. [E410] there is no compiler. [E411] the compiler failed.
    """
    return GeneralExecutable(program, *_compiled(program, given or {}))
