"""The text of CUDA and the host program, run as they are on a driver for tests.

Under `-fsanitize=thread` a barrier that is missing is a race, under `-fsanitize=address` an index out of range is an
error of memory.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.codegen.device.program import DeviceProgram
from pullback.loops.program.nodes import Function
from tests.support.devices import fake

CRASHED: Final = -9999
LONG: Final = 60  # seconds


def built(program: DeviceProgram, function: Function, folder: Path, sanitizer: str = "") -> None:
    """Compile the kernels for the driver for tests, and the host program, in a folder."""
    flags = ["-g", *([f"-fsanitize={sanitizer}"] if sanitizer else [])]
    driver = fake.built(flags=("-DSYSTEM_THREADS", *flags))
    (folder / fake.DRIVER).symlink_to(driver)
    kernels = fake.compiled(program.kernels, "sm_90a", "--fmad=false", flags=("-DSYSTEM_THREADS", *flags))
    (folder / "cubin").write_bytes(kernels)
    texts = {f"{program.name}.c": program.host, f"{program.name}.h": program.header, "main.c": _main(program, function)}
    for name, text in texts.items():
        (folder / name).write_text(text)
    strict = ["-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror"]
    command = ["gcc", *strict, *flags, f"{program.name}.c", "main.c", "-o", "main", "-ldl"]
    subprocess.run(command, cwd=folder, check=True)


class Ran(NamedTuple):
    """The results of a run, its return code, a failed check's numbers, and reports of the sanitizer."""

    results: list[NDArray[Any]]
    status: int
    fault: str
    reports: str


def ran(function: Function, inputs: Sequence[NDArray[Any]], folder: Path, **environment: str) -> Ran:
    """Run what was built in a folder."""
    (folder / "inputs").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in inputs))
    there = {**os.environ, "LD_LIBRARY_PATH": str(folder), "ASAN_OPTIONS": "detect_leaks=0",
             "TSAN_OPTIONS": "halt_on_error=1", **environment}  # fmt: skip
    try:
        done = subprocess.run(["./main"], cwd=folder, env=there, capture_output=True, text=True, check=False,
                              timeout=LONG)
    except subprocess.TimeoutExpired:  # threads that take different ways without a barrier wait for ever
        return Ran([], CRASHED, "", "no end")
    outputs = folder / "outputs"
    raw = outputs.read_bytes() if outputs.exists() else b""
    outputs.unlink(missing_ok=True)
    results, at = [], 0
    for b in function.outputs:
        shape = [i.constant or 0 for i in b.shape]
        results.append(np.frombuffer(raw[at : at + b.bytes].ljust(b.bytes, b"\xee"), b.dtype.numpy).reshape(shape))
        at += b.bytes
    status, fault, *_ = [*done.stdout.splitlines(), "", ""]
    return Ran(results, int(status) if status else CRASHED, fault, done.stderr)


def _main(program: DeviceProgram, function: Function) -> str:
    """Call the program; twice under the address sanitizer, which then forbids the gaps between arrays."""
    buffers = [*function.given, *function.outputs]
    checks = any(launch.checks for launch in program.launches)
    arrays = "\n".join(f"    void *a{k} = calloc(1, {max(b.bytes, 1)});" for k, b in enumerate(buffers))
    reads = "\n".join(f"    if ({b.bytes} && fread(a{k}, {b.bytes}, 1, file) != 1) return 3;"
                      for k, b in enumerate(function.given))  # fmt: skip
    first = len(function.given)
    written = [(k, b.bytes) for k, b in enumerate(function.outputs, first) if b.bytes]
    writes = "\n".join(f"    fwrite(a{k}, {size}, 1, file);" for k, size in written)
    call = f"{program.name}({', '.join(['self'] + [f'a{k}' for k in range(len(buffers))] + ['fault'] * checks)})"
    return f"""\
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "{program.name}.h"

static char image[1 << 24];

int main(void) {{
    int64_t fault[2] = {{0, 0}};
{arrays}
    FILE *file = fopen("inputs", "rb");
{reads}
    fclose(file);
    file = fopen("cubin", "rb");
    if (!fread(image, 1, sizeof image, file)) return 3;
    fclose(file);
    struct {program.name} *self;
    int status = {program.name}_open(&self, image, 0);
    if (!status) status = {call};
#ifdef __SANITIZE_ADDRESS__
    if (!status) {{
        void (*forbid_gaps)(void);
        *(void **)&forbid_gaps = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "forbid_gaps");
        forbid_gaps();
        status = {call};
    }}
#endif
    {program.name}_close(self);
    printf("%d\\n%ld %ld\\n", status, (long)fault[0], (long)fault[1]);
    file = fopen("outputs", "wb");
{writes}
    fclose(file);
    return 0;
}}
"""
