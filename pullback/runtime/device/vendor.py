"""Libraries of NVIDIA that compute kernels of programs, found by `dlopen`. Programs run without them.

A library is the one that its variable names, that of its wheel, or the system's.
"""

from __future__ import annotations

import ctypes
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from ctypes import POINTER, Structure, byref, c_double, c_float, c_int, c_size_t
from ctypes import c_void_p as _P
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pullback.ir.types import DType, f64
from pullback.runtime.device.array import Memory
from pullback.runtime.device.cuda import CudaGpu
from pullback.runtime.device.schedules import say
from pullback.state import cached


class LibraryStruct(Structure):
    """`struct library` of the host program."""

    _fields_ = (("matmul", _P), ("on", _P), ("handle", _P), ("workspace", _P), ("workspace_bytes", c_size_t),
                ("failed", c_int))  # fmt: skip


class CallStruct(Structure):
    """`struct library_call` of the host program."""

    _fields_ = (("vendor", POINTER(LibraryStruct)), ("convolve", _P), ("what", _P), ("left", _P), ("right", _P),
                ("out", _P), ("how", _P), ("one", _P), ("zero", _P), ("algorithm", c_int))  # fmt: skip


class LibraryError(Exception):
    """Raised when a library refuses a step."""


class DeviceLibrary(ABC):
    """A loaded library: `library("cublasLtCreate", …)` calls an entry point.

    Attributes:
        name: its name in messages.   computes: what it computes.
        file: its file's name without ending.   versions: the endings of the system's files, newest first.
        wheel: the package that has it.   variable: the environment variable with its path.
        version: the entry point that returns its version.   oldest: the oldest version that is used.
        entries: the types of its entry points' arguments.   prefix: of the entry points for handles.
        most: the most bytes of working memory of a call.
    """

    name: str
    computes: str
    file: str
    versions: tuple[str, ...]
    wheel: str
    variable: str
    version: str
    oldest: int
    entries: Mapping[str, tuple[Any, ...]]
    prefix: str
    most: int

    def __init__(self, path: str) -> None:
        """Load the library.

        Raises:
            OSError, AttributeError: it is no such library.   LibraryError: it is too old.
        """
        library = ctypes.CDLL(path)
        version = getattr(library, self.version)
        version.restype = c_size_t
        if (found := version()) < self.oldest:
            raise LibraryError(f"{path} has the version {found}, and {self.oldest} is the oldest that is used")
        self._entries: dict[str, Any] = {}
        for name, kinds in self.entries.items():
            entry = getattr(library, name)
            entry.argtypes, entry.restype = kinds, c_int
            self._entries[name] = entry

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call an entry point.

        Raises:
            LibraryError: it failed.
        """
        status = self._entries[name](*arguments)
        if status:
            raise LibraryError(f"{name} of {self.name} fails with status {status}")

    def address(self, name: str) -> int | None:
        """The address of an entry point."""
        return ctypes.cast(self._entries[name], _P).value

    @classmethod
    def places(cls) -> Iterator[str]:
        """The paths where the library may be."""
        if own := os.environ.get(cls.variable):
            yield own
            return
        found = find_spec("nvidia")
        for folder in (found.submodule_search_locations or ()) if found else ():
            yield from map(str, sorted(Path(folder).glob(f"*/lib/{cls.file}.so.*"), reverse=True))
        yield from (f"{cls.file}.so{ending}" for ending in cls.versions)

    @abstractmethod
    def prepare(self, owner: Prepared, call: Any) -> tuple[CallStruct, int]:
        """Choose how to compute a kernel.

        Returns:
            The call for the host program, without its library, and the bytes of working memory that it needs.
        Raises:
            LibraryError: it fails, or cannot compute the kernel.
        """

    @abstractmethod
    def begin(self, struct: LibraryStruct) -> None:
        """Store the entry points that the host program calls."""


@cached(2, stays="with the process: a library is never unloaded")
def loaded(kind: type[DeviceLibrary]) -> DeviceLibrary | None:
    """A library; None, with a warning, if there is none that can be used."""
    why = f"{kind.name} is not found: `pip install {kind.wheel}`, or {kind.variable} with the path of {kind.file}"
    for path in kind.places():
        try:
            return kind(path)
        except LibraryError as error:
            why = str(error)
        except (OSError, AttributeError) as error:
            if os.environ.get(kind.variable):
                why = f"{path} is no {kind.name}: {error}"
    say(f"{why}; {kind.computes} have the kernels of Pullback")
    return None


class Prepared:
    """The kernels of a program that one library computes.

    Attributes:
        vendor: the library.   struct: `struct library`.   handle: the library's own.
    """

    def __init__(self, gpu: CudaGpu, library: DeviceLibrary) -> None:
        """Make the library's handle.

        Raises:
            LibraryError: it fails.
        """
        self.vendor = library
        self._gpu = gpu
        self._made: list[tuple[str, _P]] = []
        self._kept: list[Any] = []
        self.struct = LibraryStruct()
        self.handle = self.own()
        self.struct.handle = self.handle
        library.begin(self.struct)

    def own(self, before: str = "", *arguments: Any, after: str = "") -> _P:
        """A handle that the library makes now and destroys at the end.

        Args:
            before, after: the parts of the entry points' names around "Create" and "Destroy".
        """
        handle, before = _P(), f"{self.vendor.prefix}{before}"
        self.vendor(f"{before}Create{after}", byref(handle), *arguments)
        self._made.append((f"{before}Destroy{after}", handle))
        return handle

    def keep(self, value: Any) -> _P:
        """The address of a value, which lives as long as this object."""
        self._kept.append(value)
        return ctypes.cast(byref(value), _P)

    def factors(self, dtype: DType) -> tuple[_P, _P]:
        """The numbers 1 and 0 that sums are scaled by."""
        number: Callable[[int], Any] = c_double if dtype is f64 else c_float
        return self.keep(number(1)), self.keep(number(0))

    def allocate(self, count: int) -> None:
        """Allocate working memory."""
        if count:
            memory = Memory(self._gpu, count, f"the workspace of {self.vendor.name}")
            self.struct.workspace, self.struct.workspace_bytes = memory.at, count
            self._kept.append(memory)

    def close(self) -> None:
        """Give everything back, after the device has done its work."""
        with self._gpu.current(self.vendor.name):
            while self._made:
                name, handle = self._made.pop()
                self.vendor(name, handle)
