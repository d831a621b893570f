"""The kernels of a program that libraries compute."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

from pullback.errors import OutOfMemoryError
from pullback.grid.called import LibraryConvolution, LibraryProduct
from pullback.loops.program.vendor import LibraryCall
from pullback.runtime.device.cublas import CublasLt
from pullback.runtime.device.cuda import CudaGpu
from pullback.runtime.device.cudnn import Cudnn
from pullback.runtime.device.driver import Gpu
from pullback.runtime.device.schedules import say
from pullback.runtime.device.vendor import CallStruct, DeviceLibrary, LibraryError, Prepared, loaded

KINDS: Final[dict[type[LibraryCall], type[DeviceLibrary]]] = {LibraryProduct: CublasLt, LibraryConvolution: Cudnn}


class LibraryCalls:
    """The calls of libraries by a host program.

    Attributes:
        array: the calls, an array of `struct library_call`.
    """

    def __init__(self, gpu: CudaGpu, wanted: Sequence[LibraryCall], name: str) -> None:
        """Ask libraries how to compute kernels. What they cannot compute is reported."""
        self._gpu, self._name = gpu, name
        self.array: Any = (CallStruct * len(wanted))()
        self._used: list[Prepared] = []
        for kind, library in KINDS.items():
            own = {k: call for k, call in enumerate(wanted) if isinstance(call, kind)}
            if own and (found := loaded(library)) is not None:
                self._prepare(found, own)

    def _prepare(self, library: DeviceLibrary, wanted: dict[int, LibraryCall]) -> None:
        """Prepare the kernels of one library."""
        rest = f"its kernels compute {library.computes} on {self._gpu.name}"
        calls, most = dict[int, CallStruct](), 0
        try:
            with self._gpu.current(library.name):
                own = Prepared(self._gpu, library)
        except LibraryError as error:
            say(f"{self._name}: {error}; {rest}")
            return
        self._used.append(own)
        for k, call in wanted.items():
            try:
                with self._gpu.current(library.name):
                    calls[k], count = library.prepare(own, call)
                most = max(most, count)
            except LibraryError as error:
                say(f"{self._name}: {error}; {rest}")
        try:
            own.allocate(most)
        except OutOfMemoryError as error:
            say(f"{self._name}: {error.what}; {rest}")
            return
        for k, made in calls.items():
            made.vendor = ctypes.pointer(own.struct)
            self.array[k] = made

    @property
    def some(self) -> bool:
        """Whether libraries compute any kernel."""
        return any(call.vendor for call in self.array)

    @property
    def failed(self) -> bool:
        """Whether a library has failed in a call; kernels compute its part from then on."""
        return any(own.struct.failed for own in self._used)

    def report(self) -> None:
        """Warn of libraries that failed in a call."""
        for own in self._used:
            if own.struct.failed:
                say(
                    f"{self._name}: {own.vendor.name} fails with status {own.struct.failed}; kernels compute "
                    f"{own.vendor.computes} on {self._gpu.name}"
                )

    def close(self) -> None:
        """Give everything back, after the device has done its work."""
        for own in self._used:
            own.close()


def library_calls(gpu: Gpu, wanted: Sequence[LibraryCall], name: str) -> LibraryCalls | None:
    """The kernels of a program that libraries compute; None, after a warning, if they compute none."""
    if not wanted or not isinstance(gpu, CudaGpu):
        return None
    made = LibraryCalls(gpu, wanted, name)
    if made.some:
        return made
    made.close()
    return None
