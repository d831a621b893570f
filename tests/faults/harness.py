"""Processes in which the n-th call of the operating system fails: the test's side.

A `Zygote` is an interpreter that has imported everything, under the layer of `layer.c`. For each run it forks a process
that does one operation of `operations.py` on the files of one folder.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
SHORT, KILL, KILL_GROUP = -1, -2, -3
SECONDS: Final = 120  # for one run
_HEAD, _FOLDER, _NAMES, _NAME = 6 * 8, 512, 4096, 16  # as `Control` of layer.c has them


@dataclass(frozen=True)
class Fault:
    """The n-th counted call fails.

    Attributes:
        at: which call, from 1.
        kind: an error number, SHORT for half a write, KILL or KILL_GROUP; 0 counts calls only.
        stays: whether all later calls fail as well.
    """

    at: int = 0
    kind: int = 0
    stays: bool = False

    def __str__(self) -> str:
        words = {0: "none", SHORT: "short", KILL: "kill", KILL_GROUP: "kill group"}
        return f"call {self.at}: {words.get(self.kind) or os.strerror(self.kind)}{', for good' if self.stays else ''}"


@dataclass
class Outcome:
    """The end of one run.

    Attributes:
        status: the exit status of the process, negative for a signal.
        result: of the operation; None where it raised or never came to its end.
        code: of the package's own error.
        trace: of any other error.
        warnings: their texts.
        calls: the counted calls, by name.
    """

    status: int
    result: Any = None
    code: str | None = None
    trace: str | None = None
    warnings: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    @property
    def is_coded(self) -> bool:
        """Whether it came to its end, or raised an error of the package."""
        return self.status == 0 and self.trace is None


class Control:
    """The file that all processes of a zygote share."""

    def __init__(self, path: Path) -> None:
        size = _HEAD + _FOLDER + _NAMES * _NAME
        if not path.exists():
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), size)

    def set(self, folder: Path, fault: Fault, clock: int) -> None:
        """Count from zero in this folder; not armed yet."""
        self.memory[:_HEAD] = struct.pack("6q", 0, fault.kind, fault.at, fault.stays, 0, clock)
        self.memory[_HEAD : _HEAD + _FOLDER] = os.fsencode(folder).ljust(_FOLDER, b"\0")
        self.memory[_HEAD + _FOLDER :] = bytes(_NAMES * _NAME)

    def arm(self, armed: bool = True) -> None:
        """From now on calls count."""
        self.memory[:8] = struct.pack("q", armed)

    @property
    def calls(self) -> list[str]:
        """The counted calls, by name."""
        (count,) = struct.unpack("q", self.memory[32:40])
        begin = _HEAD + _FOLDER
        names = (self.memory[begin + k * _NAME : begin + (k + 1) * _NAME] for k in range(min(count, _NAMES)))
        return [n.rstrip(b"\0").decode() for n in names]


class Zygote:
    """A warm interpreter under the layer."""

    def __init__(self, work: Path) -> None:
        layer = work / "layer.so"
        source = Path(__file__).with_name("layer.c")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", str(source), "-o", str(layer), "-ldl"], check=True)
        self.control = Control(work / "control")
        environment = {**os.environ, "LD_PRELOAD": str(layer), "FAULTS_CONTROL": str(work / "control"),
                       "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        environment.pop("PULLBACK_VERIFY", None)
        self.process = subprocess.Popen([sys.executable, "-m", "tests.faults.zygote"], cwd=ROOT, env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._answer() == {"ready": True}

    def run(self, operation: str, folder: Path, fault: Fault = Fault(), clock: int = 0, **options: Any) -> Outcome:
        """Do an operation in a process of its own.

        Args:
            operation: a function of `operations.py`.
            folder: the folder under test, its argument.
            fault: the call that fails.
            clock: seconds by which the clock of the day is ahead.
            options: environment variables; `limits`, a dict of names of RLIMITs and numbers; `user`, whose process
                it is.
        """
        self.control.set(folder, fault, clock)
        asked = {"operation": operation, "folder": str(folder), "seconds": SECONDS, **options}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return Outcome(**self._answer(), calls=self.control.calls)

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS + 60)
        assert ready, "the zygote does not answer"
        line = self.process.stdout.readline()
        assert line, "the zygote is gone"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process."""
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait(30)


@contextmanager
def zygote() -> Iterator[tuple[Zygote, Path]]:
    """A zygote, and a folder for what it works on."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        os.chmod(name, 0o755)  # for other users
        made = Zygote(Path(name))
        try:
            yield made, Path(name)
        finally:
            made.end()


def digest(folder: Path, times: bool = True) -> str:
    """A digest of all files below a folder: names, modes, contents, times of change."""
    found = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.rglob("*")):
        s = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found.update(f"{path.relative_to(folder)} {s.st_mode} {s.st_mtime_ns if times else 0}\n".encode() + content)
    return found.hexdigest()


def fresh(folder: Path, template: Path | None = None) -> Path:
    """Make a folder anew, as a copy of a template."""
    shutil.rmtree(folder, ignore_errors=True)
    if template is None:
        folder.mkdir()
    else:
        shutil.copytree(template, folder, symlinks=True)
    return folder
