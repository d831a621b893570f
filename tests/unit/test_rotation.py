"""Tests of the rotation: every row runs in one of six runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import rotation

ROOT = rotation.TESTS.parent
FEW, MANY = 4, 40  # rows


def item(path: str, name: str) -> Any:
    return SimpleNamespace(nodeid=f"{path}::{name}", path=ROOT / path)


ROWS = [item("tests/unit/loops/test_some.py", f"test_many[{k}]") for k in range(MANY)]
ALWAYS = [
    *(item("tests/unit/loops/test_some.py", f"test_few[{k}]") for k in range(FEW)),
    item("tests/unit/loops/test_some.py", "test_one"),
    *(item("tests/errors/test_some.py", f"test_many[{k}]") for k in range(MANY)),
]
TABLE = [item("tests/unit/test_eigen.py", f"test_{k}") for k in range(MANY)]


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PULLBACK_TESTS_TURN", "PULLBACK_TESTS_PART"):
        monkeypatch.setenv(name, "")


def runs(monkeypatch: pytest.MonkeyPatch, variable: str, of: int) -> list[set[str]]:
    """The tests of all runs that share the rows."""
    out = []
    for k in range(of):
        monkeypatch.setenv(variable, f"{k}/{of}")
        out.append({i.nodeid for i in rotation.kept([*ROWS, *ALWAYS, *TABLE])})
    return out


def test_six_runs_have_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = runs(monkeypatch, "PULLBACK_TESTS_TURN", rotation.TURNS)
    assert set.intersection(*turns) == {i.nodeid for i in ALWAYS}
    rows = [turn - {i.nodeid for i in ALWAYS} for turn in turns]
    assert all(rows) and sum(map(len, rows)) == len([*ROWS, *TABLE]) == len(set().union(*rows))


def test_parts_are_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = runs(monkeypatch, "PULLBACK_TESTS_PART", 7)
    assert sum(map(len, parts)) == len([*ROWS, *ALWAYS, *TABLE]) == len(set().union(*parts))


def test_without_a_turn_everything_runs() -> None:
    assert rotation.kept([*ROWS, *TABLE]) == [*ROWS, *TABLE]


@pytest.mark.parametrize(("words", "head"), [
    ((), "rows {turn} of the tables; --everything runs all"),
    (("--everything",), None),
    (("tests/unit/test_single_flight.py",), None),
])  # fmt: skip
def test_only_the_whole_suite_leaves_rows_out(words: tuple[str, ...], head: str | None) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider",
               "--override-ini=testpaths=tests/unit/test_single_flight.py", *words]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULLBACK_TESTS")}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment)
    found = [line for line in done.stdout.splitlines() if line.endswith("runs all")]
    turn = f"{rotation._commits() % rotation.TURNS}/{rotation.TURNS}"
    assert found == ([head.format(turn=turn)] if head else [])


@pytest.mark.parametrize("path", sorted(rotation.TABLES), ids=lambda path: path.stem)
def test_tables_are_there(path: Path) -> None:
    assert path.is_file()
