"""The host program of a device program, compiled and called in this process with the driver for tests."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.codegen.device.program import DeviceProgram
from pullback.loops.program.nodes import Function
from pullback.runtime.buffer import address
from tests.support.devices import fake


class Results(NamedTuple):
    """The results of a call, what it returned, and the index and size of a failed check."""

    arrays: list[NDArray[Any]]
    status: int
    fault: tuple[int, int]


class Hosted:
    """A host program that is open on device 0; to be used in a `with` block.

    Attributes:
        status: the return value of opening it.
    """

    def __init__(self, program: DeviceProgram, function: Function, image: bytes) -> None:
        self._function, self._name = function, program.name
        self._checks = any(launch.checks for launch in program.launches)
        self._library = _library(program)
        self._handle = ctypes.c_void_p()
        self.status: int = self._entry("_open")(ctypes.byref(self._handle), image, 0)

    def __call__(self, inputs: Sequence[NDArray[Any]]) -> Results:
        """Call it with arrays of the host."""
        outputs = [np.zeros([i.constant or 0 for i in b.shape], b.dtype.numpy) for b in self._function.outputs]
        fault = np.zeros(2, np.int64)
        given = [*map(np.ascontiguousarray, inputs), *outputs, *[fault] * self._checks]
        status = self._entry()(self._handle, *(ctypes.c_void_p(address(a)) for a in given))
        return Results(outputs, status, (int(fault[0]), int(fault[1])))

    def _entry(self, suffix: str = "") -> Any:
        return getattr(self._library, f"{self._name}{suffix}")

    def __enter__(self) -> Hosted:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._handle.value:
            self._entry("_close")(self._handle)
        self._handle = ctypes.c_void_p()


def hosted(program: DeviceProgram, function: Function, *options: str) -> Hosted:
    """Compile a host program and its kernels with NVRTC's `options`, and open it on device 0."""
    return Hosted(program, function, fake.compiled(program.kernels, "sm_90a", *options))


def _library(program: DeviceProgram) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{program.name}.c").write_text(program.host)
        (Path(folder) / f"{program.name}.h").write_text(program.header)
        strict = ["-std=gnu99", "-O0", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        command = ["gcc", *strict, f"{program.name}.c", "-o", "host.so", "-ldl"]
        subprocess.run(command, cwd=folder, check=True)
        return ctypes.CDLL(f"{folder}/host.so")
