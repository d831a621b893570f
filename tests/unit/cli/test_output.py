"""Tables, JSON and progress."""

from __future__ import annotations

import json
import math
import sys

import pytest

from pullback.cli.output import print_json, table
from pullback.progress import Plain, duration, progress_bar


def test_table() -> None:
    text = table([("name", "n"), ("a", "10"), ("long name", "5")], right=[False, True])
    assert text.splitlines() == ["name        n", "a          10", "long name   5"]


def test_json_is_one_line_of_strict_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"losses": [0.5], "name": "Šinkarovs"})
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"losses": [0.5], "name": "Šinkarovs"}
    with pytest.raises(ValueError, match="JSON"):
        print_json({"loss": math.nan})


def test_no_overwritten_line_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as bar:
        bar.update(0.5, "half")
        bar.line("epoch 1")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "epoch 1\n"


def test_the_plain_bar_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Plain(terminal=True)
    bar.update(0.5, "loss 0.25 long")
    bar.update(1.0, "short")
    bar.line("epoch 1")
    _, err = capsys.readouterr()
    shown = err.split("\r")
    assert shown[1].startswith(f"[{'#' * 12}{'.' * 12}]  50%  loss 0.25 long")
    assert shown[2].startswith(f"[{'#' * 24}] 100%  short")
    assert len(shown[2]) == len(shown[1])  # nothing of the longer line stays
    assert shown[-1] == "epoch 1\n"


def test_rich_is_not_needed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar() as bar:
        assert isinstance(bar, Plain)
        bar.update(0.25, "x")
    assert "25%" in capsys.readouterr().err


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 59.4, 60, 3599.4, 3661)] == ["0 s", "59 s", "1:00", "59:59", "1:01:01"]
