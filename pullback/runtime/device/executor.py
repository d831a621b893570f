"""Calls on a device: compiled programs on arrays of the host or of the device."""

from __future__ import annotations

import ctypes
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pullback.codegen.device.program import DeviceProgram
from pullback.errors import DeviceError, PullbackError
from pullback.ir import nodes as ir
from pullback.ir.types import DType, dtype_named
from pullback.memory.rows import BufferRow
from pullback.memory.table import MemoryTable, memory_table
from pullback.runtime.buffer import NDArray, address, prepared
from pullback.runtime.device.array import DeviceArray, Memory, Pending, aligned, described, no_memory, sent
from pullback.runtime.device.driver import Gpu, StatusError
from pullback.runtime.device.entry import DeviceCall, has_complex
from pullback.runtime.device.libraries import library_calls
from pullback.runtime.device.listing import named
from pullback.runtime.emit import Lowered
from pullback.runtime.executor import check_error
from pullback.runtime.record import Parameter, Record
from pullback.runtime.shim import Form, Look
from pullback.source import user_position
from pullback.state import registered

if TYPE_CHECKING:
    from pullback.loops.program.nodes import Site

FAULT_BYTES: Final = 24


class Checks:
    """The index checks of a call that may still run.

    Attributes:
        memory: the code of the check that failed first, its index and its size.
    """

    def __init__(self, gpu: Gpu, memory: Memory, sites: Sequence[Site]) -> None:
        self._gpu, self.memory, self._sites = gpu, memory, sites
        self._error: PullbackError | None = None
        self._is_known = False

    def verify(self) -> None:
        """Wait for the call, and raise the error of a failed check."""
        if not self._is_known:
            found = np.empty(3, np.int64)
            with self._gpu.current("the checks of a call"):
                self._gpu.fetch(found, self.memory.at)
            if found[0]:
                self._error = check_error(self._sites[int(found[0]) - 1], int(found[1]), int(found[2]))
            self._is_known = True
        if self._error is not None:
            raise self._error


class DeviceExecutable:
    """A compiled program on a device. A lock lets one thread call it at a time.

    Attributes:
        record: the C of its host program, and the arrays that a call takes and returns.
        lowered: its loops and its memory plan.
        vendor: the calls of libraries that take the place of kernels; None for none.
    """

    workers, in_place = 1, ()

    def __init__(self, gpu: Gpu, known: ir.Known, lowered: Lowered, program: DeviceProgram, image: bytes) -> None:
        """Load the program on a device.

        Raises:
            DeviceError: [E419] the driver does not take the machine code. [E420] the device failed.
            OutOfMemoryError: [E421] there is no room for its working memory.
        """
        self.gpu, self.lowered, self.program = gpu, lowered, program
        self._known = known  # `loading` has its identity
        f = lowered.function
        text = program.host.replace(f'#include "{program.name}.h"\n', program.header)
        self.record = Record((text,), program.name, program.memory_bytes, len(program.sites),
                             tuple(map(Parameter.of, f.inputs)), tuple(map(Parameter.of, f.outputs)), ())
        library = self.record.load()
        name, count = program.name, len(f.inputs) + len(f.outputs) + bool(program.sites)
        self._run = library.entry(name, 1 + count)
        self._enqueue = library.entry(f"{name}_enqueue", 2 + count)
        self._close = library[f"{name}_close"]
        self._close.argtypes, self._close.restype = [ctypes.c_void_p], None
        self._handle = ctypes.c_void_p()
        self._lock = threading.Lock()
        self._is_busy = False  # whether the working memory may be in use
        self._has_arrays = False  # whether there is memory for arrays of the host
        self._reserved = 0
        self._reserve(program.memory_bytes, self._working_rows)
        self._results = [_result(p, name) for p in self.record.outputs]
        suffix, place = gpu.opening

        def opened() -> int:
            return int(library[f"{name}_{suffix}"](ctypes.byref(self._handle), image, *place))

        status = self._with_room(opened(), opened)
        if refused := gpu.refusal(name, -status, library):
            raise refused
        self._check(status, self._working_rows)
        self.vendor = library_calls(gpu, program.vendor_calls, name)
        if self.vendor is not None:
            use = library[f"{name}_use"]
            use.argtypes, use.restype = [ctypes.c_void_p, ctypes.c_void_p], None
            use(self._handle, ctypes.addressof(self.vendor.array))

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        handle = getattr(self, "_handle", None)
        if is_ending():  # names of modules may be gone; the driver takes everything back
            return
        if handle:
            with suppress(DeviceError):  # if the device is lost, nothing runs there
                if self._is_busy:
                    self.gpu.wait()
            self._close(handle)
            if library := getattr(self, "vendor", None):
                library.close()
        self.gpu.reserve(-getattr(self, "_reserved", 0))

    def _reserve(self, count: int, rows: Any) -> None:
        """Let the device count memory that the host program allocates."""
        try:
            self.gpu.reserve(count)
            self._reserved += count
        except StatusError as error:
            self._check(-error.status, rows)

    @property
    def arena_bytes(self) -> int:
        """The bytes of working memory on the device."""
        return self.program.memory_bytes

    @cached_property
    def memory(self) -> MemoryTable:
        """The memory table."""
        return memory_table(self.lowered.function, self.lowered.memory, self.lowered.mode)

    def entry(self, form: Form, look: Look, held: Sequence[Any], calls: int) -> DeviceCall | None:
        """The entry for fast calls on arrays of this device; None if impossible."""
        if has_complex(form):
            return None
        return DeviceCall(self.gpu, self.record.inputs, self.queued, form, look, held, calls)

    def _with_room(self, status: int, again: Callable[[], int]) -> int:
        """The status of a call, which is repeated if it lacked memory and some was kept for arrays."""
        return again() if -status in self.gpu.full and self.gpu.trim() else status

    def run(self, inputs: Sequence[Any], outputs: Sequence[NDArray] | None = None) -> list[Any]:
        """Call the program.

        Args:
            inputs: NumPy arrays, or arrays on this device.
            outputs: contiguous NumPy arrays to write; None for new ones.
        Returns:
            If all inputs are NumPy arrays, NumPy arrays after the call is done; else arrays on the device, at once.

        Raises:
            IndexRangeError: [E401] a data-dependent index left its range. With arrays on the device, this is raised
                when a result is first read.
            DeviceError: [E420] the device failed.   OutOfMemoryError: [E421] arrays do not fit.
        """
        if not any(isinstance(a, DeviceArray) for a in inputs):
            return self._run_on_host(inputs, outputs)
        results: list[Any] = self.enqueued(inputs)
        if outputs is None:
            return results
        for target, r in zip(outputs, results, strict=True):
            target[...] = r.numpy()
        return list(outputs)

    def _run_on_host(self, inputs: Sequence[NDArray], outputs: Sequence[NDArray] | None) -> list[NDArray]:
        ready = [prepared(a, p.name, dtype_named(p.dtype).numpy, p.shape)
                 for a, p in zip(inputs, self.record.inputs, strict=True)]  # fmt: skip
        results = list(outputs) if outputs is not None else [
            np.empty(p.shape, dtype_named(p.dtype).numpy) for p in self.record.outputs]
        fault = np.zeros(2, np.int64)
        last = (address(fault),) if self.program.sites else ()
        with self._lock:
            if self._is_busy:
                self.gpu.wait()
                self._is_busy = False
            if not self._has_arrays:
                self._reserve(self.program.array_bytes, self._array_rows)
                self._has_arrays = True
            places = (*map(address, ready), *map(address, results), *last)
            status = self._run(self._handle, *places)
            status = self._with_room(status, lambda: self._run(self._handle, *places))
        self._check(status, self._array_rows, fault)
        self._note_library()
        return results

    def enqueued(self, inputs: Sequence[Any]) -> list[DeviceArray]:
        """Call the program without waiting; NumPy arrays among the inputs are sent to the device."""
        return self.queued([a if isinstance(a, DeviceArray) else sent(
                                self.gpu, prepared(a, p.name, dtype_named(p.dtype).numpy, p.shape),
                                dtype_named(p.dtype), p.name)
                            for a, p in zip(inputs, self.record.inputs, strict=True)])  # fmt: skip

    def repeated(self, given: Sequence[DeviceArray], results: Sequence[DeviceArray]) -> Callable[[int], None]:
        """A function that queues a call with fixed arrays of this device on a stream, for measurements.

        The results of index checks are not read.
        """
        own = [Memory(self.gpu, FAULT_BYTES, self.program.name)] * bool(self.program.sites)
        places = [a.at for a in (*given, *results)] + [m.at for m in own]

        def queue(stream: int, kept: Any = (given, results, own)) -> None:
            with self._lock:
                self._check(self._enqueue(self._handle, stream, *places), self._working_rows)

        return queue

    def queued(self, given: Sequence[DeviceArray]) -> list[DeviceArray]:
        """Call the program with arrays of this device, without waiting."""
        gpu, pending = self.gpu, {check: None for a in given for check in a.pending}
        given = [aligned(a, self.program.start) for a in given]
        results = [DeviceArray(gpu, shape, storage, m := Memory(gpu, count, title), m.at)
                   for shape, storage, count, title in self._results]  # fmt: skip
        places = [a.at for a in given]
        places += [r.at for r in results]
        if self.program.sites:
            own = Checks(gpu, Memory(gpu, FAULT_BYTES, self.program.name), self.program.sites)
            pending[own] = None
            places.append(own.memory.at)
        with self._lock:
            self._is_busy = True
            status = self._enqueue(self._handle, gpu.stream, *places)
            if status:
                status = self._with_room(status, lambda: self._enqueue(self._handle, gpu.stream, *places))
        self._check(status, self._working_rows)
        self._note_library()
        gpu.begin()
        for a in given:
            if not isinstance(a.memory, Memory):
                a.memory.was_read(gpu)
        if pending:
            left = _recent(list(pending))
            for r in results:
                r.pending = left
        return results

    def _check(self, status: int, rows: Any, fault: NDArray | None = None) -> None:
        """Raise the error for the return code of a call."""
        if status == 0:
            return
        if status > 0:
            assert fault is not None
            raise check_error(self.program.sites[status - 1], int(fault[0]), int(fault[1]))
        if -status in self.gpu.full:
            count, found = rows()
            raise no_memory(self.gpu, self.program.name, count, found)
        raise self.gpu.failure(self.program.name, -status)

    def _note_library(self) -> None:
        """Warn if a library failed in a call; kernels have computed its part."""
        if self.vendor is not None:
            self.vendor.report()

    def _working_rows(self) -> tuple[int, list[str]]:
        """The bytes of working memory, and the first row of the memory table that does not fit."""
        free = min(self.gpu.free_bytes()[0], self.gpu.largest)
        rows = sorted(self.memory.buffers, key=lambda r: ((r.offset or 0) + r.bytes, r.name))
        beyond = [r for r in rows if (r.offset or 0) + r.bytes > free] or rows[-1:]
        return self.program.memory_bytes, [_row(r) for r in beyond[:1]]

    def _array_rows(self) -> tuple[int, list[str]]:
        """The bytes of arguments and results, and the first of them that does not fit."""
        free = min(self.gpu.free_bytes()[0], self.gpu.largest)
        end = 0
        for row in (rows := (*self.memory.inputs, *self.memory.outputs)):
            end += row.bytes
            if end > free:
                return self.program.array_bytes, [_row(row)]
        return self.program.array_bytes, [_row(max(rows, key=lambda r: r.bytes))]


MOST_CHECKS: Final = 64  # most calls whose checks a result waits for


def _recent(checks: Sequence[Pending]) -> tuple[Pending, ...]:
    """The checks that are left when there are too many: the older ones are waited for, all at once."""
    if len(checks) <= MOST_CHECKS:
        return tuple(checks)
    older = len(checks) - MOST_CHECKS // 2
    for check in checks[:older]:
        check.verify()
    return tuple(checks[older:])


def _result(p: Parameter, name: str) -> tuple[tuple[int, ...], DType, int, str]:
    """The shape, the element type and the bytes of a result, and its row in errors."""
    storage = dtype_named(p.dtype)
    return p.shape, storage, prod(p.shape) * storage.size, described(f"{name}: the result {p.name}", storage, p.shape)


def _row(r: BufferRow) -> str:
    return f"{r.name} : {r.dims}, {r.bytes:,} bytes"


MOST_SAID: Final = 1024
_SAID: set[tuple[str, str]] = registered(set(), MOST_SAID, stays="with the process: a warning is given once")


def warn_once(name: str, error: PullbackError) -> None:
    """Warn once that a function runs on the processor, and why."""
    key = name if error.code == "E417" else "", error.what  # other reasons hold for all functions
    if key not in _SAID:
        if len(_SAID) >= MOST_SAID:
            _SAID.clear()
        _SAID.add(key)
        warnings.warn(f"{name} runs on the processor: {error.what} [{error.code}]", RuntimeWarning, stacklevel=9)


def place(name: str, wish: str, paths: Sequence[str], arrays: Sequence[Any]) -> str:
    """The device of a call: that of its arrays, else the function's.

    Args:
        name: the function.   wish: the function's own device; "" for none.
        paths: the arguments in the user's words.   arrays: their arrays.

    Raises:
        DeviceError: [E422] arrays are on two devices, or not on the function's.
    """
    found = [(path, a.device) for path, a in zip(paths, arrays) if isinstance(a, DeviceArray)]
    where = named(wish) if wish else found[0][1]
    said = f"{name} runs" if wish else f"{name}: {found[0][0]} is"
    for path, device in found:
        if device != where:
            raise DeviceError("E422", f"{said} on {where}, and {path} is on {device}", position=user_position(),
                              remedy=f'`pb.device_put({path}, "{where}")` copies it')  # fmt: skip
    return "" if where == "cpu" else where + "!" * (bool(found) or wish.endswith("!"))
