"""The line diff of a pass: removed and added lines, and changed words within paired lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal

__all__ = ["Changed", "changes"]

AROUND: Final = 1  # unchanged lines shown before and after changes
MOST_WORDS: Final = 400  # most characters of a line that is compared word by word
_WORD: Final = re.compile(r"\w+|\s+|.")


@dataclass(frozen=True)
class Changed:
    """A diff line: its kind, and pieces that its partner shares or not; a "gap" counts omitted lines."""

    kind: Literal["old", "new", "same", "gap"]
    pieces: tuple[tuple[str, bool], ...]


def changes(before: str, after: str) -> list[Changed]:
    """The changes from one text to another.

    >>> [(c.kind, c.pieces) for c in changes("a = b + 1", "a = b + 2")]
    [('old', (('a = b + ', True), ('1', False))), ('new', (('a = b + ', True), ('2', False)))]
    """
    old, new = before.rstrip("\n").split("\n"), after.rstrip("\n").split("\n")
    out: list[Changed] = []
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for k, (tag, i, j, m, n) in enumerate(codes):
        if tag != "equal":
            out += _replaced(old[i:j], new[m:n])
            continue
        head = 0 if k == 0 else AROUND
        tail = 0 if k == len(codes) - 1 else AROUND
        lines = old[i:j]
        if len(lines) <= head + tail + 1:
            out += [_same(line) for line in lines]
            continue
        out += [_same(line) for line in lines[:head]]
        out.append(Changed("gap", ((f"{len(lines) - head - tail} equal lines", True),)))
        out += [_same(line) for line in lines[len(lines) - tail :]]
    return out


def _same(line: str) -> Changed:
    return Changed("same", ((line, True),))


def _replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[Changed]:
    """Compare replaced lines pair by pair if there are equally many."""
    pairs = [_pair(a, b) for a, b in zip(old, new, strict=True)] if len(old) == len(new) else []
    yield from (Changed("old", p[0]) for p in pairs)
    yield from (Changed("new", p[1]) for p in pairs)
    if not pairs:
        yield from (Changed("old", ((line, True),)) for line in old)
        yield from (Changed("new", ((line, True),)) for line in new)


Pieces = tuple[tuple[str, bool], ...]


def _pair(a: str, b: str) -> tuple[Pieces, Pieces]:
    """Split two lines into pieces; into a single piece if they are long or have little in common."""
    left, right = _WORD.findall(a), _WORD.findall(b)
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if max(len(left), len(right)) > MOST_WORDS or matcher.ratio() < 0.5:
        return ((a, True),), ((b, True),)
    ours: list[tuple[str, bool]] = []
    theirs: list[tuple[str, bool]] = []
    for tag, i, j, m, n in matcher.get_opcodes():
        if j > i:
            ours.append(("".join(left[i:j]), tag == "equal"))
        if n > m:
            theirs.append(("".join(right[m:n]), tag == "equal"))
    return tuple(ours), tuple(theirs)
