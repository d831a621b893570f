"""The sentences of the documents are short."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.readability import ROOT, mean_length, row, sentences, words

MEAN, LONGEST = 18, 35  # words of a sentence
ROOTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/README.md")
FOLDERS = ("docs", "benchmarks/results")
PAGES = [*map(ROOT.joinpath, ROOTS), *sorted(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_sentences_are_short(page: Path) -> None:
    found = sentences(page.read_text(encoding="utf-8"))
    assert mean_length(found) <= MEAN, row(page)
    long = [sentence for sentence in found if words(sentence) > LONGEST]
    assert not long, "\n".join([row(page), *long])


def test_a_sentence_ends_at_a_point_or_with_its_item() -> None:
    text = "# A title\n\nOne `a. B` two. Three\nfour [five six](x.md).\n\n* seven\n* eight nine\n\n| a | b |\n"
    assert sentences(text) == ["One Code two.", "Three four five six.", "seven", "eight nine"]
