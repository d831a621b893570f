"""The text of OpenCL and its host program, run on the first device that OpenCL has here.

PoCL is such a device. It runs kernels on the processor: Debian has it as `pocl-opencl-icd`. Oclgrind is another, which
interprets kernels and reports races.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pullback.codegen.device.program import DeviceProgram
from pullback.loops.program.nodes import Function
from pullback.runtime.buffer import address
from tests.support.devices.threads import Ran

COUNTER: Final = "unsigned long launches_so_far;\n"
LAUNCH: Final = "cl.EnqueueNDRangeKernel("
INSTALL: Final = "apt-get install pocl-opencl-icd ocl-icd-libopencl1"


@cache
def missing() -> str:
    """The reason why no OpenCL program can run here; empty if one can."""
    if "POCL_CACHE_DIR" not in os.environ:
        os.environ["POCL_CACHE_DIR"] = folder = tempfile.mkdtemp(prefix="pocl-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        library = ctypes.CDLL("libOpenCL.so.1")
    except OSError:
        return f"there is no libOpenCL.so.1: {INSTALL}"
    count = ctypes.c_uint(0)
    status = library.clGetPlatformIDs(0, None, ctypes.byref(count))
    return f"OpenCL has no platform here: {INSTALL}" if status or not count.value else ""


def oclgrind() -> dict[str, str]:
    """The environment of a process in which Oclgrind is the only device; empty where it is not installed."""
    found = shutil.which("oclgrind")
    driver = Path(found or "").resolve().parents[1] / "lib" / "oclgrind" / "liboclgrind-rt-icd.so"
    return {"OCL_ICD_VENDORS": str(driver), "OCLGRIND_DATA_RACES": "1"} if found and driver.exists() else {}


class Loaded:
    """A program that is compiled and open on the first device.

    Raises:
        ValueError: it cannot be opened; the message has the code and the compiler's messages.
    """

    def __init__(self, program: DeviceProgram, function: Function, folder: Path) -> None:
        self.function = function
        host = COUNTER + program.host.replace(LAUNCH, f"++launches_so_far, {LAUNCH}")
        files = {"kernels.cl": program.kernels, f"{program.name}.c": host, f"{program.name}.h": program.header}
        for name, text in files.items():
            (folder / name).write_text(text)
        flags = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, f"{program.name}.c", "-o", "program.so", "-ldl"], cwd=folder, check=True)
        library = ctypes.CDLL(str(folder / "program.so"))
        self._launches = ctypes.c_ulong.in_dll(library, "launches_so_far")
        self._call, self._close = library[program.name], library[f"{program.name}_close"]
        self._checks = any(launch.checks for launch in program.launches)
        self._self = ctypes.c_void_p()
        status = library[f"{program.name}_open"](ctypes.byref(self._self), program.kernels.encode() + b"\0", 0)
        if status:
            messages = library[f"{program.name}_messages"]
            messages.restype = ctypes.c_char_p
            raise ValueError(f"{status}: {messages().decode(errors='replace')}")

    def __call__(self, inputs: Sequence[NDArray[Any]]) -> Ran:
        """Run it on arrays of the host."""
        shapes = [[i.constant or 0 for i in b.shape] for b in self.function.outputs]
        outputs = [np.zeros(s, b.dtype.numpy) for s, b in zip(shapes, self.function.outputs, strict=True)]
        fault = np.zeros(2, np.int64)
        given = [np.ascontiguousarray(a, b.dtype.numpy) for a, b in zip(inputs, self.function.given, strict=True)]
        arrays = [*given, *outputs, *[fault] * self._checks]
        status = self._call(self._self, *(ctypes.c_void_p(address(a)) for a in arrays))
        return Ran(outputs, status, f"{fault[0]} {fault[1]}", "")

    @property
    def launches(self) -> int:
        """The number of launches so far."""
        return int(self._launches.value)

    def close(self) -> None:
        """Give everything back."""
        self._close(self._self)


@contextmanager
def loaded(program: DeviceProgram, function: Function) -> Iterator[Loaded]:
    """Compile and open a program."""
    with tempfile.TemporaryDirectory() as folder:
        made = Loaded(program, function, Path(folder))
        try:
            yield made
        finally:
            made.close()


def ran(program: DeviceProgram, function: Function, inputs: Sequence[NDArray[Any]]) -> Ran:
    """Run a program once."""
    with loaded(program, function) as call:
        return call(inputs)
