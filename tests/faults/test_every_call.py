"""Each call of the operating system fails, in turn: nothing is lost, nothing is wrong, nothing else is touched.

An operation is run once to count its calls: of files in its folder, and of processes that start. Then it is run again
for each of them and for each way in which it can fail: an error number, half a write, the end of the process, the end
of the process with all that it started, a disk that is full and stays so. After each run a healthy process goes on.

Ordinarily a few points of each operation are tried; with PULLBACK_NIGHTLY=1 all of them.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.faults.harness import KILL, KILL_GROUP, SHORT, Fault, Outcome, Zygote, digest, fresh
from tests.faults.operations import LAST, NEW, OLD

NIGHTLY: Final = os.environ.get("PULLBACK_NIGHTLY")
MINUTES: Final = 40  # of an operation, in the nightly form
MOST_SHOWN: Final = 40
FULL: Final = errno.ENOSPC
ERRORS: Final = {
    "open": (errno.EMFILE, errno.EACCES),
    "create": (FULL, errno.EACCES, errno.EMFILE),
    "read": (errno.EIO,),
    "write": (FULL, errno.EIO, SHORT),
    "fwrite": (FULL,),
    "fflush": (FULL,),
    "fclose": (errno.EIO,),
    "fsync": (errno.EIO, FULL),
    "truncate": (errno.EIO,),
    "mmap": (errno.ENOMEM,),
    "dlopen": (errno.ENOMEM,),
    "rename": (FULL, errno.EACCES, errno.EIO),
    "link": (FULL, errno.EPERM),
    "unlink": (errno.EACCES, errno.EIO),
    "rmdir": (errno.EACCES,),
    "mkdir": (FULL, errno.EACCES),
    "chmod": (errno.EPERM,),
    "opendir": (errno.EMFILE, errno.EACCES),
    "fork": (errno.EAGAIN, errno.ENOMEM),
    "exec": (errno.ENOMEM, errno.EACCES),
}
"""The ways in which each call can fail."""
FOLDERS: Final = ("tmp", "work/run", "work/wave", "cache", "state/pullback")
MINE: Final = {f"{folder}/{name}" for folder in FOLDERS for name in (".mine.new", "build-mine")}
"""The user's own files, old ones, beside those of the package."""


@dataclass(frozen=True)
class Operation:
    """An operation under test.

    Attributes:
        name: of the operation in `operations.py`.
        before: operations that make what is there before it.
        check: looks at what is there after a fault; given the zygote, the folder, the outcome and the fault.
        samples: points that are tried ordinarily.
    """

    name: str
    before: tuple[str, ...]
    check: Callable[[Zygote, Path, Outcome, dict[str, str]], None]
    samples: int


def files(folder: Path) -> set[str]:
    """All files below a folder, and empty folders."""
    found = [p for p in folder.rglob("*") if p.is_file() or p.is_symlink() or not any(p.iterdir())]
    return {str(p.relative_to(folder)) for p in found}


def template(z: Zygote, folder: Path, before: Sequence[str]) -> Path:
    """What is there before an operation, with files of the user's own among it."""
    root = fresh(folder)
    for name in FOLDERS:
        (root / name).mkdir(parents=True, mode=0o700)
        for mine in (".mine.new", "build-mine"):
            (root / name / mine).write_text("not yours")
            os.utime(root / name / mine, (1e9, 1e9))
    (root / "cache").chmod(0o700)
    for name in before:
        assert z.run(name, root).status == 0
    return root




def faults(calls: Sequence[str]) -> list[Fault]:
    """All points of an operation."""
    out = []
    for n, name in enumerate(calls, 1):
        out += [Fault(n, kind) for kind in (*ERRORS[name], KILL)]
        if name != "fwrite":
            out.append(Fault(n, KILL_GROUP))
        if FULL in ERRORS[name] and name != "fwrite":
            out.append(Fault(n, FULL, stays=True))
    return out


def survives(z: Zygote, work: Path, operation: Operation) -> None:
    """Run an operation with faults."""
    begun = time.monotonic()
    model = template(z, work / "model", operation.before)
    canary = fresh(work / "canary")
    (canary / "notes.new").write_text("mine")
    untouched, before = digest(canary), contents(model)
    counted = z.run(operation.name, fresh(work / "root", model))
    assert counted.is_coded and counted.code is None, counted
    points = faults(counted.calls)
    chosen = points if NIGHTLY else random.Random(0).sample(points, min(operation.samples, len(points)))
    wrong = []
    for fault in chosen:
        root = fresh(work / "root", model)
        outcome = z.run(operation.name, root, fault)
        try:
            killed = fault.kind in (KILL, KILL_GROUP) and outcome.status == -9
            assert outcome.is_coded or killed, (outcome.trace or "it died").splitlines()[-1]
            operation.check(z, root, outcome, before)
            assert digest(canary) == untouched, "another folder was touched"
            assert files(root) >= MINE, f"lost: {MINE - files(root)}"
        except AssertionError as error:
            first = str(error).partition("\n")[0]
            wrong.append(f"{counted.calls[fault.at - 1]}, {fault} ({outcome.code}): {first}")
        assert time.monotonic() - begun < 60 * MINUTES, f"{len(chosen)} faults took too long"
    print(f"{operation.name}: {len(counted.calls)} calls, {len(chosen)} of {len(points)} faults tried")
    assert not wrong, f"{len(wrong)} of {len(chosen)} faults of {operation.name}:\n" + "\n".join(wrong[:MOST_SHOWN])


def contents(root: Path) -> dict[str, str]:
    """The contents of the files that an operation is to leave as they are, or to replace at once."""
    return {name: (root / name).read_text(errors="replace") for name in files(root) if (root / name).is_file()}


def assert_only(found: set[str], wanted: set[str]) -> None:
    """Besides the user's own there are only these files."""
    assert found - MINE == wanted, f"left behind: {sorted(found - MINE - wanted)}, missing: {sorted(wanted - found)}"


# The operations ---------------------------------------------------------------------------------------------------


def after_compile(z: Zygote, root: Path, outcome: Outcome, before: dict[str, str], name: str = "compile") -> None:
    """What was computed is right; the next process compiles at full speed, the one after it compiles nothing."""
    if outcome.result is not None:
        assert outcome.result["right"]
    healthy = z.run(name, root)
    assert (healthy.result, healthy.warnings) == ({"right": True, "full speed": True}, []), healthy
    if "exec" in healthy.calls:
        healthy = z.run(name, root)
        assert healthy.result == {"right": True, "full speed": True}
        assert "exec" not in healthy.calls
    if leftovers(root):  # go when they are old, and a process compiles
        for path in root.rglob("pullback-*"):
            os.utime(path, (time.time() - 7200,) * 2)
        for path in root.glob("cache/*/*/.*.new"):
            os.utime(path, (time.time() - 7200,) * 2)
        assert z.run("compile_other", root).result["right"]
    assert not leftovers(root), f"left behind: {sorted(leftovers(root))}"


def leftovers(root: Path) -> set[str]:
    """The files that are neither entries nor the secret, in either of its places, nor the user's own."""
    entries = {f for f in files(root) if f.startswith("cache/") and f.count("/") == 3 and "/." not in f}
    return files(root) - entries - MINE - {"state/pullback/secret", "cache/secret"}


def after_units(z: Zygote, root: Path, outcome: Outcome, before: dict[str, str]) -> None:
    """The same for a library of several units."""
    after_compile(z, root, outcome, before, "compile_units")


def after_save(z: Zygote, root: Path, outcome: Outcome, before: dict[str, str]) -> None:
    """The old parameters or the new ones; the new ones where it says so; the next one leaves nothing behind."""
    found = z.run("load", root).result
    assert found == NEW if outcome.status == 0 and outcome.code is None else found in (OLD, NEW)
    assert z.run("save", root).code is None
    assert z.run("load", root).result == NEW
    assert_only(files(root), {"work/p.safetensors"})


def after_training(z: Zygote, root: Path, outcome: Outcome, before: dict[str, str]) -> None:
    """Every checkpoint is whole, those from before are not lost, and training comes to the same bits."""
    right = whole_run(z, root)
    found = z.run("checkpoints", root)
    assert found.is_coded and found.code is None, found
    assert all(right[step] == value for step, value in found.result.items())
    steps = [int(Path(f).stem.partition("-")[2]) for f in before if "step-" in f]
    assert max(map(int, found.result), default=0) >= max(steps, default=0)
    if outcome.result is not None:
        assert outcome.result == right[max(right, key=int)]
    ended = z.run("checkpoint", root)
    assert ended.result == right[max(right, key=int)], ended
    assert_only({f for f in files(root) if "/step-" not in f}, {"work/run/best.safetensors", "work/run/history.csv"})
    assert len([f for f in files(root) if "/step-" in f]) <= 3  # a kill may come between a new one and an old one's end


_WHOLE: dict[Zygote, dict[str, str]] = {}


def whole_run(z: Zygote, root: Path) -> dict[str, str]:
    """The parameters after each epoch of a run that nothing disturbed."""
    if z not in _WHOLE:
        found: dict[str, Any] = {}
        folder = template(z, root.with_name("whole"), ())
        for epoch in range(LAST):
            assert z.run(f"epoch {epoch + 1}", folder).code is None
            found |= z.run("checkpoints", folder).result
        _WHOLE[z] = found
    return _WHOLE[z]


def after_export(z: Zygote, root: Path, outcome: Outcome, before: dict[str, str]) -> None:
    """Each file is the old one or the new one; the next export leaves the new ones, and nothing else."""
    found = contents(root)
    assert z.run("export", root).code is None
    new = contents(root)
    for name, text in found.items():
        if name in new:
            assert text in (before.get(name), new[name])
    if outcome.result is not None:
        assert found == new
    assert_only(set(new), set(before) - MINE)


OPERATIONS: Final = (
    Operation("compile", (), after_compile, 4),
    Operation("compile_units", (), after_units, 2),
    Operation("save", ("saved_old",), after_save, 8),
    Operation("checkpoint", (), after_training, 5),
    Operation("resume", ("epoch 2",), after_training, 5),
    Operation("export", ("exported_old",), after_export, 8),
)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o.name)
def test_survives_every_call(place: tuple[Zygote, Path], operation: Operation) -> None:
    survives(*place, operation)
