"""CUDA's devices: its driver by ctypes.

The driver is loaded on first use. `ENTRIES` and `MEASURING` have every entry point that is called from Python. The host
program of a function calls others (`codegen/device/drivers.py`).
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, Structure, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cached_property
from typing import Any, Final

from pullback.codegen.device.drivers import CUDA
from pullback.codegen.device.program import DeviceProgram
from pullback.device import cuda_model
from pullback.errors import DeviceError
from pullback.runtime.buffer import NDArray, address
from pullback.runtime.device.driver import DeviceEntry, Gpu, StatusError, unusable
from pullback.runtime.device.nvrtc import compiled
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
    "cuMemcpy2DAsync_v2": (_P, _P),
    "cuMemcpyPeerAsync": (_ADDRESS, _P, _ADDRESS, _P, c_size_t, _P),
    "cuStreamCreate": (_A(_P), c_uint),
    "cuStreamSynchronize": (_P,),
    "cuStreamWaitEvent": (_P, _P, c_uint),
    "cuEventCreate": (_A(_P), c_uint),
    "cuEventRecord": (_P, _P),
    "cuEventQuery": (_P,),
    "cuEventDestroy_v2": (_P,),
}
MEASURING: Final[dict[str, tuple[Any, ...]]] = {  # only the tuner calls these
    "cuEventElapsedTime": (_A(c_float), _P, _P),
    "cuEventSynchronize": (_P,),
    "cuGraphDestroy": (_P,),
    "cuGraphExecDestroy": (_P,),
    "cuGraphInstantiateWithFlags": (_A(_P), _P, c_uint64),
    "cuGraphLaunch": (_P, _P),
    "cuStreamBeginCapture_v2": (_P, c_int),
    "cuStreamDestroy_v2": (_P,),
    "cuStreamEndCapture": (_P, _A(_P)),
}
PEERS: Final = "cuMemcpyPeerAsync"  # the one that a driver may lack: then copies go through the host
OLDEST: Final = 12_000  # the oldest driver, as cuDriverGetVersion counts: CUDA 12.0
INVALID_IMAGE: Final = frozenset((200, 209, 218, 222, 223))  # of code for another device, or of a newer compiler
NO_DEVICE: Final = 100
MAJOR, MINOR = 75, 76  # attributes of a device: its compute capability
MULTIPROCESSORS: Final = 16
MOST_SHARED: Final = 97  # and the bytes of shared memory that a group may request
ON_DEVICE: Final = 2  # the kind of memory


class _Rows(Structure):
    """CUDA_MEMCPY2D: a copy of rows, each `pitch` bytes behind the one before."""

    _side = ("x", c_size_t), ("y", c_size_t), ("kind", c_int), ("host", _P), ("at", _ADDRESS), ("array", _P), (
        "pitch", c_size_t)  # fmt: skip
    _fields_ = (*((f"from_{n}", t) for n, t in _side), *((f"to_{n}", t) for n, t in _side), ("width", c_size_t),
                ("count", c_size_t))  # fmt: skip


class Driver:
    """The loaded driver: `driver("cuInit", 0)` calls an entry point.

    Attributes:
        version: as cuDriverGetVersion counts, 1000 for a major version.
        has_peers: whether devices copy from each other.   measures: whether kernels can be measured.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        """Find all entry points.

        Raises:
            DeviceError: [E418] the driver is too old, or has no device.
        """
        self._entries: dict[str, Any] = {}
        for name, kinds in (ENTRIES | MEASURING).items():
            entry = getattr(library, name, None)
            if entry is None and (name == PEERS or name in MEASURING):
                continue
            if entry is None:
                raise unusable(f"the driver is too old: it has no {name}", UPDATE)
            entry.argtypes, entry.restype = kinds, c_int
            self._entries[name] = entry
        version = c_int()
        self("cuDriverGetVersion", byref(version))
        self.version = version.value
        self.has_peers = PEERS in self._entries
        self.measures = MEASURING.keys() <= self._entries.keys()
        if self.version < OLDEST:
            raise unusable(f"the driver is too old: it is for CUDA {_text(self.version)}", UPDATE)
        try:
            self("cuInit", 0)
        except StatusError as error:
            if error.status == NO_DEVICE:
                raise unusable("the driver finds no device", "`nvidia-smi` lists devices") from None
            raise unusable(f"the driver does not start: {self.said(error.status)}", "`nvidia-smi` shows why") from None

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call an entry point.

        Raises:
            StatusError: it failed.
        """
        status = self._entries[name](*arguments)
        if status:
            raise StatusError(status, name)

    def said(self, status: int) -> str:
        """The name and the text of an error number."""
        name, text = c_char_p(), c_char_p()
        self._entries["cuGetErrorName"](status, byref(name))
        self._entries["cuGetErrorString"](status, byref(text))
        return ", ".join(t.value.decode() for t in (name, text) if t.value) or f"error {status}"


UPDATE: Final = f"a driver for CUDA {OLDEST // 1000}.0 or later"


def _text(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


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
        raise unusable(f"there is no driver of CUDA: {error}",
                        'install the driver of your device; `device="cpu"` needs none') from None
    return Driver(library)


class CudaGpu(Gpu):
    """A device of CUDA with its primary context, which all libraries share."""

    kind, tool, keeps = "cuda", "nvidia-smi", True
    full = frozenset((2,))
    lost = frozenset((4, 46, 101, 201, 214, 220, 226, 709, 999))
    failed = frozenset((700, 702, 710, 713, 714, 715, 716, 717, 718, 719))  # all work ends

    def __init__(self, cuda: Driver, number: int) -> None:
        self.driver = cuda
        handle, title, memory = c_int(), ctypes.create_string_buffer(256), c_size_t()
        cuda("cuDeviceGet", byref(handle), number)
        cuda("cuDeviceGetName", title, len(title), handle)
        cuda("cuDeviceTotalMem_v2", byref(memory), handle)
        self._handle, self.has_peers = handle, cuda.has_peers
        major, minor = self._attribute(MAJOR), self._attribute(MINOR)
        architecture = f"sm_{major}{minor}" + "a" * (major >= 9)
        entry = DeviceEntry(f"cuda:{number}", title.value.decode(), memory.value, architecture)
        super().__init__(number, entry, cuda_model(architecture, self._attribute(MOST_SHARED)))
        about = 1 << round(math.log2(max(1, self._attribute(MULTIPROCESSORS))))
        self.family = f"{architecture} with about {about} multiprocessors" if cuda.measures else ""

    @property
    def opening(self) -> tuple[str, tuple[Any, ...]]:
        """The function that opens a program, and its last arguments."""
        return "open", (c_int(self.number),)

    def _attribute(self, which: int) -> int:
        found = c_int()
        self.driver("cuDeviceGetAttribute", byref(found), which, self._handle)
        return found.value

    @cached_property
    def _context(self) -> c_void_p:
        made = c_void_p()
        self.driver("cuDevicePrimaryCtxRetain", byref(made), self._handle)
        return made

    def _new_stream(self) -> int:
        made = c_void_p()
        self.driver("cuStreamCreate", byref(made), 1)  # 1: it does not wait for others
        return made.value or 0

    @contextmanager
    def _entered(self) -> Iterator[None]:
        self.driver("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self.driver._entries["cuCtxPopCurrent_v2"](byref(c_void_p()))

    def said(self, status: int) -> str:
        """The name of an error number, and the driver's text for it."""
        return self.driver.said(status)

    def image(self, program: DeviceProgram, exact: bool) -> bytes:
        """Compile the kernels, or find their machine code in the cache.

        Raises:
            DeviceError: [E419] there is no compiler, or it fails.
        """
        options = ("--fmad=false",) * exact
        return compiled(program.kernels, self.entry.architecture, self.driver.version, options)

    def refusal(self, name: str, status: int, library: ctypes.CDLL) -> DeviceError | None:
        """The error for machine code that the driver does not take; None if `status` means something else."""
        if status not in INVALID_IMAGE:
            return None
        return DeviceError("E419", f"{name}: the driver of {self.name} does not take the machine code",
                           position=user_position(), facts=[self.said(status)],
                           remedy="a newer driver, or an older NVRTC: `pip install nvidia-cuda-nvrtc-cu12`")

    def free_bytes(self) -> tuple[int, int]:
        """The free bytes of memory, and all bytes."""
        free, total = c_size_t(), c_size_t()
        with self.current("memory"):
            self.driver("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def reserve(self, count: int) -> None:
        """Do nothing: the driver refuses what does not fit."""

    def begin(self) -> None:
        """Do nothing: the driver begins with work when it is queued."""

    def allocate(self, count: int) -> int:
        """Allocate `count` bytes; return their address, 0 for none.

        Raises:
            StatusError: there is no memory.
        """
        made = c_uint64()
        if count:
            self.driver("cuMemAllocAsync", byref(made), count, self.stream)
        return made.value

    def free(self, at: int, count: int, shared: bool) -> None:
        """Free memory after the queued work: of all streams if another library has used the memory."""
        with self.current("memory"):
            if shared:
                self.driver("cuCtxSynchronize")
                self.driver("cuMemFree_v2", at)
            else:
                self.driver("cuMemFreeAsync", at, self.stream)

    def send(self, to: int, array: NDArray) -> None:
        """Copy a contiguous array to the device. The array may be changed right after."""
        if array.nbytes:
            own = array.copy()
            self.driver("cuMemcpyHtoDAsync_v2", to, address(own), own.nbytes, self.stream)
            self.keep_array(own)

    def fetch(self, array: NDArray, at: int) -> None:
        """Copy memory to an array, and wait."""
        if array.nbytes:
            self.driver("cuMemcpyDtoHAsync_v2", address(array), at, array.nbytes, self.stream)
        self._finish()

    def copy(self, to: int, at: int, count: int) -> None:
        """Copy `count` bytes on the device."""
        self.driver("cuMemcpyDtoDAsync_v2", to, at, count, self.stream)

    def copy_apart(self, to: int, to_pitch: int, at: int, pitch: int, width: int, count: int) -> None:
        """Copy `count` elements of `width` bytes on the device; a pitch is from one element to the next."""
        if count:
            rows = _Rows(from_kind=ON_DEVICE, from_at=at, from_pitch=pitch, to_kind=ON_DEVICE, to_at=to,
                         to_pitch=to_pitch, width=width, count=count)  # fmt: skip
            self.driver("cuMemcpy2DAsync_v2", byref(rows), self.stream)

    @classmethod
    def meet(cls, gpus: Sequence[Gpu], what: str) -> None:
        """Let streams wait for each other; the host does not wait."""
        done = []
        for gpu in gpus:
            with gpu.current(what):
                done.append(gpu._event())
        for gpu in gpus:
            with gpu.current(what):
                for other, event in zip(gpus, done, strict=True):
                    if other is not gpu:
                        driver()("cuStreamWaitEvent", gpu.stream, event, 0)
        for gpu, event in zip(gpus, done, strict=True):
            with gpu.current(what):
                gpu._drop(event)

    def pull(self, to: int, source: Gpu, at: int, count: int, what: str) -> None:
        """Copy memory of another device; the host does not wait if the driver copies between devices."""
        if not self.has_peers:
            super().pull(to, source, at, count, what)
            return
        assert isinstance(source, CudaGpu)
        with self.current(what):
            self.driver(PEERS, to, self._context, at, source._context, count, self.stream)

    def follow(self, stream: int) -> None:
        """Make a stream of another library wait for the work queued so far; -1 is none."""
        if stream == -1:
            return
        with self.current("stream"):
            done = self._event()
            self.driver("cuStreamWaitEvent", stream, done, 0)
            self._drop(done)

    def _finish(self) -> None:
        self.driver("cuStreamSynchronize", self.stream)

    def _event(self) -> c_void_p:
        made = c_void_p()
        self.driver("cuEventCreate", byref(made), 2)  # 2: without a time
        self.driver("cuEventRecord", made, self.stream)
        return made

    def _is_done(self, event: c_void_p) -> bool:
        return not self.driver._entries["cuEventQuery"](event)  # errors come later, with a call

    def _drop(self, event: c_void_p) -> None:
        self.driver("cuEventDestroy_v2", event)


@cached(1, stays="with the process: arrays and programs are on these devices")
def gpus() -> tuple[CudaGpu, ...]:
    """The devices of the driver.

    Raises:
        DeviceError: [E418] see `driver`.
    """
    cuda, count = driver(), c_int()
    try:
        cuda("cuDeviceGetCount", byref(count))
        return tuple(CudaGpu(cuda, k) for k in range(count.value))
    except StatusError as error:
        raise unusable(f"the driver does not start: {cuda.said(error.status)}", "`nvidia-smi` shows why") from None
