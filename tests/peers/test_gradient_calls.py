"""Gradients pass through SciPy and scikit-learn as differences say, or are refused; a run takes one of eight parts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.peers.gradient_calls import HOMES, KNOWN, REFUSED, function, rows
from tests.peers.test_array_calls import ROOT, is_older

pytestmark = pytest.mark.slow

PARTS = 8


@pytest.mark.skipif(is_older("scipy", (1, 17)) or is_older("scikit-learn", (1, 9)), reason="they know fewer namespaces")
@pytest.mark.parametrize("part", range(PARTS))
def test_gradients(part: int) -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT), "PULLBACK_BACKEND": "interpreter"}
    command = [sys.executable, "-m", "tests.peers.gradient_calls", f"--part={part}/{PARTS}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    failed = dict(line.split("\t") for line in done.stdout.splitlines())
    assert set(failed) <= set(KNOWN), failed


def test_the_table() -> None:
    named = [row for home in HOMES for row in rows(home)]
    assert len(set(named)) == len(named)
    functions = {function(call) for call, _ in named}
    assert functions > REFUSED and len(functions - REFUSED) > 150
