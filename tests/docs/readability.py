"""Sentence lengths of the documents: `python -m tests.docs.readability [PAGE ...]` prints mean and longest per page.

`test_readability.py` limits both on the pages of `HELD`.

A code span counts as one word. Headings, tables and code blocks are left out; a list item ends its last sentence.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = re.compile(r"^(?:#.*|\|.*| {4}.*|<!--.*-->)$", re.MULTILINE)  # headings, tables, indented blocks, comments
CODE = re.compile(r"(`+).+?\1", re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\([^)\s]*\)")
ITEM = re.compile(r"^ *(?:[*-]|\d+\.) ", re.MULTILINE)
END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*]*[A-Z0-9])")


def sentences(text: str) -> list[str]:
    """Return the sentences of a Markdown text, with each code span replaced by the word `Code`."""
    text = LEFT_OUT.sub("", FENCE.sub("\n", text))
    text = ITEM.sub("\n\n", LINK.sub(r"\1", CODE.sub("Code", text)))
    found = [part for block in re.split(r"\n\s*\n", text) for part in END.split(" ".join(block.split()))]
    return [sentence for sentence in found if words(sentence)]


def words(sentence: str) -> int:
    """Return the number of words: pieces between spaces that have a letter or a digit."""
    return sum(any(c.isalnum() for c in word) for word in sentence.split())


def mean_length(found: list[str]) -> float:
    """Return the mean number of words of these sentences, 0 for none."""
    return sum(map(words, found)) / max(len(found), 1)


def row(page: Path) -> str:
    """Return a row of the report on a page: sentences, mean length, longest length, and the start of the longest."""
    found = sentences(page.read_text(encoding="utf-8"))
    longest = max(found, key=words, default="")
    figures = f"{len(found):>9} {mean_length(found):>5.1f} {words(longest):>8}"
    return f"{page.relative_to(ROOT).as_posix():<48} {figures}  {longest[:60]}"


def main(names: list[str]) -> None:
    """Print a row for each page, or for all pages of `docs/`."""
    pages = [Path(name).resolve() for name in names] or sorted((ROOT / "docs").rglob("*.md"))
    print(f"{'page':<48} sentences  mean  longest", *map(row, pages), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
