"""Promises of the docstrings and of `docs/explanation/correctness.md`: each has tests in `promises.toml`.

A promise is a sentence with one of the words below, outside of code and quotes; and every sentence of the section "What
is promised". The table has the sentence, under its file, with the tests that would fail if it were not true.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.papers.test_claims import checks, functions, helpers_of

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("promises.toml")
PAGE = ROOT / "docs/explanation/correctness.md"
WORDS = re.compile(r"\b(same bits|bit for bit|no bit|to the (last )?(bit|byte)|never|always|exactly)\b", re.IGNORECASE)
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"")
LABEL = re.compile(r"\s*[*\w]+(, [*\w]+)*:\s")  # an argument or an attribute, and what heads a list of them
ENDS = re.compile(r"(?<=[.?])\s+(?=[A-Z`\[(_])")


def sentences(text: str) -> Iterator[str]:
    """The sentences of prose: of paragraphs, items of lists, and descriptions of arguments; not of examples."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        label = LABEL.match(line)
        if not line.strip() or line.lstrip().startswith((">>>", "* ", "- ", "|", "#")) or label:
            yield from ENDS.split(" ".join(" ".join(block).split()))
            block = []
        if not line.lstrip().startswith((">>>", "|", "#")):
            block.append(line[label.end() :] if label else line.lstrip().removeprefix("* ").removeprefix("- "))


def docstrings(path: Path) -> Iterator[str]:
    """The docstrings of a module and of all that is in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def promises(path: Path) -> Iterator[str]:
    """The sentences of a file that promise something."""
    if path == PAGE:
        section = path.read_text(encoding="utf-8").partition("## What is promised")[2].partition("\n## ")[0]
        yield from filter(None, sentences(section))
        return
    for text in docstrings(path) if WORDS.search(path.read_text(encoding="utf-8")) else ():
        yield from (s for s in sentences(text) if WORDS.search(QUOTED.sub("", s)))


@cache
def found() -> dict[str, list[str]]:
    """All promises, by their files."""
    files = [PAGE, *(f for folder in ("pullback", "tests/support") for f in sorted((ROOT / folder).rglob("*.py")))]
    return {str(f.relative_to(ROOT)): made for f in files if (made := list(dict.fromkeys(promises(f))))}


def table() -> dict[str, dict[str, list[str]]]:
    """The promises that are kept, with their tests."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def test_every_promise_has_a_test() -> None:
    kept = table()
    new = [f'["{file}"]\n"""{s}""" = ["tests/…::test_…"]' for file, made in found().items() for s in made
           if s not in kept.get(file, {})]  # fmt: skip
    assert not new, (
        "These sentences promise something, and name no test. Add each to tests/docs/promises.toml with the tests that "
        "fail where it is not true (write one where there is none), or say it without the word:\n" + "\n".join(new)
    )


def test_every_row_is_a_promise_that_is_made() -> None:
    made = found()
    gone = [f"{file}: {s}" for file, rows in table().items() for s in rows if s not in made.get(file, [])]
    assert not gone, (
        "These sentences are no longer there. Change or delete their rows in tests/docs/promises.toml:\n"
        + "\n".join(gone)
    )


@cache
def checking(path: Path) -> dict[str, bool]:
    """The tests of a file, with whether they check something."""
    helpers = helpers_of(path)
    return {name: checks(node, helpers) for name, node in functions(path).items() if name.startswith("test_")}


def test_the_tests_of_promises_exist_and_check_something() -> None:
    wrong = []
    for file, rows in table().items():
        for sentence, tests in rows.items():
            for test in tests or ["no test"]:
                path, _, name = test.partition("::")
                if not (ROOT / path).is_file() or not checking(ROOT / path).get(name.partition("[")[0]):
                    wrong.append(f"{test}, for {file}: {sentence}")
    assert not wrong, "tests/docs/promises.toml names tests that are not there, or check nothing:\n" + "\n".join(wrong)
