"""Compilation of C text to a shared library: the compiler and its flags.

The compiler is `CC`, else `cc`, `gcc` or `clang` from the path, else the `ziglang` wheel. The cache key of a library
(`runtime/cache.py`) is a digest of the text, the compiler with its version, the flags and the features of the
processor. Text in several units is compiled by as many processes as there are processors. Each unit has its own cache
key.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pullback.clock import note_stage, stage, unrecorded
from pullback.codegen.c import build
from pullback.codegen.c.build import DEBUG_FLAGS, LIBRARIES, PLAIN_FLAGS
from pullback.errors import CompilerError
from pullback.machine import cpu_features, processors
from pullback.records import dataclass
from pullback.runtime.cache import find, give_up, keep, keep_file, work_folder, writable_folders
from pullback.single_flight import is_under_way, single_flight
from pullback.state import cached

if TYPE_CHECKING:
    import subprocess
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
TIMEOUT: Final = 600
SAID: Final = re.compile(r"^(?:.*[/\\])?(?:program|unit\d+)\.c:\d+(?::\d+)?: error: ", re.MULTILINE)  # in the C
DISK_WORDS: Final = {
    errno.ENOSPC: ("No space left on device", "Disk quota exceeded"),
    errno.EFBIG: ("File too large", "File size limit exceeded"),
}


@dataclass(frozen=True)
class Compiler:
    """A C compiler: its command, its version text, and a digest that changes with its file."""

    command: tuple[str, ...]
    version: str
    digest: str

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of a library: quick to compile, and fast, because kernels are already vectors."""
        return build.flags(self.command, self.version)


class RefusedError(CompilerError):
    """The compiler found an error in the text; the same text gives the same error again."""


def compiler_command() -> tuple[str, ...] | None:
    """The command of the compiler, or None if there is no compiler."""
    try:
        here = os.getcwd()
    except OSError:  # the current folder was removed
        here = os.sep
    return _command(os.environ.get("CC"), os.environ.get("PATH"), here)


@cached(16)
def _command(cc: str | None, path: str | None, here: str) -> tuple[str, ...] | None:
    """The compiler command for these settings; paths are made absolute, as compilers run in other folders."""
    if cc:
        try:
            words = [cc] if os.path.isfile(cc) else shlex.split(cc)
        except ValueError:  # an unterminated quotation
            return None
        found = shutil.which(words[0]) if words else None
        if found is None:
            return None
        rest = (os.path.join(here, w) if os.sep in w and os.path.isfile(w) else w for w in words[1:])
        return (os.path.join(here, found), *rest)
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name, path=path)
        if found is not None:
            return (os.path.join(here, found),)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    return None


def find_compiler() -> Compiler:
    """The compiler with its version.

    Raises:
        CompilerError: [E410] there is no compiler.
    """
    command = compiler_command()
    if command is None:
        cc = os.environ.get("CC")
        why = f"CC={cc} names no program" if cc else "tried CC, cc, gcc, clang and ziglang"
        raise CompilerError("E410", f"no C compiler: {why}", remedy="install gcc or clang, or `pip install ziglang`")
    return Compiler(command, *_version(command))


@cached(16)
def _version(command: tuple[str, ...]) -> tuple[str, str]:
    """The output of `--version`, cached on disk by a digest of path, size and modification time."""
    program = os.path.realpath(command[0])
    stat = os.stat(program)
    key = json.dumps([command, program, stat.st_size, stat.st_mtime_ns])
    digest = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    known = find("compilers", digest)
    if known is not None:
        return known.content.decode(), digest
    result = _ended((*command, "--version"))
    if result.returncode != 0:  # a temporary failure is not cached
        return "unknown", digest
    version = result.stdout.partition("\n")[0].strip()
    keep("compilers", digest, version.encode())
    return version, digest


@dataclass(frozen=True)
class Units:
    """Files of one library. With `straight`, the first file only calls and is compiled unoptimized."""

    first: str
    others: tuple[str, ...]
    straight: bool = False

    def all(self, flags: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
        """Each file with its flags."""
        return [(self.first, (*flags, "-O0") if self.straight else flags), *((u, flags) for u in self.others)]


Text = str | Units


def compiled_library(text: Text, more: tuple[str, ...] = ()) -> Path:
    """The shared library of a C text, compiled now or found in the cache.

    Args:
        text: one unit, or several.
        more: flags after the usual ones; PLAIN_FLAGS and DEBUG_FLAGS replace them.

    Raises:
        CompilerError: [E410] there is no compiler. [E411] the compiler failed. [E412] no folder can be written.
    """
    with stage("find library"):
        compiler = find_compiler()
        key = _digest(text, compiler, _flags(compiler, more))
        found = find("libraries", key)
        if found is not None:
            return found.path
    with single_flight((compiled_library, key)):
        found = find("libraries", key)  # another thread has made it meanwhile
        return build_library(text, more) if found is None else found.path


def build_library(text: Text, more: tuple[str, ...] = ()) -> Path:
    """Compile the text even if it is cached; the units of a multi-unit text may come from the cache."""
    compiler = find_compiler()
    flags = _flags(compiler, more)
    key = _digest(text, compiler, flags)
    with stage("C compiler"):
        for root in writable_folders():
            try:
                return _make(text, compiler, flags, root, key)
            except OSError as error:
                give_up(root, error)
    raise AssertionError("the last folder raises")


def _flags(compiler: Compiler, more: tuple[str, ...]) -> tuple[str, ...]:
    alone = any(more[: len(f)] == f for f in (PLAIN_FLAGS, DEBUG_FLAGS))
    return more if alone else (*compiler.flags, *more)


def _make(text: Text, compiler: Compiler, flags: tuple[str, ...], root: Path, key: str) -> Path:
    """Make a library; raise OSError if the folder cannot be written."""
    with work_folder(root) as work:
        library = work / "program.so"
        if isinstance(text, str):
            (work / "program.c").write_text(text, encoding="utf-8")
            sources = ["program.c"]
        else:
            sources = [str(o) for o in _objects(text.all(flags), compiler, root, work)]
        start = time.perf_counter()
        _run((*compiler.command, *flags, "-shared", *sources, "-o", library.name, *LIBRARIES), work, library)
        note_stage("  link" if len(sources) > 1 else "  unit 1", time.perf_counter() - start)
        return keep_file(root, "libraries", key, library, ".so")


def _objects(units: Sequence[tuple[str, tuple[str, ...]]], compiler: Compiler, root: Path, work: Path) -> list[Path]:
    """An object for each unit with its flags, compiled now or found in the cache."""
    keys = [_digest(u, compiler, flags) for u, flags in units]
    known = [find("objects", key) for key in keys]
    objects = [Path() if found is None else found.path for found in known]
    missing = [k for k, found in enumerate(known) if found is None]
    # longest first, to balance the processors; those that other threads compile are only waited for
    missing.sort(key=lambda k: (is_under_way((_object, keys[k])), -_work(*units[k])))

    def make(k: int) -> tuple[Path, float]:
        return _object(f"unit{k}", *units[k], keys[k], compiler, root, work)

    for k, (path, seconds) in zip(missing, _each(make, missing), strict=True):
        note_stage(f"  unit {k + 1} of {len(units)}", seconds)
        objects[k] = path
    return objects


def _work(unit: str, flags: tuple[str, ...]) -> float:
    """The work of compiling a unit, in characters of optimized text; others take a tenth."""
    return len(unit) * (0.1 if "-O0" in flags else 1)


def _object(
    name: str, unit: str, flags: tuple[str, ...], key: str, compiler: Compiler, root: Path, work: Path
) -> tuple[Path, float]:
    """The object of a unit, and the seconds it took; another thread may be compiling it."""
    start = time.perf_counter()
    with single_flight((_object, key)):
        found = find("objects", key)  # made meanwhile
        if found is None:
            (work / f"{name}.c").write_text(unit, encoding="utf-8")
            made = work / f"{name}.o"
            _run((*compiler.command, *flags, "-c", f"{name}.c", "-o", made.name), work, made)
            path = keep_file(root, "objects", key, made, ".o")
        return path if found is None else found.path, time.perf_counter() - start


class Ahead:
    """Compiles in other threads what a block will need, while the block still writes the rest.

    Results go to the cache, where `compiled_library` finds them; it waits for those under way. What has not begun at
    the end of the block is dropped. So are failures: whoever needs the result meets them again. With one processor
    nothing is compiled ahead.

    Args:
        more: flags after the usual ones, for units.
    """

    def __init__(self, more: tuple[str, ...] = ()) -> None:
        self._more = more
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def unit(self, text: str) -> None:
        """Compile one of several units, not the first."""
        self._begin(_compile_unit, text, self._more)

    def shared_library(self, text: str, more: tuple[str, ...] = ()) -> None:
        """Compile a library of one unit."""
        self._begin(compiled_library, text, more)

    def _begin(self, make: Callable[[str, tuple[str, ...]], object], text: str, more: tuple[str, ...]) -> None:
        if processors() < 2:
            return
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(processors())
        with suppress(RuntimeError):  # no threads are to be had, or the program ends
            self._pool.submit(copy_context().run, unrecorded, partial(make, text, more))


def _compile_unit(text: str, more: tuple[str, ...]) -> None:
    """Put the object of a unit into the cache."""
    compiler = find_compiler()
    flags = _flags(compiler, more)
    root = next(writable_folders())
    with work_folder(root) as work:
        _object("unit", text, flags, _digest(text, compiler, flags), compiler, root, work)


def _each(make: Callable[[int], T], numbers: Sequence[int]) -> Iterator[T]:
    """The results for some numbers in order, made by as many threads as there are processors."""
    if len(numbers) < 2:
        yield from map(make, numbers)
        return
    from concurrent.futures import ThreadPoolExecutor

    work = copy_context()
    with ThreadPoolExecutor(processors()) as pool:
        try:
            made = pool.map(lambda k: work.copy().run(make, k), numbers)
        except RuntimeError:  # no threads are to be had, or the program ends
            made = map(make, numbers)
        yield from made


def _refuse(command: tuple[str, ...], result: subprocess.CompletedProcess[str]) -> None:
    """Raise an error for a failed compiler: it crashed, the disk is full, or the text has an error."""
    status = result.returncode
    for number, words in DISK_WORDS.items():
        if any(text in result.stderr for text in words):
            raise OSError(number, "the compiler could not write")
    if status < 0 and -status == getattr(signal, "SIGXFSZ", None):
        raise OSError(errno.EFBIG, "the compiler could not write")
    how = f"was killed by signal {-status}" if status < 0 else f"failed with status {status}"
    at_text = status == 1 and SAID.search(result.stderr)
    raise (RefusedError if at_text else CompilerError)(
        "E411", f"the C compiler {how}: {command[0]}", facts=(_excerpt(result.stderr),),
        remedy="report this with the text of `c_source`; meanwhile set PULLBACK_BACKEND=interpreter")


def _digest(text: Text, compiler: Compiler, flags: tuple[str, ...]) -> str:
    units = (text,) if isinstance(text, str) else (text.first, *text.others, str(text.straight))
    parts = (*units, *compiler.command, compiler.version, *flags, cpu_features())
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=20).hexdigest()


def _run(command: tuple[str, ...], work: Path, result: Path) -> None:
    """Run a compiler in a folder.

    Raises:
        CompilerError: [E411] it fails, or there is no result. OSError: the disk is full.
    """
    ended = _ended(command, work)
    if ended.returncode != 0 or not result.is_file():
        _refuse(command, ended)


def _ended(command: tuple[str, ...], work: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A compiler that has ended, run in a folder that holds its temporary files too."""
    import subprocess

    environment = {**os.environ, "LC_ALL": "C"}  # its messages are parsed here
    if work is not None:
        environment["TMPDIR"] = str(work)
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False,
                              stdin=subprocess.DEVNULL, cwd=work, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerError("E411", f"the C compiler could not be run: {shlex.join(command[:3])}: {error}",
                            remedy="set CC to a working compiler") from error


def _excerpt(text: str, limit: int = 2000) -> str:
    text = text.strip() or "it said nothing"
    return text if len(text) <= limit else text[:limit] + " ..."
