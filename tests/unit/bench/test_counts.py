"""Function and gradient together take at most four times the operations of the function, for every program we have."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.counts import BAR, WITHOUT, CountedCase, cases
from benchmarks.examples import example_files, example_modules
from pullback.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
CASES = list(cases(example_modules(EXAMPLES, WITHOUT)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_within_the_bar(case: CountedCase) -> None:
    found = case.count()
    assert found.function > 0
    assert 1 <= found.ratio <= BAR


def test_every_example_is_in_the_table_or_has_a_reason() -> None:
    counted = {case.name.rpartition(".")[0] for case in CASES}
    assert set(example_files(EXAMPLES)) == (counted - {""}) | set(WITHOUT)


def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "counts", "--cases", "product", "dot (D16)"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["program", "function", "with", "gradient", "ratio"]
    assert any(line.split() == ["product", "1,000", "3,000", "3.00"] for line in lines)
