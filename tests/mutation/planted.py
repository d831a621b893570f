"""A pytest plugin that imports a file with a mutant in it: for code that only runs at import.

`killer` starts pytest with this plugin in a new process. A table is then built by the mutant's code, for every test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.machinery import SourceFileLoader
from types import CodeType

import pytest

from tests.mutation.install import distinguish, settle
from tests.mutation.mutants import ROOT, Mutant

VARIABLE = "PULLBACK_MUTANT"


def killer(mutant: Mutant, arguments: Sequence[str]) -> str | None:
    """The first test that fails in a new process, or the error that ends it; None if all pass.

    Args:
        arguments: tests and flags, as pytest takes them.
    """
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutation.planted", "-x", "-rfE", "--tb=line", *arguments]
    environment = {**os.environ, VARIABLE: json.dumps(asdict(mutant))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    lines = [line for line in (*done.stdout.splitlines(), *done.stderr.splitlines()) if line.strip()]
    failed = [line.partition(" ")[2] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return (failed or lines[-1:] or [f"exit status {done.returncode}"])[0]


def plant(mutant: Mutant) -> None:
    """Compile the mutant's text when its file is imported."""
    path, ordinary = str(ROOT / mutant.file), SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        if loader.path != path:
            return ordinary(loader, name)
        text = mutant.apply((ROOT / mutant.file).read_text(encoding="utf-8"))
        return compile(text, path, "exec", dont_inherit=True)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


def pytest_configure(config: pytest.Config) -> None:
    """Give the mutant's libraries their own cache keys, and fix the examples of random tests."""
    settle()
    distinguish(MUTANT)


if VARIABLE in os.environ:
    MUTANT = Mutant(**json.loads(os.environ[VARIABLE]))
    plant(MUTANT)
