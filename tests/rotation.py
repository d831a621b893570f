"""The rows that an ordinary run leaves to other runs.

Most tests are rows of tables: one for each function, layout or random seed. A run of the whole suite runs an eighth of
the rows of each table, and of the tests of the longest modules. The number of commits selects the eighth, so eight
commits in a row run them all. `--everything` runs all rows, and so does naming a file. The choice depends on the names
of tests alone.

    PULLBACK_TESTS_TURN=1/8    the second eighth; set by `.ci/run`, whose copy has no history
    PULLBACK_TESTS_PART=3/12   the fourth of twelve parts of the whole suite, with all rows
"""

from __future__ import annotations

import datetime
import os
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

TESTS = Path(__file__).parent
TURNS, FEWEST = 8, 5  # a test with fewer rows always runs them all
FOLDERS = frozenset(TESTS / name for name in ("docs", "examples", "laws", "papers", "table", "textbook", "unit"))
TABLES = frozenset(  # modules whose tests are themselves rows: those of tables without parameters, the longest ones
    TESTS / f"{name}.py"
    for name in (
        "docs/test_notebooks", "examples/test_clean_c", "peers/test_gradient_calls",
        "table/test_array_api_values", "table/test_standard",
        "unit/arrays/test_arrange", "unit/arrays/test_complex", "unit/arrays/test_complex_special",
        "unit/cli/test_train", "unit/distributions/test_distributions", "unit/distributions/test_ends",
        "unit/distributions/test_samples", "unit/distributions/test_values", "unit/distributions/test_vectors",
        "unit/fft/test_fft", "unit/grid/test_accesses", "unit/grid/test_call_errors", "unit/grid/test_calls",
        "unit/grid/test_graphs",
        "unit/grid/test_products", "unit/grid/test_readings", "unit/grid/test_scans", "unit/grid/test_sorts",
        "unit/grid/test_suite", "unit/grid/test_tensor", "unit/lazy/test_devices", "unit/lazy/test_namespace",
        "unit/loops/test_all_sizes", "unit/nn/test_arena", "unit/nn/test_checkpoints", "unit/nn/test_layers",
        "unit/nn/test_memory_told", "unit/nn/test_network_export", "unit/operators/test_blocks",
        "unit/runtime/test_compile", "unit/special/test_incomplete", "unit/special/test_net",
        "unit/special/test_net_of_many", "unit/test_complex_matrices", "unit/test_decompositions", "unit/test_eigen",
        "unit/test_random", "unit/test_random_ends", "unit/test_solve", "unit/test_special", "unit/test_spectral",
    )
)  # fmt: skip


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


def _is_row(item: pytest.Item, rows: int) -> bool:
    return item.path in TABLES or (rows >= FEWEST and _is_in_folder(item.path))


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
