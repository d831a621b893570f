"""Tests of the rotation: every row and every slow test runs in one of sixteen runs."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests import rotation

ROOT = rotation.TESTS.parent
FEW, MANY = 4, 40  # rows


def item(path: str, name: str, *marks: str) -> Any:
    return SimpleNamespace(
        nodeid=f"{path}::{name}", path=ROOT / path, get_closest_marker=lambda mark: mark if mark in marks else None
    )


ROWS = [item("tests/unit/loops/test_some.py", f"test_many[{k}]") for k in range(MANY)]
ALWAYS = [
    *(item("tests/unit/loops/test_some.py", f"test_few[{k}]") for k in range(FEW)),
    item("tests/unit/loops/test_some.py", "test_one"),
    *(item("tests/errors/test_some.py", f"test_many[{k}]") for k in range(MANY)),
]
SLOW = [item("tests/errors/test_slow.py", f"test_{k}", "slow") for k in range(MANY)]


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PULLBACK_TESTS_TURN", "PULLBACK_TESTS_PART"):
        monkeypatch.setenv(name, "")


def runs(monkeypatch: pytest.MonkeyPatch, variable: str, of: int) -> list[set[str]]:
    """The tests of all runs that share the rows."""
    out = []
    for k in range(of):
        monkeypatch.setenv(variable, f"{k}/{of}")
        out.append({i.nodeid for i in rotation.kept([*ROWS, *ALWAYS, *SLOW])})
    return out


def test_sixteen_runs_have_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = runs(monkeypatch, "PULLBACK_TESTS_TURN", rotation.TURNS)
    assert set.intersection(*turns) == {i.nodeid for i in ALWAYS}
    rows = [turn - {i.nodeid for i in ALWAYS} for turn in turns]
    assert all(rows) and sum(map(len, rows)) == len([*ROWS, *SLOW]) == len(set().union(*rows))


def test_parts_are_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = runs(monkeypatch, "PULLBACK_TESTS_PART", 7)
    assert sum(map(len, parts)) == len([*ROWS, *ALWAYS, *SLOW]) == len(set().union(*parts))


def test_without_a_turn_everything_runs() -> None:
    assert rotation.kept([*ROWS, *SLOW]) == [*ROWS, *SLOW]


@pytest.mark.slow
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


def test_long_tests_without_the_mark_are_named() -> None:
    def report(name: str, seconds: float, **keywords: int) -> Any:
        return SimpleNamespace(nodeid=name, duration=seconds, keywords=keywords)

    reports = [
        report("soon", 0.1),
        report("long", 11.0),
        report("longer", 70.0),
        report("marked", 19.0, slow=1),
        report("a[row]", 19.0),
    ]
    assert rotation.without_mark(reports) == ["70.0 s  longer", "11.0 s  long"]
