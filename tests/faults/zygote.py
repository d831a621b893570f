"""Processes in which the n-th call of the operating system fails: the side that forks them.

Reads a line of JSON for each run, answers with one. See `harness.py`.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from tests.faults import operations
from tests.faults.harness import Control


def main() -> None:
    """Answer until the input ends."""
    control = Control(Path(os.environ["FAULTS_CONTROL"]))
    operations.warm()
    say({"ready": True})
    for line in sys.stdin:
        say(answer(control, **json.loads(line)))


def say(what: dict[str, Any]) -> None:
    """Answer with a line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def answer(control: Control, seconds: float, **asked: Any) -> dict[str, Any]:
    """Fork a process for a run, and wait for it and for all that it started; what became of it."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        os.setpgid(0, 0)
        work(control, into, **asked)
    os.close(into)
    text = b""
    limit = time.monotonic() + seconds
    try:
        while select.select([out], [], [], max(0, limit - time.monotonic()))[0] and (part := os.read(out, 65536)):
            text += part
        late = time.monotonic() >= limit
    finally:
        os.close(out)
    if late:
        os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    control.arm(False)
    try:
        while True:  # compilers that outlived whoever started them
            os.killpg(child, signal.SIGKILL)
            time.sleep(0.001)
    except ProcessLookupError:
        pass
    if late:
        return {"status": status, "trace": f"no end after {seconds} s"}
    return {"status": status, **(json.loads(text) if text else {})}


def work(control: Control, into: int, operation: str, folder: str, limits: dict[str, int] | None = None,
         user: int | None = None, **environment: str) -> None:
    """Do an operation and say how it went; never returns."""
    found: dict[str, Any] = {}
    os.environ.update(environment)
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    os.dup2(2, 1)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            os.environ["TMPDIR"] = f"{folder}/tmp"
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            prepared = operations.PREPARE[operation](Path(folder))
            for name, most in (limits or {}).items():
                limit(name, most)
            control.arm()
            try:
                found["result"] = prepared()
            except operations.PullbackError as error:
                found["code"] = error.code
            except BaseException:
                found["trace"] = traceback.format_exc()
            atexit._run_exitfuncs()
            control.arm(False)
        found["warnings"] = [str(w.message) for w in caught]
    except BaseException:
        found["trace"] = traceback.format_exc()
    control.arm(False)
    for name in limits or {}:
        limit(name, None)
    os.write(into, json.dumps(found).encode())
    os._exit(0)


def limit(name: str, most: int | None) -> None:
    """Set a limit; addresses are counted from those in use. None takes it back."""
    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    if most is not None and number == resource.RLIMIT_AS:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most += pages * resource.getpagesize()
    resource.setrlimit(number, (hard if most is None else most, hard))


if __name__ == "__main__":
    main()
