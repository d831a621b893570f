"""APL where people type it: the magic of notebooks, and the session's prompt with its keys and history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback.apl.session import lines_typed


@pytest.fixture(scope="module")
def notebook() -> Any:
    pytest.importorskip("IPython", reason="the magic is for IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.history_manager.enabled = False
    shell.run_line_magic("load_ext", "pullback.apl.jupyter")
    return shell


def shown(shell: Any, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a cell prints."""
    capsys.readouterr()
    shell.run_cell(text, store_history=False)
    return str(capsys.readouterr().out)


def test_values_go_both_ways(notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.user_ns.update(x=np.arange(4.0), word="abc", other=object())
    assert shown(notebook, "%%apl\ny←+/x\nx[1 2]\n⌽word\ns←'text' ⋄ m←2 2⍴⍳4", capsys) == "0 1\ncba\n"
    assert notebook.user_ns["y"] == 6 and notebook.user_ns["s"] == "text"
    assert notebook.user_ns["m"].tolist() == [[1, 2], [3, 4]]
    notebook.user_ns["y"] = 10
    assert shown(notebook, "%apl y+1", capsys) == "11\n"
    assert shown(notebook, "%%apl\nf←{⍵×2}\n(1 2)'ab'", capsys) == "┌───┬──┐\n│1 2│ab│\n└───┴──┘\n"
    assert shown(notebook, "%apl f y", capsys) == "20\n"


def test_functions_of_the_notebook_are_verbs(notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.user_ns["halved"] = lambda x: x / 2
    assert shown(notebook, "%apl halved 3 5", capsys) == "1.5 2.5\n"


def test_an_error_is_printed_and_the_notebook_goes_on(notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert "LENGTH ERROR" in shown(notebook, "%%apl\nz←1\n1 2+1 2 3", capsys)
    assert notebook.user_ns["z"] == 1
    notebook.user_ns["thing"] = object()
    assert "DOMAIN ERROR" in shown(notebook, "%apl thing", capsys)
    assert "no glyph" in shown(notebook, "%apl 1+$", capsys)


def test_the_prompt_takes_glyphs_by_the_prefix_key_and_keeps_a_history(tmp_path: Path) -> None:
    pytest.importorskip("prompt_toolkit", reason="the prompt is made with prompt_toolkit")
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("2 3`r`i6\n+`K``x\n\x04")
        lines = lines_typed(tmp_path)
        assert [next(lines) for _ in range(2)] == ["2 3⍴⍳6", "+⌸⋄x"]
        assert not list(lines)
    assert "2 3⍴⍳6" in (tmp_path / "apl_history").read_text(encoding="utf-8")


def test_without_prompt_toolkit_lines_are_read_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "prompt_toolkit", None)
    typed = iter(["2`r3", "4"])

    def read(prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", read)
    assert list(lines_typed(tmp_path)) == ["2⍴3", "4"]
