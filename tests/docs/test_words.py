"""Docstrings in plain English: the first line names or does something, and no sentence is long."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("pullback", "tests/support", "benchmarks")
WIDTH, WORDS = 100, 35

FRAGMENTS = re.compile(
    "What|Of|Those|That|How|Which|Whatever|Whoever|Who|Whom|Whose|Why|It|Its|Itself|They|Them|Their|These|This|And|But|Or|"
    "Besides?|Such|Then|Otherwise|Also|So|Than"
)
CLAUSES = re.compile(  # these may open a sentence that has a main clause after a comma
    "Where|When|With|Without|As|By|In|On|At|For|From|To|If|Within|Under|Over|Behind|Until|While|Through|Between|Inside"
)
LANGUAGES = frozenset({"A", "C"})  # an article and a language are no variables
ENDS = re.compile(r"(?<=[.?])\s+(?=[^a-z])")
WORD = re.compile(r"[(\"`]?[A-Za-z'-]{2,}[`\")]?[,.;:?]?")  # not a formula
LABEL = re.compile(r"\s*[*\w]+(, [*\w]+)*:(\s|$)")  # an argument or attribute, or the head of a list of them
DRAWN = re.compile(r"\S {2,}\S|^\s*(>>>|\.\.\. |\||#)")  # a table, a picture, a grammar, an example
VARIABLE = re.compile(r"[A-Za-zΑ-Ωα-ω][′₀-₉]?|[a-z_][a-z0-9_]*(\[[^]]*\])*")


def summary_faults(line: str) -> Iterator[str]:
    """The faults of the first line of a docstring."""
    opening = re.split(r"[ ,;:.]", line, maxsplit=1)[0]
    if FRAGMENTS.fullmatch(opening):
        yield f"begins with {opening}: begin with a verb, or with the noun that is described"
    elif CLAUSES.fullmatch(opening) and not re.search(r", \w", line):
        yield f"begins with {opening} and has no main clause"
    elif VARIABLE.fullmatch(opening) and opening not in LANGUAGES:
        yield f"begins with the bare variable {opening}: begin with a verb, or write code in backticks"
    if not line.endswith((".", ":", "?")):
        yield "does not end with a full stop"
    if len(line) > WIDTH:
        yield f"first line of {len(line)} characters, more than {WIDTH}"


def sentences(text: str) -> Iterator[str]:
    """The sentences of paragraphs, items of lists and descriptions of arguments, without examples."""
    block: list[str] = []
    for line in [*text.partition("\n>>>")[0].splitlines(), ""]:
        label = LABEL.match(line)
        if not line.strip() or label or DRAWN.search(line) or line.lstrip().startswith(("* ", "- ")):
            yield from ENDS.split(" ".join(block))
            block = []
        if not DRAWN.search(line):
            block.append((line[label.end() :] if label else line).strip().removeprefix("* ").removeprefix("- "))


def faults(text: str) -> Iterator[str]:
    """The faults of a docstring."""
    yield from summary_faults(text.partition("\n")[0])
    for sentence in sentences(text):
        if (count := sum(WORD.fullmatch(w) is not None for w in sentence.split())) > WORDS:
            yield f"sentence of {count} words, more than {WORDS}: {sentence[:60]}…"


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The docstrings of a module and of all that it defines, with their qualified names."""
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        name, node = waiting.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield name or "module", text
        for child in ast.iter_child_nodes(node):
            own = child.name if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else ""
            waiting.append((".".join(filter(None, (name, own))), child))


@cache
def found() -> dict[str, list[str]]:
    """The faults in all folders, by file and name."""
    rows: dict[str, list[str]] = {}
    for path in (p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.py"))):
        for name, text in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
            if wrong := list(faults(text)):
                rows.setdefault(f"{path.relative_to(ROOT)}::{name}", []).extend(wrong)
    return rows


def test_docstrings_are_plain() -> None:
    new = [f"{where}: {what}" for where, wrong in sorted(found().items()) for what in wrong]
    assert not new, "Write these docstrings in plain English:\n" + "\n".join(new)


def test_fragments_are_found() -> None:
    fragments = (
        "What all ways ask for.",
        "X times itself.",
        "Of each place.",
        "outs[k] in a loop.",
        "By rows.",
        "With the sizes of a call.",
        "No full stop",
        "It as a function.",
        "The " + "very " * 25 + "long line.",
    )
    plain = ("Whether a step is last.", "Return `x * y`.", "C for one call.", "A row of a table.",
             "With an axis, sum along it.", "The terms of a sum.", "`x` as an array.")  # fmt: skip
    assert all(list(summary_faults(line)) for line in fragments)
    assert not any(list(summary_faults(line)) for line in plain)
