"""The exception tree and the text of an error."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import pullback.errors as errors
from pullback.errors import DataError, IndexRangeError, PullbackError, ShapeError, counted, together

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class At:
    """A place in a file."""

    file: str
    line: int
    column: int | None = None
    end_column: int | None = None
    source_line: str | None = None


def test_the_complete_message() -> None:
    error = ShapeError(
        "E102",
        "matmul: the inner sizes differ: columns of x = features = 784, rows of W = hidden = 100",
        position=At("lenet.py", 10, 13, 18, "    return (x @ W) + b\n"),
        facts=("x : f32[batch, features] from lenet.py:8", "W : f32[hidden, classes] from lenet.py:9"),
        remedy="`x @ V`; V : f32[features, hidden] is in scope and fits.",
    )
    assert str(error).splitlines() == [
        "ShapeError [E102] matmul: the inner sizes differ: columns of x = features = 784, rows of W = hidden = 100",
        "  --> lenet.py:10:13",
        "   |     return (x @ W) + b",
        "   |             ^^^^^",
        "   | x : f32[batch, features] from lenet.py:8      W : f32[hidden, classes] from lenet.py:9",
        "  try: `x @ V`; V : f32[features, hidden] is in scope and fits.      See `pullback explain-error E102`",
    ]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (At("a.py", 3), ["  --> a.py:3"]),
        (At("a.py", 3, 5), ["  --> a.py:3:5"]),
        (At("a.py", 3, None, None, "x = y"), ["  --> a.py:3", "   | x = y"]),
        (At("a.py", 3, 5, None, "x = y"), ["  --> a.py:3:5", "   | x = y", "   |     ^"]),
        (At("a.py", 3, 5, 99, "x = yz"), ["  --> a.py:3:5", "   | x = yz", "   |     ^^"]),
        (At("a.py", 3, 2, 3, "\tx = y"), ["  --> a.py:3:2", "   | \tx = y", "   | \t^"]),
    ],
)
def test_the_place(place: At, expected: list[str]) -> None:
    lines = str(PullbackError("E300", "what", position=place)).splitlines()
    assert lines == ["PullbackError [E300] what", *expected, "  See `pullback explain-error E300`"]


def test_builtin_classes() -> None:
    assert issubclass(ShapeError, ValueError)
    assert issubclass(errors.DTypeError, TypeError)
    assert issubclass(errors.TraceError, TypeError)
    assert issubclass(IndexRangeError, IndexError)
    assert issubclass(DataError, ValueError)


def test_errors_travel_between_processes() -> None:
    error = DataError("E501", "a", position=At("a.py", 1, 2, 3, "abc"), facts=("f",), remedy="r")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is DataError
    assert str(again) == str(error)


def test_several_errors_are_shown_together() -> None:
    one, two, three = (ShapeError(f"E10{i}", f"number {i}") for i in range(3))
    both = together([one, two, three])
    assert isinstance(both, ShapeError)
    assert both.code == "E100"
    assert [line for line in str(both).splitlines() if "number" in line] == [
        f"ShapeError [E10{i}] number {i}" for i in range(3)
    ]
    assert together([one]) is one
    with pytest.raises(ValueError, match="at least one"):
        together([])


def test_every_code_in_the_source_is_documented() -> None:
    reference = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^#+ (E\d{3})\b", reference, re.MULTILINE))
    used: dict[str, str] = {}
    folders = ("pullback", "tests/support", "benchmarks")
    for path in sorted(p for folder in folders for p in (ROOT / folder).rglob("*.py")):
        if path.name == "errors.py":
            continue  # only examples in docstrings
        for code in re.findall(r'"(E[1-7]\d\d)"', path.read_text(encoding="utf-8")):
            used.setdefault(code, path.relative_to(ROOT).as_posix())
    missing = {code: place for code, place in used.items() if code not in documented}
    assert not missing, f"undocumented codes: {missing}"


NOUNS = [(1, "", "1 row"), (2, "", "2 rows"), (0, "", "0 rows"), ("N", "", "N rows"), (2, "lines", "2 lines")]


@pytest.mark.parametrize(("count", "many", "text"), NOUNS)
def test_counts_have_their_nouns(count, many, text):
    assert counted(count, "row", many) == text
