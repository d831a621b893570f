"""Devices as arrays and calls see them, whatever the driver is.

A subclass of `Gpu` has the entry points of its driver: `cuda.py`, `opencl.py`. Error numbers are those of the driver
without their sign, as host programs return them.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from pullback.codegen.device.dialect import DIALECTS, DeviceWords
from pullback.codegen.device.program import DeviceProgram
from pullback.device import Device
from pullback.errors import DeviceError, PullbackError
from pullback.source import user_position

if TYPE_CHECKING:
    import ctypes

    from pullback.runtime.buffer import NDArray

MOST_PENDING: Final = 256
SMALL, MOST_SMALL = 1 << 16, 32  # the bytes of small arrays, and how many share an event
KEPT: Final = 16  # this part of a device's memory is kept when arrays are freed


class StatusError(Exception):
    """An error number of a driver, and the entry point that returned it."""

    def __init__(self, status: int, step: str) -> None:
        super().__init__(status, step)
        self.status, self.step = status, step


@dataclass(frozen=True)
class DeviceEntry:
    """A row of `pb.devices()`.

    Attributes:
        name: the name for `pb.function(device=...)`: "cpu", "cuda:0" or "opencl:0".   title: the product name.
        memory: the bytes of memory.   architecture: the compiler's name for it.
    """

    name: str
    title: str
    memory: int
    architecture: str


def unusable(what: str, remedy: str) -> DeviceError:
    """The error for a driver or a device that is not there, or too old."""
    return DeviceError("E418", what, position=user_position(), remedy=remedy)


class Gpu(ABC):
    """A device of a driver, with a context and a stream that are made on first use and kept.

    Methods raise `StatusError` for errors of the driver, and need `current` around them, unless they say otherwise.

    Attributes:
        kind: the driver's part of the name.   tool: a program that shows devices.
        full, lost, failed: error numbers: of missing memory, of a lost device, and of a kernel that failed.
        largest: the most bytes of an allocation.
        entry: its name, memory and architecture.   number: its number.   model: the model for estimates.
        opening: the function of a host program that opens it here, and the last arguments of this function.
        keeps: whether freed memory is kept for later arrays.
        has_peers: whether devices copy from each other; otherwise copies go through the host.
        family: the devices that share measured schedules; empty if kernels are not measured.
    """

    kind: ClassVar[str]
    tool: ClassVar[str]
    full: ClassVar[frozenset[int]]
    lost: ClassVar[frozenset[int]]
    failed: ClassVar[frozenset[int]]
    largest = sys.maxsize
    keeps: ClassVar[bool] = False
    has_peers = False
    family = ""

    def __init__(self, number: int, entry: DeviceEntry, model: Device) -> None:
        self.number, self.entry, self.model = number, entry, model
        self._pending: deque[tuple[Any, object]] = deque()
        self._small: list[NDArray] = []
        self._kept: dict[int, list[int]] = {}
        self._kept_bytes = 0
        self._most_kept = entry.memory // KEPT * self.keeps
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        """The name, such as "cuda:0"."""
        return self.entry.name

    @property
    def words(self) -> DeviceWords:
        """The language of its kernels."""
        return DIALECTS[self.kind]

    @property
    @abstractmethod
    def opening(self) -> tuple[str, tuple[Any, ...]]:
        """See the class."""

    @cached_property
    def stream(self) -> int:
        """The handle of its stream, which all calls share."""
        with self._lock:
            if "stream" not in self.__dict__:  # no other thread has made it
                self.__dict__["stream"] = self._new_stream()
        return int(self.__dict__["stream"])

    @contextmanager
    def current(self, what: str) -> Iterator[None]:
        """Make the device current in this thread; errors of the driver become errors with codes.

        Args:
            what: the subject of messages.
        """
        try:
            with self._entered():
                yield
        except StatusError as error:
            raise self.failure(what, error.status, error.step) from None

    def failure(self, what: str, status: int, step: str = "a step of the host program") -> PullbackError:
        """The error for an error number that a step of the driver returned."""
        if status in self.lost:
            text, remedy = f"{self.name} is lost", f"start a new process; `{self.tool}` shows the state of the device"
        elif status in self.failed:
            text, remedy = (f"a kernel failed on {self.name}",
                            'start a new process, as this one cannot use the device now; `device="cpu"` avoids it')
        else:
            text, remedy = f"the driver of {self.name} refused {step}", "another device, or report this"
        return DeviceError("E420", f"{what}: {text}", position=user_position(), facts=[self.said(status)],
                           remedy=remedy)  # fmt: skip

    def kept(self, count: int) -> int:
        """Take a block of `count` bytes that was freed before; return 0 if there is none.

        The work queued so far may still use the block, and later work comes after it. It is the block with the lowest
        address: then the addresses of a repeated call depend only on which blocks are free, and soon repeat.
        """
        try:
            found = heappop(self._kept[count])
        except (KeyError, IndexError):
            self._kept_bytes = sum(n * len(blocks) for n, blocks in self._kept.copy().items())  # exact again
            return 0
        self._kept_bytes -= count  # another thread may be here, too
        return found

    def release(self, at: int, count: int, shared: bool) -> None:
        """Keep a block for later arrays, or free it; see `free`."""
        if shared or self._kept_bytes + count > self._most_kept:
            self.free(at, count, shared)
        else:
            self._kept_bytes += count
            heappush(self._kept.setdefault(count, []), at)

    def trim(self) -> bool:
        """Free the memory that is kept; return whether there was any. Errors have codes."""
        kept, self._kept, self._kept_bytes = self._kept, {}, 0
        blocks = [(blocks.pop(), count) for count, blocks in kept.items() for _ in range(len(blocks))]
        for at, count in blocks:
            self.free(at, count, shared=False)
        if blocks:
            self.wait()  # before that the driver keeps it
        return bool(blocks)

    def keep(self, what: object) -> None:
        """Keep an object until the work queued so far is done."""
        pending = self._pending
        done: list[object] = []  # freed after the lock
        with self._lock:
            pending.append((self._event(), what))
            while pending:
                if not self._is_done(pending[0][0]):
                    if len(pending) <= MOST_PENDING:
                        break
                    self._finish()
                event, held = pending.popleft()
                done.append(held)
                self._drop(event)

    def keep_array(self, array: NDArray) -> None:
        """Keep an array that the work queued so far reads; small ones are kept until there are several."""
        if array.nbytes > SMALL:
            self.keep(array)
            return
        with self._lock:
            self._small.append(array)
            if len(self._small) < MOST_SMALL:
                return
            several, self._small = self._small, []
        self.keep(several)

    def wait(self, what: str = "wait") -> None:
        """Wait for the work queued so far; errors have codes, and begin with `what`."""
        with self.current(what):
            self._finish()

    @classmethod
    def meet(cls, gpus: Sequence[Gpu], what: str) -> None:
        """Let the work queued from now on, on any of these devices, follow the work queued so far on all.

        Args:
            gpus: devices of this driver.   what: the subject of messages. Errors have codes.
        """
        for gpu in gpus:
            gpu.wait(what)

    def pull(self, to: int, source: Gpu, at: int, count: int, what: str) -> None:
        """Copy `count` bytes of another device of the driver here, after `meet`.

        Args:
            to: the memory here.   source, at: the other device, and its memory.   what: the subject of messages.
        Errors have codes. The host waits for the other device unless the device `has_peers`.
        """
        array = np.empty(count, np.uint8)
        with source.current(what):
            source.fetch(array, at)
        with self.current(what):
            self.send(to, array)

    def follow(self, stream: int) -> None:
        """Make a stream of another library wait for the work queued so far; errors have codes.

        Args:
            stream: the stream; -1 for none.
        Raises:
            DeviceError: [E422] the driver's devices cannot be shared. [E420] the device failed.
        """
        raise self._unshared()

    def copy(self, to: int, at: int, count: int) -> None:
        """Copy `count` bytes on the device to memory that other libraries share.

        Raises:
            DeviceError: [E422] see `follow`.
        """
        raise self._unshared()

    def copy_apart(self, to: int, to_pitch: int, at: int, pitch: int, width: int, count: int) -> None:
        """Copy `count` elements on the device between arrays shared with other libraries and others.

        Args:
            to_pitch, pitch: the bytes from one element to the next.   width: the bytes of an element.
        Raises:
            DeviceError: [E422] see `follow`.
        """
        raise self._unshared()

    def _unshared(self) -> DeviceError:
        return DeviceError("E422", f"other libraries cannot share arrays on {self.name}", position=user_position(),
                           remedy="`x.numpy()` copies the array to the host")  # fmt: skip

    @abstractmethod
    def reserve(self, count: int) -> None:
        """Note that a host program allocates `count` bytes, or frees them if below 0.

        Raises:
            StatusError: there is no memory.
        """

    @abstractmethod
    def begin(self) -> None:
        """Let the device begin with the queued work, if the driver would wait for more; errors have codes."""

    @abstractmethod
    def said(self, status: int) -> str:
        """The name of an error number, and the driver's text for it."""

    @abstractmethod
    def image(self, program: DeviceProgram, exact: bool) -> bytes:
        """The kernels as a host program takes them; errors have codes.

        Raises:
            DeviceError: [E419] they cannot be compiled.   CompilerError: [E417] the device cannot run them.
        """

    @abstractmethod
    def refusal(self, name: str, status: int, library: ctypes.CDLL) -> DeviceError | None:
        """The error for kernels that a host program could not load; None if `status` means something else."""

    @abstractmethod
    def free_bytes(self) -> tuple[int, int]:
        """The free bytes of memory, and all bytes; errors have codes."""

    @abstractmethod
    def allocate(self, count: int) -> int:
        """Allocate `count` bytes; return their handle, 0 for none."""

    @abstractmethod
    def free(self, at: int, count: int, shared: bool) -> None:
        """Free memory after the queued work; errors have codes.

        Args:
            shared: whether another library has used the memory.
        """

    @abstractmethod
    def send(self, to: int, array: NDArray) -> None:
        """Copy a contiguous array to the device. The array may be changed right after."""

    @abstractmethod
    def fetch(self, array: NDArray, at: int) -> None:
        """Copy memory to an array, and wait."""

    @abstractmethod
    def _entered(self) -> AbstractContextManager[None]:
        """Make the device current in this thread."""

    @abstractmethod
    def _new_stream(self) -> int:
        """Make a stream."""

    @abstractmethod
    def _finish(self) -> None:
        """Wait for the work queued so far."""

    @abstractmethod
    def _event(self) -> Any:
        """Record an event that follows the work queued so far."""

    @abstractmethod
    def _is_done(self, event: Any) -> bool:
        """Whether the work before an event is done."""

    @abstractmethod
    def _drop(self, event: Any) -> None:
        """Free an event."""
