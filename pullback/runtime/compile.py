"""From C text to a shared library: the compiler, its flags, and a cache keyed by content.

The compiler is `CC`, else `cc`, `gcc` or `clang` from the path, else the `ziglang` wheel. A library is found again by
a digest of the text, the compiler with its version, the flags and the features of the processor; it is written
beside its place and moved there with `os.replace`, so readers need no lock. Where the cache folder cannot be
written, a folder of this process takes its place, with one warning.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import sys
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pullback.errors import CompilerError

if TYPE_CHECKING:
    import subprocess

FLAGS: Final = ("-std=gnu99", "-O2", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
                "-fPIC", "-shared")
GCC_FLAGS: Final = (
    "-ftree-vectorize", "-fvect-cost-model=dynamic",  # what clang's -O2 does by itself
    "-fno-inline-functions-called-once", "-fno-inline-small-functions",  # a kernel has the registers to itself
)
EXACT_FLAGS: Final = ("-ffp-contract=off",)
LIBRARIES: Final = ("-lm",)
TIMEOUT: Final = 600


@dataclass(frozen=True)
class Compiler:
    """A C compiler: the words that start it, and what it says about its version."""

    command: tuple[str, ...]
    version: str

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags a library is compiled with: fast to compile, and fast as kernels are vectors already."""
        is_clang = "clang" in self.version.lower() or "zig" in " ".join(self.command)
        return FLAGS if is_clang else FLAGS + GCC_FLAGS


def cache_folder() -> Path:
    """`PULLBACK_CACHE_DIR`, else the user's cache folder."""
    own = os.environ.get("PULLBACK_CACHE_DIR")
    if own:
        return Path(own)
    import platformdirs

    return Path(platformdirs.user_cache_dir("pullback", appauthor=False))


def compiler_command() -> tuple[str, ...] | None:
    """The words that start the compiler, None where there is none."""
    return _command(os.environ.get("CC"), os.environ.get("PATH"))


@lru_cache(maxsize=16)
def _command(cc: str | None, path: str | None) -> tuple[str, ...] | None:
    if cc:
        words = shlex.split(cc)
        found = shutil.which(words[0]) if words else None
        if found is None:
            return None
        return (found, *words[1:])
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name, path=path)
        if found is not None:
            return (found,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    return None


def find_compiler() -> Compiler:
    """The compiler with its version.

    Raises:
        CompilerError: [E410] there is none.
    """
    command = compiler_command()
    if command is None:
        cc = os.environ.get("CC")
        what = f"no C compiler: CC={cc} does not exist" if cc else "no C compiler: tried CC, cc, gcc, clang and ziglang"
        raise CompilerError("E410", what, remedy="install gcc or clang, or `pip install ziglang`")
    return Compiler(command, _version(command))


@lru_cache(maxsize=16)
def _version(command: tuple[str, ...]) -> str:
    """What `--version` says; kept on disk under the program's path, size and time of change."""
    program = os.path.realpath(command[0])
    stat = os.stat(program)
    key = json.dumps([command, program, stat.st_size, stat.st_mtime_ns])
    record = cache_folder() / "compilers" / hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    try:
        return record.read_text()
    except (OSError, UnicodeDecodeError):
        pass
    result = _run((*command, "--version"))
    version = result.stdout.partition("\n")[0].strip() if result.returncode == 0 else "unknown"
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        put_file(record, version.encode())
    except OSError:
        pass
    return version


@lru_cache(maxsize=1)
def cpu_features() -> str:
    """What the processor can do, as far as the system tells: libraries are built for this machine alone."""
    out = [sys.platform, platform.machine()]
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            out += [line.split(":", 1)[1].strip() for line in f.read(16384).splitlines()
                    if line.startswith(("model name", "flags", "Features"))][:2]
    except OSError:
        out.append(platform.processor())
    return "\n".join(out)


def native_vector_bytes() -> int:
    """The size of this processor's vectors."""
    words = set(cpu_features().split())
    return 64 if "avx512f" in words else 32 if words & {"avx", "avx2"} else 16


def compiled_library(text: str, more: tuple[str, ...] = ()) -> Path:
    """The shared library made from C text, compiled now or found in the cache.

    Raises:
        CompilerError: [E410] there is no compiler. [E411] the compiler failed.
    """
    compiler = find_compiler()
    flags = (*compiler.flags, *more)
    digest = _digest(text, compiler, flags)
    name = f"{digest}.so"
    for folder in (cache_folder(), *_spare_folders):
        path = folder / "libraries" / digest[:2] / name
        if path.is_file():
            return path
    return build_library(text, more)


def build_library(text: str, more: tuple[str, ...] = ()) -> Path:
    """Compile the text, whether or not the cache has it."""
    import tempfile

    compiler = find_compiler()
    flags = (*compiler.flags, *more)
    digest = _digest(text, compiler, flags)
    folder = _writable_folder(digest)
    target = folder / f"{digest}.so"
    with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as work:
        source, library = Path(work, "program.c"), Path(work, "program.so")
        source.write_text(text, encoding="utf-8")
        command = (*compiler.command, *flags, str(source), "-o", str(library), *LIBRARIES)
        result = _run(command)
        if result.returncode != 0 or not library.is_file():
            raise CompilerError(
                "E411", f"the C compiler failed with status {result.returncode}: {shlex.join(compiler.command)}",
                facts=(_excerpt(result.stderr),),
                remedy="report this with the text of `c_source`; meanwhile set PULLBACK_BACKEND=interpreter")
        os.replace(library, target)
    return target


def _digest(text: str, compiler: Compiler, flags: tuple[str, ...]) -> str:
    parts = (text, *compiler.command, compiler.version, *flags, cpu_features())
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=20).hexdigest()


def put_file(path: Path, data: bytes) -> None:
    """Write a file at once: readers see the old one or the new one."""
    import tempfile

    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as f:
        f.write(data)
    os.replace(name, path)


_spare_folders: list[Path] = []


def _writable_folder(digest: str) -> Path:
    """The folder a library goes to; a folder of this process where the cache cannot be written."""
    import tempfile

    for root in (cache_folder(), *_spare_folders):
        folder = root / "libraries" / digest[:2]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                with tempfile.TemporaryFile(dir=folder):
                    return folder
        except OSError:
            continue
    warnings.warn(f"the cache folder {cache_folder()} cannot be written: compiled functions are kept for this process "
                  "only (set PULLBACK_CACHE_DIR to a folder that can)", RuntimeWarning, stacklevel=2)
    spare = tempfile.TemporaryDirectory(prefix="pullback-")
    _keep.append(spare)
    _spare_folders.append(Path(spare.name))
    folder = _spare_folders[-1] / "libraries" / digest[:2]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


_keep: list[object] = []  # removed when the process ends


def _run(command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    import subprocess

    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False,
                              stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerError("E411", f"the C compiler could not be run: {shlex.join(command[:3])}: {error}",
                            remedy="set CC to a working compiler") from error


def _excerpt(text: str, limit: int = 2000) -> str:
    text = text.strip() or "it said nothing"
    return text if len(text) <= limit else text[:limit] + " ..."
