"""NVRTC without a device: CUDA text to a cubin, and what its assembler says of each kernel."""

from __future__ import annotations

import base64
import ctypes
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from pullback.device import H100, MOST_GROUPS

MISSING = "NVRTC is not installed: pip install nvidia-cuda-nvrtc"
ROOT = Path(__file__).resolve().parents[3]
SHARED = 233_472  # bytes of a multiprocessor


@dataclass(frozen=True)
class Resources:
    """A kernel's registers of a thread, bytes beside them, spills, and shared bytes of a group."""

    registers: int
    stack: int
    spills: int
    shared: int

    def occupancy(self, threads: int) -> float:
        """The warps that are on a multiprocessor together, of those that fit at most."""
        warps, most = -(-threads // H100.warp), H100.resident // H100.warp
        rows = -(-self.registers * H100.warp // 256) * 256 * warps
        groups = min(MOST_GROUPS, most // warps, H100.registers // max(rows, 1), SHARED // (self.shared + 1024))
        return groups * warps / most


@cache
def loaded() -> ctypes.CDLL | None:
    """NVRTC of its wheel; None where it is not installed."""
    found = find_spec("nvidia")
    folders = [Path(p) for p in (found.submodule_search_locations or [])] if found else []
    files = sorted(f for folder in folders for f in folder.glob("*/lib/libnvrtc.so.*") if f.name.count(".") == 2)
    return ctypes.CDLL(str(files[-1])) if files else None


def compiled(text: str, architecture: str = "sm_90a", *options: str) -> tuple[bytes, dict[str, Resources]]:
    """The cubin of a text, and the resources of each kernel.

    Raises:
        ValueError: the text does not compile; the message is the compiler's.
    """
    assert loaded() is not None, MISSING
    given = (f"--gpu-architecture={architecture}", "--std=c++17", "--ptxas-options=-v", *options)
    cubin, log = _apart(text, given)
    return cubin, dict(_reported(log))


def _apart(text: str, options: Sequence[str]) -> tuple[bytes, str]:
    """Compile in a process of its own: NVRTC crashes in one that has loaded the driver for tests."""
    command = [sys.executable, "-m", __name__, *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    found: dict[str, str] = json.loads(done.stdout)
    if "error" in found:
        raise ValueError(found["error"])
    return base64.b64decode(found["cubin"]), found["log"]


def image_and_log(rtc: ctypes.CDLL, text: str, options: Sequence[str]) -> tuple[bytes, str]:
    """Compile a text with a library of NVRTC: return the cubin and the compiler's messages.

    Raises:
        ValueError: the text does not compile; the message is the compiler's.
    """
    program, count = ctypes.c_void_p(), len(options)
    assert rtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None) == 0
    status = rtc.nvrtcCompileProgram(program, count, (ctypes.c_char_p * count)(*(o.encode() for o in options)))
    log = _bytes(rtc, program, "ProgramLog").decode(errors="replace").rstrip("\0")
    cubin = b"" if status else _bytes(rtc, program, "CUBIN")
    rtc.nvrtcDestroyProgram(ctypes.byref(program))
    if status:
        raise ValueError(log)
    return cubin, log


def _bytes(rtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    assert rtc[f"nvrtcGet{what}Size"](program, ctypes.byref(size)) == 0
    out = ctypes.create_string_buffer(size.value)
    assert rtc[f"nvrtcGet{what}"](program, out) == 0
    return out.raw


def _reported(log: str) -> list[tuple[str, Resources]]:
    found = []
    for part in log.split("Compiling entry function '")[1:]:
        spills = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        registers, shared = re.search(r"Used (\d+) registers", part), re.search(r"(\d+) bytes smem", part)
        assert spills and registers
        stack, stores, loads = map(int, spills.groups())
        resources = Resources(int(registers[1]), stack, stores + loads, int(shared[1]) if shared else 0)
        found.append((part.partition("'")[0], resources))
    return found


if __name__ == "__main__":
    library = loaded()
    assert library is not None, MISSING
    try:
        image, messages = image_and_log(library, sys.stdin.read(), sys.argv[1:])
        print(json.dumps({"cubin": base64.b64encode(image).decode(), "log": messages}))
    except ValueError as wrong:
        print(json.dumps({"error": str(wrong)}))
