"""The rows that an ordinary run leaves to other runs.

Most tests are rows of tables: one for each function, layout or random seed. A run of the whole suite runs a sixteenth
of the rows of each table, and a sixteenth of the tests that are marked slow, because they take more than half a second
of processor time or are rows of a table themselves. The number of commits selects it, so sixteen commits in a row run
them all. `--everything` runs all tests, and so does naming a file. The choice depends on the names of tests alone.

    PULLBACK_TESTS_TURN=1/16   the second sixteenth; set by `.ci/run`, whose copy has no history
    PULLBACK_TESTS_PART=3/12   the fourth of twelve parts of the whole suite, with all rows
"""

from __future__ import annotations

import datetime
import os
import subprocess
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

TESTS = Path(__file__).parent
TURNS, FEWEST = 16, 5  # a test with fewer rows always runs them all, unless it is slow
LONGEST = 10.0  # seconds after which a test without the mark is named at the end of a run
FOLDERS = frozenset(TESTS / name for name in ("apl", "docs", "examples", "laws", "papers", "table", "textbook", "unit"))


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
    return [f"rows {turn} of the tables; --everything runs all"] if turn else []


def kept(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of this run."""
    turn, part = os.environ.get("PULLBACK_TESTS_TURN"), os.environ.get("PULLBACK_TESTS_PART")
    if part:
        return [item for item in items if _is_in(item, part)]
    if not turn:
        return items
    rows = Counter(map(_test, items))
    return [item for item in items if not _is_row(item, rows[_test(item)]) or _is_in(item, turn)]


def without_mark(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Name the tests of a run that took long without the mark, the longest first; most with brackets are rows."""
    unmarked = (r for r in reports if "slow" not in r.keywords and "[" not in r.nodeid)
    long = [(r.duration, r.nodeid) for r in unmarked if r.duration > LONGEST]
    return [f"{seconds:.1f} s  {name}" for seconds, name in sorted(long, reverse=True)]


def _is_row(item: pytest.Item, rows: int) -> bool:
    return item.get_closest_marker("slow") is not None or (rows >= FEWEST and _is_in_folder(item.path))


@cache
def _is_in_folder(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in FOLDERS)


def _test(item: pytest.Item) -> str:
    """The test function that an item is a row of."""
    return item.nodeid.partition("[")[0]


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
