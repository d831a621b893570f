"""`pullback apl`: scripts and the session."""

from __future__ import annotations

from pathlib import Path

import pytest

from pullback.apl import AplError
from pullback.apl.session import Session, typed
from pullback.cli.main import main


def said(*lines: str) -> str:
    """What a session writes."""
    written: list[str] = []
    session = Session(written.append)
    for line in lines:
        session.line(line)
    return "".join(written)


def test_a_session_shows_boxes_and_what_is_compiled() -> None:
    assert said("(1 2)'ab'") == "┌───┬──┐\n│1 2│ab│\n└───┴──┘\n"
    assert said("x←3") == ""
    assert said("]type {+/⍵*2}1 2 3.5") == "(omega: f64[3]) -> f64\n"
    assert "2.0 * omega[i]" in said("]grad {+/⍵*2}1 2 3")
    assert "void" in said("]c {⍺+⍵}/1 2") or "takes a verb" in said("]c 1 2")
    assert said("f←{⍵}", "x←1", ")vars", ")fns") == "x\nf\n"
    assert "VALUE ERROR" in said("y")
    assert not Session(lambda _: None).line(")off")


def test_glyphs_are_typed_by_a_prefix() -> None:
    assert typed("2 3`r`i6") == "2 3⍴⍳6"


def test_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.apl"
    path.write_text("⍝ two lines\nx←⍳3\n+/x\n≢⎕ARGS\n", encoding="utf-8")
    assert main(["apl", str(path), "one", "two"]) == 0
    assert capsys.readouterr().out == "6\n2\n"
    path.write_bytes(b"x\xff")
    assert main(["apl", str(path)]) == 1
    assert "FILE ERROR" in capsys.readouterr().err
    with pytest.raises(AplError, match="E808"):
        from pullback.apl.workspace import read_text

        read_text(tmp_path / "none.apl")
