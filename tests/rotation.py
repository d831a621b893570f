"""The rows that an ordinary run leaves to other runs.

A few modules are large tables: one row for each function, layout or random seed. A run of the whole suite takes a third
of the rows of each, chosen by the number of commits, so that three commits in a row run them all. `--everything` runs
all rows, and so does naming a file. Whatever runs, the choice depends on the names of tests alone.

    PULLBACK_TESTS_TURN=1/3    the second third; set by `.ci/run`, whose copy has no history
    PULLBACK_TESTS_PART=3/12   the fourth of twelve parts of the whole suite, all tables included
"""

from __future__ import annotations

import datetime
import os
import subprocess
from pathlib import Path
from zlib import crc32

import pytest

TESTS = Path(__file__).parent
TURNS = 3
TABLES = frozenset(
    TESTS / folder / f"test_{name}.py"
    for folder, names in {
        "examples": "gradbench",
        "laws": "c c_agrees contractions derivatives equal_rows fuzz sizes states threads",
        "table": "against_oracle array_api_values guarded_reads parts_against_oracle standard",
        "textbook": "differential_equations dynamic_programming graphs learning linear_algebra roots signals sorting",
        "unit": "complex_matrices decompositions eigen random random_ends solve special spectral",
        "unit/arrays": "arrange complex complex_special sorting",
        "unit/codegen": "compilers",
        "unit/distributions": "distributions ends samples values vectors",
        "unit/fft": "fft",
        "unit/lazy": "namespace",
        "unit/loops": "all_sizes group interleaved masked meaning open_sizes packed separate",
        "unit/nn": "arena layers memory_told network_export sequences zoo",
        "unit/special": "borders incomplete net net_of_many",
    }.items()
    for name in names.split()
)


def choose(config: pytest.Config) -> None:
    """Set PULLBACK_TESTS_TURN for a run of the whole suite, and unset it for all others."""
    if hasattr(config, "workerinput"):  # its controller has chosen
        return
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if not whole or config.getoption("everything") or os.environ.get("PULLBACK_TESTS_PART"):
        os.environ["PULLBACK_TESTS_TURN"] = ""
    else:
        os.environ.setdefault("PULLBACK_TESTS_TURN", f"{_commits() % TURNS}/{TURNS}")


def header() -> list[str]:
    """Name the rows that run, for the head of the report."""
    turn, part = os.environ.get("PULLBACK_TESTS_TURN"), os.environ.get("PULLBACK_TESTS_PART")
    if part:
        return [f"part {part} of the suite"]
    return [f"rows {turn} of {len(TABLES)} large tables; --everything runs all"] if turn else []


def runs(item: pytest.Item) -> bool:
    """Whether this run has the test."""
    if part := os.environ.get("PULLBACK_TESTS_PART"):
        return _is_in(item, part)
    turn = os.environ.get("PULLBACK_TESTS_TURN")
    return not turn or item.path not in TABLES or _is_in(item, turn)


def _is_in(item: pytest.Item, share: str) -> bool:
    number, of = map(int, share.split("/"))
    return crc32(item.nodeid.encode()) % of == number


def _commits() -> int:
    """Count the commits of the checkout; the day serves where there is no history."""
    count = ["git", "rev-list", "--count", "HEAD"]
    try:
        return int(subprocess.run(count, cwd=TESTS, capture_output=True, text=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError):  # no git, or no history
        return datetime.date.today().toordinal()
