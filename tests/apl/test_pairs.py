"""The pairs of expression and result in `pairs/*.txt`: `pairs/README.md` says how they are written."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pullback.apl import AplError, Workspace
from tests.apl.literals import cells, read, same, shown

PAIRS = Path(__file__).parent / "pairs"
FILES = sorted(path for path in PAIRS.glob("*.txt") if path.name != "missing.txt")
INDENT = " " * 6


def pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    """Each pair of a file: the line of the result, the expression, the result."""
    expression: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith(INDENT):
            expression.append(line.removeprefix(INDENT))
        elif line and not line.startswith("⍝"):
            if not expression:
                raise ValueError(f"{path.name}:{number}: a result without an expression")
            yield number, "\n".join(expression), line
            expression = []
    if expression:
        raise ValueError(f"{path.name}: the last expression has no result")


def missing() -> set[str]:
    """The expressions that are listed as not holding yet."""
    lines = (PAIRS / "missing.txt").read_text(encoding="utf-8").splitlines()
    groups = "\n".join(line.removeprefix(INDENT) if line.startswith(INDENT) else "\0" for line in lines)
    return {part.strip("\n") for part in groups.split("\0") if part.strip()}


def found(expression: str) -> str | object:
    """What the package gives: the name of an error, or a value as `Cells`."""
    try:
        value = Workspace().evaluate(expression)
    except AplError as error:
        return error.kind
    return cells(value)


def fault(expression: str, result: str) -> str | None:
    """What is wrong with the package's answer, or None."""
    try:
        actual = found(expression)
    except Exception as error:  # an internal error is a fault of this pair, and the others are still to be run
        return f"{type(error).__name__}: {error}"
    if re.fullmatch("[A-Z]+ ERROR", result):
        return None if actual == result else f"gives {actual if isinstance(actual, str) else shown(actual)}"
    if isinstance(actual, str):
        return f"gives {actual}"
    return None if same(read(result), actual) else f"gives {shown(actual)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_pairs_hold(path: Path) -> None:
    faults = []
    expected_to_fail = missing()
    for number, expression, result in pairs(path):
        wrong = fault(expression, result)
        if wrong is None and expression in expected_to_fail:
            wrong = "holds: take it off missing.txt"
        elif expression in expected_to_fail:
            wrong = None
        if wrong is not None:
            faults.append(f"{path.name}:{number}: {expression!r} is {result}, and {wrong}")
    assert not faults, "\n".join(faults)


def test_what_is_missing_is_among_the_pairs() -> None:
    written = {expression for path in FILES for _, expression, _ in pairs(path)}
    assert missing() <= written


def test_pairs_are_many() -> None:
    assert sum(1 for path in FILES for _ in pairs(path)) >= 1000
