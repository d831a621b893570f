"""SciPy and scikit-learn on lazy arrays: every third call of the tables gives what it gives on NumPy arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.peers.array_calls import KNOWN, SCIPY, SKLEARN, calls

ROOT = Path(__file__).resolve().parents[2]


def is_older(package: str, than: tuple[int, int]) -> bool:
    try:
        found = version(package).split(".")[:2]
    except PackageNotFoundError:
        return True
    return tuple(map(int, found)) < than


@pytest.mark.slow
@pytest.mark.skipif(is_older("scipy", (1, 17)) or is_older("scikit-learn", (1, 9)), reason="they know fewer namespaces")
def test_calls() -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT), "PULLBACK_BACKEND": "interpreter"}
    command = [sys.executable, "-m", "tests.peers.array_calls", "--quick"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    failed = dict(line.split("\t") for line in done.stdout.splitlines())
    assert set(failed) <= set(KNOWN), failed


def test_the_tables() -> None:
    rows = [*calls(SCIPY), *calls(SKLEARN)]
    assert len(calls(SCIPY)) > 200 and len(calls(SKLEARN)) > 70 and len(set(rows)) == len(rows)
    assert set(KNOWN) < set(rows)
