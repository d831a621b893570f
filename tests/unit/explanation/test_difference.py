"""What a pass changed, line by line."""

from __future__ import annotations

import random

from pullback.explanation.difference import changes


def kinds(before: str, after: str) -> list[tuple[str, str]]:
    return [(c.kind, "".join(t for t, _ in c.pieces)) for c in changes(before, after)]


def test_lines_that_go_and_come() -> None:
    assert kinds("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nd\nX = 1\nf\n") == [
        ("gap", "3 equal lines"), ("same", "d"), ("old", "e"), ("new", "X = 1"), ("same", "f")
    ]  # fmt: skip
    assert kinds("a\nb", "b") == [("old", "a"), ("same", "b")]


def test_words_that_differ() -> None:
    old, new = changes("y = build n < N { x[n] * w[n] }", "y = build n < N { w[n] * x[n] }")
    assert (old.kind, new.kind) == ("old", "new")
    assert [t for t, same in old.pieces if not same] != []
    assert "".join(t for t, _ in new.pieces) == "y = build n < N { w[n] * x[n] }"


def test_a_text_is_put_together_from_its_changes() -> None:
    draw = random.Random(5)
    for _ in range(200):
        before, after = ("\n".join(draw.choices("abcdefgh", k=draw.randint(1, 12))) for _ in "ab")
        shown = changes(before, after)
        gaps = [c for c in shown if c.kind == "gap"]
        hidden = sum(int(c.pieces[0][0].split()[0]) for c in gaps)
        for text, kind in ((before, "old"), (after, "new")):
            lines = ["".join(t for t, _ in c.pieces) for c in shown if c.kind in (kind, "same")]
            whole = text.split("\n")
            assert len(lines) + hidden == len(whole)
            assert gaps or lines == whole
