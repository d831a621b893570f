"""Kernels from text to machine code by NVRTC, NVIDIA's compiler as a library.

The library is PULLBACK_NVRTC, that of the wheel `nvidia-cuda-nvrtc`, or the system's. Machine code is cached on disk,
as compiled C is. The key is a digest of text, architecture, options and version.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pullback.clock import stage
from pullback.errors import DeviceError
from pullback.ir.identity import digest
from pullback.runtime.cache import find, keep
from pullback.source import user_position
from pullback.state import cached

SYSTEM: Final = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
OPTIONS: Final = ("--std=c++17",)


class Nvrtc:
    """The loaded compiler; `version` is (major, minor)."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        major, minor = c_int(), c_int()
        library.nvrtcVersion(byref(major), byref(minor))
        self.version = major.value, minor.value

    def __str__(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"

    def cubin(self, text: str, architecture: str, options: Sequence[str]) -> tuple[bytes, str]:
        """Compile a text: return machine code, or no bytes for an error, and the compiler's message."""
        rtc, program = self._library, c_void_p()
        rtc.nvrtcCreateProgram(byref(program), text.encode(), b"kernels.cu", 0, None, None)
        given = [f"--gpu-architecture={architecture}".encode(), *(o.encode() for o in options)]
        status = rtc.nvrtcCompileProgram(program, len(given), (c_char_p * len(given))(*given))
        log = self._read(program, "ProgramLog").decode(errors="replace").rstrip("\0")
        cubin = b"" if status else self._read(program, "CUBIN")
        rtc.nvrtcDestroyProgram(byref(program))
        return cubin, log or f"status {status}"

    def _read(self, program: c_void_p, what: str) -> bytes:
        size = c_size_t()
        self._library[f"nvrtcGet{what}Size"](program, byref(size))
        out = ctypes.create_string_buffer(size.value)
        self._library[f"nvrtcGet{what}"](program, out)
        return out.raw


def _places(most: int) -> Iterator[str]:
    """The files to try: wheels for a major version of the driver come first, the latest of them first."""
    own = os.environ.get("PULLBACK_NVRTC")
    if own:
        yield own
        return
    found = find_spec("nvidia")
    folders = [Path(p) for p in (found.submodule_search_locations or [])] if found else []
    files = [f for folder in folders for f in folder.glob("*/lib/libnvrtc.so.*") if f.name.count(".") == 2]
    majors = {f: int(s) for f in files if (s := f.suffix[1:]).isdigit()}
    yield from map(str, sorted(majors, key=lambda f: (majors[f] <= most, majors[f]), reverse=True))
    yield from SYSTEM


@cached(4, stays="with the process: a library is never unloaded")
def compiler(most: int) -> Nvrtc:
    """NVRTC for a driver of the major version `most`.

    Raises:
        DeviceError: [E419] there is none.
    """
    for path in _places(most):
        try:
            return Nvrtc(ctypes.CDLL(path))
        except (OSError, AttributeError):
            continue
    raise DeviceError("E419", "there is no compiler for kernels: NVRTC is not found", position=user_position(),
                      remedy="`pip install 'pullback[cuda]'`, or PULLBACK_NVRTC with the path of libnvrtc")


def compiled(text: str, architecture: str, driver_version: int, options: Sequence[str] = ()) -> bytes:
    """The machine code of kernels, from the cache or new.

    Args:
        driver_version: the driver's, as cuDriverGetVersion counts.

    Raises:
        DeviceError: [E419] there is no compiler, or it fails.
    """
    rtc = compiler(driver_version // 1000)
    options = (*OPTIONS, *options)
    key = digest(text, architecture, str(rtc), os.environ.get("PULLBACK_NVRTC", ""), *options)
    known = find("cubins", key)
    if known is not None:
        return known.content
    with stage("compile kernels"):
        cubin, log = rtc.cubin(text, architecture, options)
    if not cubin:
        raise DeviceError("E419", f"{rtc} does not compile the kernels for {architecture}", facts=[log[:2000]],
                          position=user_position(),
                          remedy="a version of NVRTC that knows the device, or report this with the text of kernels.cu")
    keep("cubins", key, cubin)
    return cubin
