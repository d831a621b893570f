"""The law of the whole compiler: random programs, each compiled in one way by chance, agree with the interpreter.

A minute's worth; `python -m tests.support.fuzz` runs as many as are asked for.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pullback.runtime.compile import compiler_command
from tests.support.fuzz import fuzz, main

SEED, COUNT, BATCH = 20_000, 200, 25


def sanitised(folder: Path) -> bool:
    """Whether the compiler has the sanitisers."""
    command = compiler_command()
    if command is None:
        return False
    (folder / "none.c").write_text("int main(void) { return 0; }\n")
    words = [*command, "-fsanitize=address,undefined", str(folder / "none.c"), "-o", str(folder / "none")]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module", autouse=True)
def _needs_sanitisers(tmp_path_factory: pytest.TempPathFactory) -> None:
    if not sanitised(tmp_path_factory.mktemp("sanitisers")):
        pytest.skip("no C compiler with sanitisers")


@pytest.mark.parametrize("first", range(SEED, SEED + COUNT, BATCH))
def test_random_programs_in_random_ways(first: int) -> None:
    assert [str(f) for f in fuzz(range(first, first + BATCH))] == []


@pytest.mark.slow
def test_trips_that_shrink_with_an_outer_loop() -> None:
    assert fuzz([1336]) == []  # more chunks than iterations


def test_the_command_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--programs", "1", "--seed", "5"]) == 0
    assert capsys.readouterr().err == "1 of 1 programs, 0 failures\n"
