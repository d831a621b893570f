"""Tables, JSON and progress."""

from __future__ import annotations

import fcntl
import json
import math
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pullback.cli.output import print_json, table
from pullback.progress import Notebook, Plain, duration, progress_bar


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


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> Plain:
    monkeypatch.setattr("pullback.progress._columns", lambda: columns)
    return Plain(terminal=True)


def test_the_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    bar = on_a_terminal(monkeypatch, 120)
    bar.update(0.5, "loss 0.25 long")
    bar.update(1.0, "short")
    bar.line("epoch 1")
    _, err = capsys.readouterr()
    shown = err.split("\r")
    assert shown[1].startswith(f"[{'#' * 12}{'.' * 12}]  50%  loss 0.25 long")
    assert shown[2].startswith(f"[{'#' * 24}] 100%  short")
    assert len(shown[2]) == len(shown[1])  # nothing of the longer line stays
    assert shown[-1] == "epoch 1\n"


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (40, "  2%  epoch 1/2  loss 2.347  12 s left"),
        (30, "  2%  epoch 1/2  loss 2.347"),
        (80, "[..........]   2%  epoch 1/2  loss 2.347  12 s left  validation 1.233  rate 0.1"),
        (120, f"[{'.' * 24}]   2%  epoch 1/2  loss 2.347  12 s left  validation 1.233  rate 0.1  660/s"),
    ],
)
def test_a_narrow_terminal_shows_what_matters_most(
    columns: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = on_a_terminal(monkeypatch, columns)
    bar.update(0.02, "epoch 1/2  loss 2.347  12 s left  validation 1.233  rate 0.1  660/s")
    assert capsys.readouterr().err == f"\r{line}"


def test_lines_that_stay_are_folded_between_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = on_a_terminal(monkeypatch, 40)
    bar.line("epoch   1  loss 1.96395  evaluation loss 1.23336  accuracy 0.65556")
    bar.line("a line of one part, which is longer than the terminal is wide")
    assert capsys.readouterr().err == """\
epoch   1  loss 1.96395
    evaluation loss 1.23336
    accuracy 0.65556
a line of one part, which is longer than the terminal is wide
"""


def test_before_anything_is_known_there_is_no_share(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch, 80).update(0.0, "compiling")
    assert capsys.readouterr().err == "\rcompiling"


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_training_on_a_pseudo_terminal_leaves_whole_lines(columns: int, tmp_path: Path) -> None:
    """No line that is overwritten is wider than the terminal."""
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    shown = on_a_pseudo_terminal([sys.executable, str(script)], columns)
    assert "compiling" in shown and "left" in shown
    overwritten = [line for part in shown.split("\r\n") for line in part.split("\r")[:-1]]
    assert max(map(len, overwritten)) < columns
    last = shown.rstrip().rsplit("\r\n", 1)[-1]
    assert last.rpartition("\r")[2].strip() == "done"


TRAINS = """
import numpy as np
from pullback import nn
nn.training.report.OFTEN = 0.0
x = np.random.default_rng(0).normal(size=(64, 3)).astype("f")
y = (x.sum(1) > 0).astype(int)
data = [(x[k:k + 8], y[k:k + 8]) for k in range(0, 64, 8)]
nn.fit(nn.sequential(nn.dense(2)), nn.cross_entropy, data, optimizer=nn.sgd(0.1), steps=24)
print("done")
"""


def on_a_pseudo_terminal(command: list[str], columns: int) -> str:
    """Everything that a program writes on a terminal of a width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 65536):
            parts.append(part)
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0, b"".join(parts).decode()
    return b"".join(parts).decode()


def test_progress_in_a_notebook_is_one_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output is created once and then overwritten; the last lines stay."""
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, value: Notebook) -> None:
            shown.append(value._repr_mimebundle_())

    jupyter = ModuleType("IPython")
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setattr(jupyter, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setattr(jupyter, "display", SimpleNamespace(display=lambda value, display_id: Handle()), raising=False)
    monkeypatch.setitem(sys.modules, "IPython", jupyter)
    with progress_bar() as bar:
        assert isinstance(bar, Notebook)
        bar.update(0.25, "epoch 1/2  loss < 1")
        bar.line("epoch   1  loss 0.5")
    assert '<progress value="0.2500" max="1"></progress> 25% epoch 1/2  loss &lt; 1' in shown[0]["text/html"]
    assert shown[1]["text/plain"] == "epoch   1  loss 0.5\nepoch 1/2  loss < 1"
    assert shown[-1]["text/plain"] == "epoch   1  loss 0.5" and "<progress" not in shown[-1]["text/html"]
    for k in range(100):
        bar.line(str(k))
    assert repr(bar).splitlines()[0] == "⋮" and len(repr(bar).splitlines()) == 41
    del shell.kernel  # IPython in a terminal
    with progress_bar() as bar:
        assert isinstance(bar, Plain)


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 59.4, 60, 3599.4, 3661)] == ["0 s", "59 s", "1:00", "59:59", "1:01:01"]
