"""Which rows of the large tables run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import rotation

ROOT = Path(__file__).resolve().parents[2]
TABLE = "tests/unit/loops/test_separate.py"


def names(*words: str, **environment: str) -> set[str]:
    """The tests that a run would have, in a suite of one table and another module."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
         f"--override-ini=testpaths={TABLE} tests/unit/test_turns.py", *words],
        cwd=ROOT, capture_output=True, text=True, check=True,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("PULLBACK_TESTS")}, **environment},
    )  # fmt: skip
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_three_runs_have_every_row_once() -> None:
    everything = names("--everything")
    turns = [names(PULLBACK_TESTS_TURN=f"{k}/3") for k in range(rotation.TURNS)]
    others = {name for name in everything if TABLE not in name}
    assert others and all(others < turn < everything for turn in turns)
    rows = [turn - others for turn in turns]
    assert sum(map(len, rows)) == len(set().union(*rows)) == len(everything - others)
    assert names() in turns  # chosen by the number of commits


def test_a_file_that_is_named_runs_whole() -> None:
    assert len(names(TABLE)) == sum(TABLE in name for name in names("--everything"))


def test_parts_are_of_all_rows() -> None:
    everything = names("--everything")
    parts = [names(PULLBACK_TESTS_PART=f"{k}/2") for k in range(2)]
    assert set().union(*parts) == everything and sum(map(len, parts)) == len(everything)


@pytest.mark.parametrize("path", sorted(rotation.TABLES), ids=lambda path: path.stem)
def test_tables_are_there(path: Path) -> None:
    assert path.is_file()
