"""Lines of a session: values, how they are printed, and errors by APL's names with a caret."""

from __future__ import annotations

import pytest

from pullback.apl import AplError, Workspace, display

LINES = {
    "2×2+2": "8",
    "+/⍳10": "55",
    "2 3⍴⍳6": "1 2 3\n4 5 6",
    "⍉2 3⍴⍳6": "1 4\n2 5\n3 6",
    "¯4↑2 2⍴⍳4": "0 0\n0 0\n1 2\n3 4",
    "{⍺+⍵×2}/1 2 3": "17",
    "∘.×⍨⍳3": "1 2 3\n2 4 6\n3 6 9",
    "+.×⍨2 2⍴⍳4": " 7 10\n15 22",
    "(+/÷≢)1 2 3 6": "3",
    "{⍵≤1:1⋄⍵×∇⍵-1}10": "3628800",
    "x←2 2⍴⍳4⋄x[1;2]←100⋄x": "1 100\n3   4",
    "1 0 1\\1 2": "1 0 2",
    "+/⍬": "0",
    "⌹2 2⍴1 2 3 4": "¯2    1  \n 1.5 ¯0.5",
    "2*¯1 0.5": "0.5 1.414213562",
    "0.3=0.1+0.2": "1",
    "↑(1 2)(3 4 5)": "1 2 0\n3 4 5",
    "{⍺←10⋄⍺+⍵}5": "15",
    "10 10 10⊤345": "3 4 5",
    "'abc'⍳'cab'": "3 1 2",
    "'it''s'": "it's",
    "{⍵+1}⍣3⊢0": "3",
    "(⊂1 2 3),4": " 1 2 3  4",
}


@pytest.mark.parametrize(("text", "printed"), LINES.items(), ids=LINES)
def test_a_line(text: str, printed: str) -> None:
    assert display(Workspace().evaluate(text)) == printed


@pytest.mark.parametrize(
    ("text", "kind", "under"),
    [
        ("1 2+1 2 3", "LENGTH ERROR", "+"),
        ("(1 2 3)+2 2⍴⍳4", "RANK ERROR", "+"),
        ("2×1÷0", "DOMAIN ERROR", "÷"),
        ("(1 2", "SYNTAX ERROR", "("),
        ("a←3⋄a+b", "VALUE ERROR", "b"),
        ("x←1 2 3⋄x[4]", "INDEX ERROR", "["),
        ("{∇⍵}1", "LIMIT ERROR", "∇"),
        ("1+$", "SYNTAX ERROR", "$"),
    ],
)
def test_an_error_has_its_name_and_a_caret(text: str, kind: str, under: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pullback.apl.dfns.TAIL_CALLS", 1000)
    with pytest.raises(AplError) as caught:
        Workspace().evaluate(text)
    assert caught.value.kind == kind
    _, _, line, caret, *_ = caught.value.message.splitlines()
    assert line[caret.index("^")] == under
