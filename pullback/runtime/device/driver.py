"""CUDA's driver by ctypes: devices, memory, copies, streams and events.

The driver is loaded on first use. `ENTRIES` has every entry point that is called from Python. The host program of a
function calls others (`codegen/device/drivers.py`).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from pullback.codegen.device.drivers import CUDA
from pullback.device import H100, Device
from pullback.errors import DeviceError, PullbackError
from pullback.runtime.buffer import NDArray, address
from pullback.single_flight import single_flight
from pullback.source import user_position
from pullback.state import cached

_A, _P = POINTER, c_void_p
_ADDRESS = c_uint64

ENTRIES: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_A(c_int),),
    "cuGetErrorName": (c_int, _A(c_char_p)),
    "cuGetErrorString": (c_int, _A(c_char_p)),
    "cuDeviceGetCount": (_A(c_int),),
    "cuDeviceGet": (_A(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (_A(c_size_t), c_int),
    "cuDeviceGetAttribute": (_A(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_A(_P), c_int),
    "cuCtxPushCurrent_v2": (_P,),
    "cuCtxPopCurrent_v2": (_A(_P),),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (_A(c_size_t), _A(c_size_t)),
    "cuMemAllocAsync": (_A(_ADDRESS), c_size_t, _P),
    "cuMemFreeAsync": (_ADDRESS, _P),
    "cuMemFree_v2": (_ADDRESS,),
    "cuMemcpyHtoDAsync_v2": (_ADDRESS, _P, c_size_t, _P),
    "cuMemcpyDtoHAsync_v2": (_P, _ADDRESS, c_size_t, _P),
    "cuMemcpyDtoDAsync_v2": (_ADDRESS, _ADDRESS, c_size_t, _P),
    "cuStreamCreate": (_A(_P), c_uint),
    "cuStreamSynchronize": (_P,),
    "cuStreamWaitEvent": (_P, _P, c_uint),
    "cuEventCreate": (_A(_P), c_uint),
    "cuEventRecord": (_P, _P),
    "cuEventQuery": (_P,),
    "cuEventDestroy_v2": (_P,),
}
OLDEST: Final = 12_000  # the oldest driver, as cuDriverGetVersion counts: CUDA 12.0
INVALID_IMAGE: Final = frozenset((200, 209, 218, 222, 223))  # of code for another device, or of a newer compiler
OUT_OF_MEMORY, NO_DEVICE, NOT_READY = 2, 100, 600
LOST: Final = frozenset((4, 46, 101, 201, 214, 220, 226, 709, 999))
FAILED: Final = frozenset((700, 702, 710, 713, 714, 715, 716, 717, 718, 719))  # a kernel's faults: all work ends
MAJOR, MINOR = 75, 76  # attributes of a device: its compute capability
MOST_PENDING: Final = 256


class StatusError(Exception):
    """An error number of the driver."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Driver:
    """The loaded driver: `driver("cuInit", 0)` calls an entry point.

    Attributes:
        version: as cuDriverGetVersion counts, 1000 for a major version.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        """Find all entry points.

        Raises:
            DeviceError: [E418] the driver is too old, or has no device.
        """
        self._entries: dict[str, Any] = {}
        for name, kinds in ENTRIES.items():
            entry = getattr(library, name, None)
            if entry is None:
                raise _unusable(f"the driver is too old: it has no {name}", UPDATE)
            entry.argtypes, entry.restype = kinds, c_int
            self._entries[name] = entry
        version = c_int()
        self("cuDriverGetVersion", byref(version))
        self.version = version.value
        if self.version < OLDEST:
            raise _unusable(f"the driver is too old: it is for CUDA {_text(self.version)}", UPDATE)
        try:
            self("cuInit", 0)
        except StatusError as error:
            if error.status == NO_DEVICE:
                raise _unusable("the driver finds no device", "`nvidia-smi` lists devices") from None
            raise _unusable(f"the driver does not start: {self.said(error.status)}", "`nvidia-smi` shows why") from None

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call an entry point.

        Raises:
            StatusError: it failed.
        """
        status = self._entries[name](*arguments)
        if status:
            raise StatusError(status)

    def said(self, status: int) -> str:
        """The name and the text of an error number."""
        name, text = c_char_p(), c_char_p()
        self._entries["cuGetErrorName"](status, byref(name))
        self._entries["cuGetErrorString"](status, byref(text))
        return ", ".join(t.value.decode() for t in (name, text) if t.value) or f"error {status}"


UPDATE: Final = f"a driver for CUDA {OLDEST // 1000}.0 or later"


def _text(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _unusable(what: str, remedy: str) -> DeviceError:
    return DeviceError("E418", what, position=user_position(), remedy=remedy)


@cached(1, stays="with the process: a driver is never unloaded")
def driver() -> Driver:
    """The driver of this computer: PULLBACK_LIBCUDA, or `libcuda.so.1`.

    Raises:
        DeviceError: [E418] there is none, it is too old, or it has no device.
    """
    path = os.environ.get("PULLBACK_LIBCUDA", CUDA.file)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise _unusable(f"there is no driver of CUDA: {error}",
                        'install the driver of your device; `device="cpu"` needs none') from None
    return Driver(library)


@dataclass(frozen=True)
class DeviceEntry:
    """A row of `pb.devices()`.

    Attributes:
        name: the name for `pb.function(device=...)`: "cpu" or "cuda:0".   title: the product name.
        memory: the bytes of memory.   architecture: the compiler's name for it.
    """

    name: str
    title: str
    memory: int
    architecture: str


class Gpu:
    """A device of CUDA with its context and its stream, made on first use and kept.

    Attributes:
        entry: its name, memory and architecture.   number: its number.
        model: the model for estimates.
    """

    def __init__(self, cuda: Driver, number: int) -> None:
        self.driver, self.number = cuda, number
        handle, title, memory = c_int(), ctypes.create_string_buffer(256), c_size_t()
        cuda("cuDeviceGet", byref(handle), number)
        cuda("cuDeviceGetName", title, len(title), handle)
        cuda("cuDeviceTotalMem_v2", byref(memory), handle)
        self._handle = handle
        major, minor = self._attribute(MAJOR), self._attribute(MINOR)
        architecture = f"sm_{major}{minor}" + "a" * (major >= 9)
        self.entry = DeviceEntry(f"cuda:{number}", title.value.decode(), memory.value, architecture)
        self.model: Device = replace(H100, architecture=architecture)  # bits are of the family
        self._pending: deque[tuple[c_void_p, object]] = deque()
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        """The name, such as "cuda:0"."""
        return self.entry.name

    def _attribute(self, which: int) -> int:
        found = c_int()
        self.driver("cuDeviceGetAttribute", byref(found), which, self._handle)
        return found.value

    @cached_property
    def _context(self) -> c_void_p:
        made = c_void_p()
        self.driver("cuDevicePrimaryCtxRetain", byref(made), self._handle)
        return made

    @cached_property
    def stream(self) -> int:
        """The handle of its stream, which all calls share."""
        made = c_void_p()
        with self._lock:
            if "stream" not in self.__dict__:  # no other thread has made it
                self.driver("cuStreamCreate", byref(made), 1)  # 1: it does not wait for others
                self.__dict__["stream"] = made.value or 0
        return int(self.__dict__["stream"])

    @contextmanager
    def current(self, what: str) -> Iterator[Driver]:
        """Make the device current in this thread; errors of the driver become errors with codes.

        Args:
            what: the subject of messages.
        """
        try:
            self.driver("cuCtxPushCurrent_v2", self._context)
            try:
                yield self.driver
            finally:
                self.driver._entries["cuCtxPopCurrent_v2"](byref(c_void_p()))
        except StatusError as error:
            raise self.failure(what, error.status) from None

    def failure(self, what: str, status: int) -> PullbackError:
        """The error for an error number of the driver."""
        said = self.driver.said(status)
        if status in LOST:
            text, remedy = f"{self.name} is lost", "start a new process; `nvidia-smi` shows the state of the device"
        elif status in FAILED:
            text, remedy = (f"a kernel failed on {self.name}",
                            'start a new process, as this one cannot use the device now; `device="cpu"` avoids it')
        else:
            text, remedy = f"the driver of {self.name} refused a step", "another device, or report this"
        return DeviceError("E420", f"{what}: {text}", position=user_position(), facts=[said], remedy=remedy)

    def free_bytes(self) -> tuple[int, int]:
        """The free bytes of memory, and all bytes."""
        free, total = c_size_t(), c_size_t()
        with self.current("memory") as cuda:
            cuda("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate(self, count: int) -> int:
        """Allocate `count` bytes; return their address, 0 for none. The device is current.

        Raises:
            StatusError: there is no memory.
        """
        made = c_uint64()
        if count:
            self.driver("cuMemAllocAsync", byref(made), count, self.stream)
        return made.value

    def free(self, at: int, shared: bool) -> None:
        """Free memory after the queued work: of all streams if another library has used the memory."""
        with self.current("memory") as cuda:
            if shared:
                cuda("cuCtxSynchronize")
                cuda("cuMemFree_v2", at)
            else:
                cuda("cuMemFreeAsync", at, self.stream)

    def send(self, to: int, array: NDArray) -> None:
        """Copy a contiguous array to the device, which is current. The array may be changed right after."""
        if array.nbytes:
            own = array.copy()
            self.driver("cuMemcpyHtoDAsync_v2", to, address(own), own.nbytes, self.stream)
            self.keep(own)

    def fetch(self, array: NDArray, at: int) -> None:
        """Copy memory to an array, and wait. The device is current."""
        if array.nbytes:
            self.driver("cuMemcpyDtoHAsync_v2", address(array), at, array.nbytes, self.stream)
        self.driver("cuStreamSynchronize", self.stream)

    def keep(self, what: object) -> None:
        """Keep an object until the work queued so far is done. The device is current."""
        cuda, pending = self.driver, self._pending
        done: list[object] = []  # freed after the lock
        with self._lock:
            pending.append((self.event(), what))
            while pending:
                status = cuda._entries["cuEventQuery"](pending[0][0])
                if status == NOT_READY and len(pending) > MOST_PENDING:
                    cuda("cuStreamSynchronize", self.stream)
                elif status:
                    break
                event, held = pending.popleft()
                done.append(held)
                cuda("cuEventDestroy_v2", event)

    def event(self) -> c_void_p:
        """Record an event that follows the work queued so far. The device is current."""
        made = c_void_p()
        self.driver("cuEventCreate", byref(made), 2)  # 2: without a time
        self.driver("cuEventRecord", made, self.stream)
        return made

    def follow(self, stream: int) -> None:
        """Make another stream wait for the work queued so far."""
        with self.current("stream") as cuda:
            done = self.event()
            cuda("cuStreamWaitEvent", stream, done, 0)
            cuda("cuEventDestroy_v2", done)

    def wait(self) -> None:
        """Wait for the work queued so far."""
        with self.current("wait") as cuda:
            cuda("cuStreamSynchronize", self.stream)


@cached(1, stays="with the process: arrays and programs are on these devices")
def gpus() -> tuple[Gpu, ...]:
    """The devices of the driver.

    Raises:
        DeviceError: [E418] see `driver`.
    """
    cuda, count = driver(), c_int()
    try:
        cuda("cuDeviceGetCount", byref(count))
        return tuple(Gpu(cuda, k) for k in range(count.value))
    except StatusError as error:
        raise _unusable(f"the driver does not start: {cuda.said(error.status)}", "`nvidia-smi` shows why") from None


def gpu(name: str) -> Gpu:
    """The device of a name such as "cuda:0".

    Raises:
        DeviceError: [E418] there is no such device, or no driver.
    """
    with single_flight("gpus"):
        found = {g.name: g for g in gpus()}
    if name not in found:
        raise _unusable(f"there is no device {name}", f"one of {', '.join(found)}")
    return found[name]


def devices() -> list[DeviceEntry]:
    """List the devices of this computer that functions run on, the processor first.

    Returns:
        A row for each device: `name`, `title`, `memory` in bytes, `architecture`. Without a driver of CUDA, or if it
        finds no device, the processor is the only row.

    >>> pb.devices()[0].name
    'cpu'
    """
    import platform

    host = DeviceEntry("cpu", platform.processor() or platform.machine(), _host_bytes(), platform.machine())
    try:
        return [host, *(g.entry for g in gpus())]
    except DeviceError:
        return [host]


def _host_bytes() -> int:
    """Bytes of the processor's memory; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
