"""Users, clocks, compilers, memory and threads that are not as a program would like them.

Each is small ordinarily; PULLBACK_NIGHTLY=1 tries more of each kind.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.faults.harness import Outcome, Zygote, fresh
from tests.faults.operations import NEW, OLD

NIGHTLY: Final = bool(os.environ.get("PULLBACK_NIGHTLY"))
YEARS: Final = 10 * 365 * 86400
MB: Final = 1 << 20
QUICK: Final = {"right": True, "full speed": True}

Place = tuple[Zygote, Path]


@pytest.fixture
def root(place: Place) -> Path:
    folder = fresh(place[1] / "root")
    for name in ("tmp", "work"):
        (folder / name).mkdir()
    return folder


def is_quick_afterwards(z: Zygote, root: Path, **options: Any) -> None:
    """A healthy process computes at full speed, and the next one compiles nothing."""
    healthy = z.run("compile", root, **options)
    assert (healthy.result, healthy.warnings) == (QUICK, []), healthy
    again = z.run("compile", root, **options)
    assert again.result == QUICK
    assert "exec" not in again.calls


# Users ------------------------------------------------------------------------------------------------------------

VICTIM, ATTACKER = 60001, 60002
MARK: Final = "/tmp/pullback-forged-{}"
FORGED: Final = """
#include <fcntl.h>
__attribute__((constructor)) static void ran(void) { open("%s", O_CREAT | O_WRONLY, 0666); }
"""
LAYOUTS: Final = {  # owner and mode of the cache, of the state folder, of the folders in the cache
    "a cache of another": (ATTACKER, 0o755, VICTIM, 0o700, ATTACKER),
    "a cache that all may write": (VICTIM, 0o777, VICTIM, 0o700, ATTACKER),
    "no state and a cache that nobody may write": (VICTIM, 0o555, 0, 0o755, VICTIM),
    "no state and a cache of another": (ATTACKER, 0o755, 0, 0o755, ATTACKER),
    "a cache that came with other files": (VICTIM, 0o755, VICTIM, 0o700, VICTIM),
    "folders of another in a cache of one's own": (VICTIM, 0o755, VICTIM, 0o700, ATTACKER),
}
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, for other users")


def forged_entry(root: Path, known: Path, mark: Path) -> None:
    """Put entries in the cache that leave a mark when they are loaded, for each key that could be tried."""
    source, library = root / "forged.c", root / "forged.so"
    source.write_text(FORGED % mark)
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    content = library.read_bytes()
    for entry in known.glob("libraries/*/*"):
        key = entry.name.partition("-")[0]
        for secret in (b"", bytes(32)):
            code = hashlib.blake2b(f"libraries\0{key}\0".encode() + content, digest_size=20, key=secret).hexdigest()
            folder = root / "cache" / "libraries" / key[:2]
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{key}-{code}.so").write_bytes(content)
        shutil.copytree(known / "programs", root / "cache" / "programs", dirs_exist_ok=True)


def own(folder: Path, user: int, mode: int) -> None:
    os.chown(folder, user, user)
    folder.chmod(mode)


@needs_root
@pytest.mark.parametrize("name", LAYOUTS if NIGHTLY else ["no state and a cache that nobody may write"])
def test_nothing_of_another_user_is_loaded(place: Place, root: Path, name: str) -> None:
    z, _ = place
    cache, mode, state, state_mode, inner = LAYOUTS[name]
    for folder in (root, root / "tmp", root / "work"):
        own(folder, VICTIM, 0o755)
    assert z.run("compile", root, user=VICTIM).result == QUICK
    (root / "cache").rename(root / "known")
    shutil.rmtree(root / "state")
    (root / "state").mkdir()
    mark = Path(MARK.format(os.getpid()))
    forged_entry(root, root / "known", mark)
    own(root / "state", state, state_mode)
    for path in (root / "cache").rglob("*"):
        os.chown(path, inner, inner)
    own(root / "cache", cache, mode)
    try:
        found = z.run("compile", root, user=VICTIM)
        assert found.result is not None, found
        assert found.result == QUICK
        assert not mark.exists(), "it was loaded"
    finally:
        mark.unlink(missing_ok=True)


@needs_root
def test_a_folder_of_another_user_is_an_error_with_a_code(place: Place, root: Path) -> None:
    z, _ = place
    assert z.run("saved_old", root).code is None
    assert z.run("epoch 1", root).code is None
    own(root / "tmp", VICTIM, 0o700)
    before = z.run("checkpoints", root).result
    for operation in ("save", "checkpoint", "resume", "export"):
        assert z.run(operation, root, user=VICTIM).code in ("E511", "E607"), operation
    assert z.run("load", root).result == OLD
    assert z.run("checkpoints", root).result == before


# Clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [YEARS, -YEARS] if NIGHTLY else [YEARS])
def test_a_clock_that_is_set_back_or_forward(place: Place, root: Path, written: int) -> None:
    z, _ = place
    assert z.run("compile", root, clock=written).result == QUICK
    for path in root.rglob("*"):
        os.utime(path, (path.stat().st_mtime + written,) * 2)
    found = z.run("compile", root)
    assert (found.result, found.warnings) == (QUICK, [])
    assert "exec" not in found.calls
    assert z.run("epoch 2", root, clock=written).code is None
    for path in root.rglob("step-*"):
        os.utime(path, (path.stat().st_mtime + written,) * 2)
    found = z.run("resume", root)
    assert found.code is None
    assert found.result == z.run("checkpoint", fresh(root)).result


# Compilers --------------------------------------------------------------------------------------------------------

GOOD: Final = 'exec gcc "$@"'
BAD: Final = {
    "fails without a word": "exit 1",
    "fails with vectors": 'case "$*" in *-DPB_NO_VECTORS*|*--version*) exec gcc "$@";; *) exit 1;; esac',
    "is killed": 'case "$*" in *--version*) exec gcc "$@";; *) kill -9 $$;; esac',
    "makes nothing": 'case "$*" in *--version*) exec gcc "$@";; *) exit 0;; esac',
    "makes no library": 'case "$*" in *--version*) exec gcc "$@";; *) for o; do :; done; echo no > program.so;; esac',
    "has no room": 'case "$*" in *--version*) exec gcc "$@";; *) echo "No space left on device" >&2; exit 1;; esac',
    "crashes inside": 'case "$*" in *--version*) exec gcc "$@";; *) echo "internal compiler error" >&2; exit 4;; esac',
}


def compiler(path: Path, text: str) -> str:
    """A compiler, in place of an older one: of the same size and time."""
    path.write_text(f"#!/bin/sh\n{text}\n".ljust(200) + "\n")
    path.chmod(0o755)
    os.utime(path, (10**9, 10**9))
    return str(path)


@pytest.mark.parametrize("name", BAD if NIGHTLY else ["fails with vectors"])
def test_a_bad_day_of_the_compiler_is_forgotten(place: Place, root: Path, name: str) -> None:
    z, _ = place
    cc = root / "cc"
    bad = z.run("compile", root, CC=compiler(cc, BAD[name]))
    assert bad.is_coded, bad.trace
    assert bad.code is not None or bad.result["right"]
    is_quick_afterwards(z, root, CC=compiler(cc, GOOD))
    assert z.run("compile", root, CC=compiler(cc, BAD[name])).result == QUICK  # it is in the cache


def test_compilers_that_take_turns(place: Place, root: Path) -> None:
    clang = next((c for c in ("clang", "clang-21", "clang-20", "clang-19") if shutil.which(c)), None)
    if clang is None:
        pytest.skip("clang is not installed")
    z, _ = place
    for _ in range(2):
        for text in (GOOD, f'exec {clang} "$@"'):
            assert z.run("compile", root, CC=compiler(root / "cc", text)).result == QUICK


# Memory, files and processes --------------------------------------------------------------------------------------


def limits() -> Iterator[dict[str, int]]:
    """Limits of processes, from little on."""
    few = not NIGHTLY
    yield from ({"RLIMIT_AS": n * MB} for n in ((48,) if few else (0, 1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)))
    yield from ({"RLIMIT_FSIZE": n << 10} for n in ((8,) if few else (0, 1, 2, 4, 8, 12, 16, 24, 32, 64)))
    yield from ({"RLIMIT_NOFILE": n} for n in ((8,) if few else range(4, 24)))


@pytest.mark.parametrize("limit", list(limits()), ids=str)
def test_little_of_everything(place: Place, root: Path, limit: dict[str, int]) -> None:
    z, _ = place
    found = z.run("compile", root, limits=limit)
    assert is_told(found), found
    if found.result is not None:
        assert found.result["right"]
    is_quick_afterwards(z, root)
    assert z.run("saved_old", root).code is None
    found = z.run("save", root, limits=limit)
    assert is_told(found), found
    assert z.run("load", root).result in ((OLD, NEW) if found.code or found.trace else (NEW,))


def is_told(found: Outcome) -> bool:
    """Whether it came to its end, or raised an error of the package, or Python's own for memory."""
    return found.is_coded or (found.status == 0 and found.trace is not None and "MemoryError" in found.trace)


@pytest.mark.skipif(not NIGHTLY, reason="takes long: PULLBACK_NIGHTLY=1")
@pytest.mark.parametrize("most", [0, 100, 300, 500, 700, 900, 1500, 3000])
def test_large_arrays_in_little_memory(place: Place, root: Path, most: int) -> None:
    z, _ = place
    assert z.run("large", root).result == {"right": True}
    found = z.run("large", root, limits={"RLIMIT_AS": most * MB})
    assert is_told(found), found
    assert found.result in (None, {"right": True})


# Threads ----------------------------------------------------------------------------------------------------------


def test_threads_that_compile_and_call_at_once(place: Place, root: Path) -> None:
    z, _ = place
    found = z.run("threads", root, FAULTS_SECONDS="60" if NIGHTLY else "0.3")
    assert found.is_coded and found.code is None, found
    right, wrong = found.result
    print(f"{right} calls by 8 threads")
    assert (right > 100, wrong) == (True, 0)
