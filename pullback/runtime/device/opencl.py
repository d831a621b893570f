"""OpenCL's devices: the loader of its drivers by ctypes.

The loader finds the drivers of all makers. Error numbers have no sign here: 4 is CL_MEM_OBJECT_ALLOCATION_FAILURE, -4.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cached_property
from typing import Any, Final

from pullback.codegen.device.dialect import OPENCL as WORDS
from pullback.codegen.device.drivers import OPENCL
from pullback.codegen.device.program import DeviceProgram
from pullback.device import GENERIC
from pullback.errors import CompilerError, DeviceError
from pullback.runtime.buffer import NDArray, address
from pullback.runtime.device.driver import DeviceEntry, Gpu, StatusError, unusable
from pullback.source import user_position
from pullback.state import cached

_A, _P = POINTER, c_void_p
_EVENTS: Final = c_uint, _P, _A(_P)  # events to wait for, and the event of the command

ENTRIES: Final[dict[str, tuple[Any, ...]]] = {
    "clGetPlatformIDs": (c_uint, _A(_P), _A(c_uint)),
    "clGetDeviceIDs": (_P, c_uint64, c_uint, _A(_P), _A(c_uint)),
    "clGetDeviceInfo": (_P, c_uint, c_size_t, _P, _A(c_size_t)),
    "clReleaseMemObject": (_P,),
    "clEnqueueReadBuffer": (_P, _P, c_uint, c_size_t, c_size_t, _P, *_EVENTS),
    "clEnqueueWriteBuffer": (_P, _P, c_uint, c_size_t, c_size_t, _P, *_EVENTS),
    "clEnqueueMarkerWithWaitList": (_P, *_EVENTS),
    "clGetEventInfo": (_P, c_uint, c_size_t, _P, _A(c_size_t)),
    "clReleaseEvent": (_P,),
    "clFlush": (_P,),
    "clFinish": (_P,),
}
MAKERS: Final[dict[str, tuple[Any, ...]]] = {  # they return an object, and their last argument is the error number
    "clCreateContext": (_P, c_uint, _A(_P), _P, _P, _A(c_int)),
    "clCreateCommandQueue": (_P, _P, c_uint64, _A(c_int)),
    "clCreateBuffer": (_P, c_uint64, c_size_t, _P, _A(c_int)),
}
KINDS: Final = (4 | 8, 2)  # GPUs and accelerators, processors
GROUP, LARGEST, MEMORY, SHARED = 0x1004, 0x1010, 0x101F, 0x1023  # facts of a device: numbers
NAME, VERSION, EXTENSIONS, LANGUAGE = 0x102B, 0x102F, 0x1030, 0x103D  # and texts
STATE: Final = 0x11D3  # of an event: 0 if it is complete, below 0 if it failed
NO_COMPILER, BUILD_FAILED, NO_PLATFORM = 3, 11, 1001
NO_DEVICE: Final = 1
NAMES: Final = {
    1: "CL_DEVICE_NOT_FOUND", 2: "CL_DEVICE_NOT_AVAILABLE", 3: "CL_COMPILER_NOT_AVAILABLE",
    4: "CL_MEM_OBJECT_ALLOCATION_FAILURE", 5: "CL_OUT_OF_RESOURCES", 6: "CL_OUT_OF_HOST_MEMORY",
    11: "CL_BUILD_PROGRAM_FAILURE", 14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST", 30: "CL_INVALID_VALUE",
    33: "CL_INVALID_DEVICE", 34: "CL_INVALID_CONTEXT", 36: "CL_INVALID_COMMAND_QUEUE", 38: "CL_INVALID_MEM_OBJECT",
    52: "CL_INVALID_KERNEL_ARGS", 54: "CL_INVALID_WORK_GROUP_SIZE", 61: "CL_INVALID_BUFFER_SIZE",
    1001: "CL_PLATFORM_NOT_FOUND_KHR"}  # fmt: skip
MOST_NAMED: Final = 4
INSTALL: Final = "install the OpenCL driver of your device; `clinfo` lists what is found"


class Loader:
    """The loaded loader: `loader("clFinish", queue)` calls an entry point."""

    def __init__(self, library: ctypes.CDLL) -> None:
        """Find all entry points.

        Raises:
            DeviceError: [E418] the loader is too old.
        """
        self._entries: dict[str, Any] = {}
        for name, kinds in (ENTRIES | MAKERS).items():
            entry = getattr(library, name, None)
            if entry is None:
                raise unusable(f"the loader of OpenCL is too old: it has no {name}", "a loader for OpenCL 1.2 or later")
            entry.argtypes, entry.restype = kinds, c_void_p if name in MAKERS else c_int
            self._entries[name] = entry

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call an entry point.

        Raises:
            StatusError: it failed.
        """
        if status := self._entries[name](*arguments):
            raise StatusError(-status, name)

    def made(self, name: str, *arguments: Any) -> int:
        """Call an entry point that makes an object; return its handle.

        Raises:
            StatusError: it failed.
        """
        status = c_int()
        found = self._entries[name](*arguments, byref(status))
        if status.value:
            raise StatusError(-status.value, name)
        return int(found or 0)

    def listed(self, name: str, *arguments: Any) -> list[int]:
        """The handles that an entry point lists.

        Raises:
            StatusError: it failed, or there are none.
        """
        count = c_uint()
        self(name, *arguments, 0, None, byref(count))
        found = (c_void_p * count.value)()
        self(name, *arguments, count, found, None)
        return [int(h or 0) for h in found]


@cached(1, stays="with the process: a library is never unloaded")
def loader() -> Loader:
    """The loader of this computer: PULLBACK_LIBOPENCL, or `libOpenCL.so.1`.

    Raises:
        DeviceError: [E418] there is none, or it is too old.
    """
    try:
        library = ctypes.CDLL(os.environ.get("PULLBACK_LIBOPENCL", OPENCL.file))
    except OSError as error:
        raise unusable(f"there is no loader of OpenCL's drivers: {error}",
                       f"`apt-get install ocl-icd-libopencl1`, and {INSTALL}") from None  # fmt: skip
    return Loader(library)


class OpenclGpu(Gpu):
    """A device of OpenCL with a context of its own, and an in-order queue as its stream."""

    kind, tool = "opencl", "clinfo"
    full = frozenset((4, 61))
    lost = frozenset((2, 34))
    failed = frozenset((14, 36, 9999))  # NVIDIA's drivers report 36 and 9999 after a kernel has failed

    def __init__(self, cl: Loader, device: int, number: int) -> None:
        self._cl, self._device, self._used = cl, device, 0
        self.largest = self._number(LARGEST)
        self.has_double = "cl_khr_fp64" in self._text(EXTENSIONS).split()
        entry = DeviceEntry(f"opencl:{number}", self._text(NAME), self._number(MEMORY), self._text(LANGUAGE))
        super().__init__(number, entry, GENERIC)

    def _number(self, which: int) -> int:
        found = c_uint64()  # little-endian, so that it holds shorter numbers, too
        self._cl("clGetDeviceInfo", self._device, which, 8, byref(found), None)
        return found.value

    def _text(self, which: int) -> str:
        size = c_size_t()
        self._cl("clGetDeviceInfo", self._device, which, 0, None, byref(size))
        found = ctypes.create_string_buffer(size.value + 1)
        self._cl("clGetDeviceInfo", self._device, which, size, found, None)
        return found.value.decode(errors="replace").strip()

    @cached_property
    def _context(self) -> int:
        with self._lock:
            if "_context" not in self.__dict__:  # no other thread has made it
                self.__dict__["_context"] = self._cl.made("clCreateContext", None, 1, byref(c_void_p(self._device)),
                                                          None, None)  # fmt: skip
        return int(self.__dict__["_context"])

    @property
    def opening(self) -> tuple[str, tuple[Any, ...]]:
        """The function that opens a program, and its last arguments."""
        return "open_in", (c_void_p(self._context), c_void_p(self._device))

    def said(self, status: int) -> str:
        """The name of an error number."""
        return NAMES.get(status, f"error {-status} of OpenCL")

    def image(self, program: DeviceProgram, exact: bool) -> bytes:
        """The text of the kernels.

        Raises:
            CompilerError: [E417] the device lacks f64, or has fewer threads or less shared memory in a group.
            DeviceError: [E418] the device is too old.
        """
        version = re.match(r"OpenCL (\d+)\.(\d+)", self._text(VERSION))
        if version and (int(version[1]), int(version[2])) < (1, 2):
            raise unusable(f"{self.name} is too old: it is for {version[0]}", "a device with OpenCL 1.2 or later")
        if WORDS.double in program.kernels and not self.has_double:
            wide = dict.fromkeys(b.name for x in program.launches for b in x.params if b.dtype.name == "f64")
            users = ", ".join([*wide][:MOST_NAMED]) or "conversions from f32 to integers"
            raise self._without(program, f"f64 (cl_khr_fp64), needed for {users}",
                                "arrays of f32 and no conversions to integers, or another device")
        for most, needed, what in (
                (self._number(GROUP), max((x.threads for x in program.launches), default=0), "threads"),
                (self._number(SHARED), max((x.shared for x in program.launches), default=0), "bytes of shared memory")):
            if needed > most:
                raise self._without(program, f"groups with {needed:,} {what}: it has at most {most:,}",
                                    "another device")
        return program.kernels.encode() + b"\0"

    def _without(self, program: DeviceProgram, what: str, remedy: str) -> CompilerError:
        return CompilerError("E417", f"{program.name}: {self.name} has no {what}", position=user_position(),
                             remedy=remedy)  # fmt: skip

    def refusal(self, name: str, status: int, library: ctypes.CDLL) -> DeviceError | None:
        """The error for kernels that do not compile; None if `status` means something else."""
        if status == NO_COMPILER:
            return DeviceError("E419", f"{name}: the driver of {self.name} has no compiler", position=user_position(),
                               facts=[self.said(status)], remedy="another driver of the device, or another device")
        if status != BUILD_FAILED:
            return None
        messages = library[f"{name}_messages"]
        messages.restype = c_char_p
        log = messages().decode(errors="replace").strip()
        return DeviceError("E419", f"{name}: the driver of {self.name} does not compile the kernels",
                           position=user_position(), facts=[log[:2000] or self.said(status)],
                           remedy="another driver of the device, or report this with the text of kernels.cl")

    def reserve(self, count: int) -> None:
        """Count `count` bytes as used, or free if below 0: drivers may find out late that memory is missing.

        Raises:
            StatusError: the device has less, or allows no allocation of this size.
        """
        with self._lock:
            if count > min(self.largest, self.entry.memory - self._used):
                raise StatusError(min(self.full), "clCreateBuffer")
            self._used += count

    def free_bytes(self) -> tuple[int, int]:
        """The bytes that this process has not allocated, and all bytes."""
        return self.entry.memory - self._used, self.entry.memory

    def allocate(self, count: int) -> int:
        """Make a buffer of `count` bytes; return its handle, 0 for none.

        Raises:
            StatusError: there is no memory.
        """
        if not count:
            return 0
        self.reserve(count)
        try:
            return self._cl.made("clCreateBuffer", self._context, 1, count, None)  # 1: to read and write
        except StatusError:
            self.reserve(-count)
            raise

    def free(self, at: int, count: int, shared: bool) -> None:
        """Release a buffer; the driver frees it after the queued work."""
        self.reserve(-count)
        with self.current("memory"):
            self._cl("clReleaseMemObject", at)

    def send(self, to: int, array: NDArray) -> None:
        """Copy a contiguous array to the device. The array may be changed right after."""
        if array.nbytes:
            own = array.copy()
            self._cl("clEnqueueWriteBuffer", self.stream, to, 0, 0, own.nbytes, address(own), 0, None, None)
            self.keep(own)

    def fetch(self, array: NDArray, at: int) -> None:
        """Copy memory to an array, and wait."""
        if array.nbytes:
            self._cl("clEnqueueReadBuffer", self.stream, at, 1, 0, array.nbytes, address(array), 0, None, None)
        else:
            self._finish()

    def begin(self) -> None:
        """Let the device begin with the queued work."""
        with self.current("queue"):
            self._cl("clFlush", self.stream)

    def _entered(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _new_stream(self) -> int:
        return self._cl.made("clCreateCommandQueue", self._context, self._device, 0)

    def _finish(self) -> None:
        self._cl("clFinish", self.stream)

    def _event(self) -> c_void_p:
        made = c_void_p()
        self._cl("clEnqueueMarkerWithWaitList", self.stream, 0, None, byref(made))
        self._cl("clFlush", self.stream)  # otherwise it may never be done
        return made

    def _is_done(self, event: c_void_p) -> bool:
        state = c_int()
        self._cl("clGetEventInfo", event, STATE, 4, byref(state), None)
        return state.value == 0

    def _drop(self, event: c_void_p) -> None:
        self._cl("clReleaseEvent", event)


@cached(1, stays="with the process: arrays and programs are on these devices")
def gpus() -> tuple[OpenclGpu, ...]:
    """The devices of all drivers: GPUs and accelerators, then processors.

    Raises:
        DeviceError: [E418] there is no loader, no driver or no device.
    """
    cl = loader()
    try:
        platforms = cl.listed("clGetPlatformIDs")
    except StatusError as error:
        if error.status == NO_PLATFORM:
            raise unusable("OpenCL has no platform", INSTALL) from None
        raise unusable(f"OpenCL does not list its platforms: error {-error.status}", INSTALL) from None
    found = [d for kind in KINDS for p in platforms for d in _of_platform(cl, p, kind)]
    if not found:
        raise unusable("the platforms of OpenCL have no device", INSTALL)
    return tuple(OpenclGpu(cl, d, k) for k, d in enumerate(found))


def _of_platform(cl: Loader, platform: int, kind: int) -> Iterator[int]:
    try:
        yield from cl.listed("clGetDeviceIDs", platform, kind)
    except StatusError as error:
        if error.status != NO_DEVICE:
            raise unusable(f"OpenCL does not list the devices of a platform: error {-error.status}", INSTALL) from None
