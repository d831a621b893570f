"""Compilers for WebAssembly: zig, which includes a libm for it, or clang with wasi-libc.

Zig comes from the Python interpreter that `PULLBACK_ZIG` names, from the path, or from the `ziglang` wheel.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pullback.errors import CompilerError
from pullback.state import cached

__all__ = ["compile_wasm", "found", "zig"]

FLAGS: Final = ("-std=gnu99", "-O2", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi", "-mexec-model=reactor")
LINK: Final = ("-Wl,--strip-all", "-Wl,--export=__heap_base", "-Wl,-z,stack-size=262144")
SOUND: Final = "#include <math.h>\nfloat sound(float x) { return expf(x); }\n"
TIMEOUT: Final = 600


@cached(64)
def found(name: str) -> str | None:
    """Find a program of this name, also with a version suffix as on Debian; None if there is none."""
    numbered = (f"{name}-{version}" for version in range(22, 13, -1))
    return next(filter(None, map(shutil.which, (name, *numbered))), None)


def zig() -> tuple[str, ...]:
    """The command for zig; empty if it is not installed."""
    return _zig(os.environ.get("PULLBACK_ZIG"), os.environ.get("PATH"))


@cached(4)
def _zig(python: str | None, path: str | None) -> tuple[str, ...]:
    """The command for these settings."""
    if python:
        return python, "-m", "ziglang"
    if shutil.which("zig", path=path):
        return ("zig",)
    return (sys.executable, "-m", "ziglang") if importlib.util.find_spec("ziglang") else ()


def compile_wasm(files: Mapping[str, str], exported: Sequence[str]) -> bytes:
    """Compile the C files among these to a module without imports that exports these functions.

    Raises:
        CompilerError: [E415] there is no compiler for wasm. [E411] the compiler failed.
    """
    failures = []
    for words in _candidates():
        made, said = _run(words, files, exported)
        if made is not None:
            return made
        able, why = _run(words, {"sound.c": SOUND}, ["sound"])
        if able is not None:
            raise CompilerError(
                "E411",
                f"the C compiler failed: {words[0]}",
                facts=(said,),
                remedy="report this with the text of `c_source`",
            )
        failures.append(f"{words[0]}: {why.partition(chr(10))[0]}")
    raise CompilerError(
        "E415",
        "no C compiler for wasm",
        facts=failures or ["tried zig (PULLBACK_ZIG, the path, ziglang) and clang"],
        remedy="`pip install 'pullback[cc]'`, which brings zig; or Debian's clang, lld and wasi-libc",
    )


def _candidates() -> Iterator[tuple[str, ...]]:
    if zig():
        yield (*zig(), "cc", "-target", "wasm32-wasi", "-mcpu=generic+simd128")
    clang = found("clang")
    if clang:
        yield (clang, "--target=wasm32-wasi", "-msimd128", "-nodefaultlibs", "-lc")


def _run(words: Sequence[str], files: Mapping[str, str], exported: Sequence[str]) -> tuple[bytes | None, str]:
    """Run a compiler; return the module and the compiler's messages."""
    with tempfile.TemporaryDirectory() as folder:
        for file, text in files.items():
            Path(folder, file).write_text(text, encoding="utf-8")
        sources = [file for file in files if file.endswith(".c")]
        ours = [f"-Wl,--export={name}" for name in exported]
        command = [words[0], *words[1:], *FLAGS, *sources, "-o", "module.wasm", *LINK, *ours]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT)
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, str(error)
        made = Path(folder, "module.wasm")
        return (made.read_bytes() if done.returncode == 0 and made.is_file() else None), done.stderr.strip()[-2000:]
