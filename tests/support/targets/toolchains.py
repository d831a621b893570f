"""Compilers and the targets they build for: a row of the table each.

A toolchain is a command, how its programs are run here, and what reads its object files. `clang` finds the libraries
of Debian's cross compilers. `zig` has all it needs with it, from the path or the `ziglang` wheel. The wheel may be
that of another interpreter, which `PULLBACK_ZIG` names, so that the test environment need not have it.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pullback.errors import UsageError
from pullback.wasm import found, zig

HERE: Final = Path(__file__).parent
WARNINGS: Final = ("-Wall", "-Wextra", "-Werror", "-Wunused-function", "-Wundef", "-Wshadow", "-Wvla")
STRICT: Final = ("-std=c99", "-pedantic", "-Wno-psabi", *WARNINGS)  # notes on vectors that no caller sees
CORTEX: Final = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
BOARD: Final = ("--specs=rdimon.specs", str(HERE / "cortex_m.c"), "-T", str(HERE / "cortex_m.ld"))
QEMU: Final = ("qemu-system-arm", "-M", "mps2-an386", "-nographic", "-semihosting", "-kernel")


@dataclass(frozen=True)
class Toolchain:
    """A compiler and a target.

    Attributes:
        compiler: its name for people.   target: likewise.
        command: what compiles and links, without warnings.
        link: more words for linking.
        runners: what may run the program, the first that is here; () is this machine itself, None at the end says that
            it is not run.
        strict: the words that ask for warnings as errors.
        tools: what stands before `nm` and `size`.
        links: whether there are libraries to link with.
    """

    compiler: str
    target: str
    command: tuple[str, ...]
    link: tuple[str, ...] = ("-lm",)
    runners: tuple[tuple[str, ...], ...] = ()
    strict: tuple[str, ...] = STRICT
    tools: str = "llvm-"
    links: bool = True

    @property
    def name(self) -> str:
        """Compiler and target."""
        return f"{self.compiler}, {self.target}"

    @property
    def missing(self) -> str:
        """The missing tool for the toolchain; empty if there is none."""
        if (self.compiler == "zig" or HEADERS in self.command) and not zig():
            return "zig (`pip install ziglang`)"
        return "" if self.compiler == "zig" or found(self.command[0]) else self.command[0]

    @property
    def words(self) -> list[str]:
        """The command as it is called here."""
        first, *rest = self.command
        rest = [headers() if word == HEADERS else word for word in rest]
        return [*(zig() if first == "zig" else (found(first) or first,)), *rest]

    def runner(self) -> list[str] | None:
        """The command that runs its programs here; None if there is none."""
        for words in self.runners:
            if not words or found(words[0]):
                return [found(words[0]) or "", *words[1:]] if words else []
        return None

    def tool(self, name: str) -> str | None:
        """The path of its `nm` or `size`."""
        return found(f"{self.tools}{name}")

    def sound(self) -> str:
        """The reason why a one-line program cannot be built; empty if it can."""
        text = '#include <math.h>\n#include <stdio.h>\nint main(void) { return puts("") < 0; }\n'
        if not self.links:
            return ""
        with tempfile.TemporaryDirectory() as folder:  # some linkers put a file in the place of a device
            words = [*self.words, "-x", "c", "-", "-o", str(Path(folder, "line")), *self.link]
            done = subprocess.run(words, input=text, text=True, capture_output=True, check=False)
        return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no message"])[0]


@cache
def headers() -> str:
    """The folder of zig's C headers for Windows."""
    said = subprocess.run([*zig(), "env"], capture_output=True, text=True, check=False).stdout
    folder = re.search(r'lib_dir"? *[=:] *"([^"]+)"', said)
    return str(Path(folder[1] if folder else "") / "libc" / "include" / "any-windows-any")


def _gcc(target: str, triple: str, emulator: str) -> Toolchain:
    return Toolchain("gcc", target, (f"{triple}-gcc", "-O2"), ("-static", "-lm"), ((emulator,),), tools=f"{triple}-")


def _clang(target: str, triple: str, emulator: str) -> Toolchain:
    command = ("clang", f"--target={triple}", "-O2")
    return Toolchain("clang", target, command, ("-static", "-lm"), ((emulator,),))


def _zig(target: str, triple: str, *runners: tuple[str, ...], more: tuple[str, ...] = ()) -> Toolchain:
    return Toolchain("zig", target, ("zig", "cc", "-target", triple, "-O2", *more), (), runners)


NODE: Final = ("node", "--no-warnings", str(HERE / "wasi.mjs"))
WASM: Final = (("wasmtime",), NODE)
CL: Final = ("clang", "--driver-mode=cl", "--target=x86_64-pc-windows-msvc", "/O2", "-DPB_NO_VECTORS")
HEADERS: Final = "those of Windows, from zig"

TOOLCHAINS: Final = (
    Toolchain("gcc", "x86-64 Linux", ("gcc", "-O2"), runners=((),), tools=""),
    Toolchain("gcc", "x86-64 Linux, all its processor has", ("gcc", "-O3", "-march=native"), runners=((),), tools=""),
    _gcc("aarch64 Linux", "aarch64-linux-gnu", "qemu-aarch64"),
    _gcc("riscv64 Linux", "riscv64-linux-gnu", "qemu-riscv64"),
    _gcc("32-bit ARM Linux, hard float", "arm-linux-gnueabihf", "qemu-arm"),
    Toolchain("gcc", "Cortex-M4, bare", ("arm-none-eabi-gcc", *CORTEX, "-Os"), (*BOARD, "-lm"), (QEMU,),
              tools="arm-none-eabi-"),
    Toolchain("clang", "x86-64 Linux", ("clang", "-O2"), runners=((),)),
    _clang("aarch64 Linux", "aarch64-linux-gnu", "qemu-aarch64"),
    _clang("riscv64 Linux", "riscv64-linux-gnu", "qemu-riscv64"),
    _clang("32-bit ARM Linux, hard float", "arm-linux-gnueabihf", "qemu-arm"),
    Toolchain("tcc", "x86-64 Linux", ("tcc",), runners=((),), strict=("-Wall", "-Werror"), tools=""),
    Toolchain("clang-cl", "x86-64 Windows, MSVC's dialect", (*CL, "-imsvc", HEADERS),
              strict=("/W4", "/WX"), links=False),
    _zig("x86-64 Linux", "x86_64-linux-musl", ()),
    _zig("aarch64 Linux", "aarch64-linux-musl", ("qemu-aarch64",)),
    _zig("riscv64 Linux", "riscv64-linux-musl", ("qemu-riscv64",)),
    _zig("32-bit ARM Linux, hard float", "arm-linux-musleabihf", ("qemu-arm",)),
    _zig("aarch64 macOS", "aarch64-macos"),
    _zig("x86-64 macOS", "x86_64-macos"),
    _zig("x86-64 Windows", "x86_64-windows-gnu", ("wine64",), ("wine",)),
    _zig("wasm32", "wasm32-wasi", *WASM),
    _zig("wasm32 with SIMD", "wasm32-wasi", *WASM, more=("-mcpu=generic+simd128",)),
)  # fmt: skip


def selected(words: Sequence[str]) -> list[Toolchain]:
    """The toolchains with one of the words in their names; all for no words.

    Raises:
        UsageError: [E610] a word that is in no name.
    """
    for word in words:
        if not any(word.lower() in t.name.lower() for t in TOOLCHAINS):
            names = "; ".join(t.name for t in TOOLCHAINS)
            raise UsageError(
                "E610",
                f"--only: there is no compiler or target {word!r}",
                facts=[f"there are {names}"],
                remedy="--only gcc",
            )
    return [t for t in TOOLCHAINS if not words or any(w.lower() in t.name.lower() for w in words)]
