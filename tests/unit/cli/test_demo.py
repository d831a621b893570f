"""`pullback demo`: what it shows and writes, what it needs, and Ctrl-C."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pullback.cli import demo
from pullback.cli.main import main
from pullback.runtime.compile import compiler_command

ROOT = Path(__file__).resolve().parents[3]
needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler installed")


class Shown(NamedTuple):
    """A whole demonstration."""

    folder: Path
    text: str
    measured: dict[str, Any]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("demo") / "new"
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["demo", "--out", str(folder), "--json"]) == 0
    text, _, last = out.getvalue().rstrip().rpartition("\n")
    return Shown(folder, text, json.loads(last))


@pytest.mark.slow
@needs_compiler
def test_it_shows_an_error_a_gradient_and_digits(shown: Shown) -> None:
    assert re.findall(r"^\[(\d)/6\] \w.*\.$", shown.text, re.MULTILINE) == list("123456")
    place = f"{shown.folder / 'mistake.py'}:10:20"
    assert f"{place}\n   |     return pb.tanh(x @ w)\n   |                    ^^^^^" in shown.text
    assert "w_bar = build m < M { sum n < N { subtract_bar[n] * x[n, m] } }" in shown.text
    assert re.findall(r"read: (\d)(?![\d,])", shown.text) == list(map(str, shown.measured["read"]))
    assert max(len(line) for line in shown.text.splitlines() if "█" in line) <= 80


@needs_compiler
def test_the_network_is_good_and_small(shown: Shown) -> None:
    assert shown.measured["accuracy"] >= 0.97
    assert sum(read == digit for digit, read in enumerate(shown.measured["read"])) >= 8
    assert shown.measured["program_bytes"] < 400_000
    assert shown.measured["arena_bytes"] < 40_000
    assert 0 < shown.measured["microseconds"] < 10_000


@needs_compiler
def test_its_files_are_whole(shown: Shown) -> None:
    files = {path.relative_to(shown.folder).as_posix() for path in shown.folder.rglob("*") if path.is_file()}
    assert files == {
        *("mistake.py", "line.py", "read.c", "read", "digits.f32", "explain.html", "filters.png"),
        *("c/digits_infer.c", "c/digits_infer.h", "c/main.c", "c/CMakeLists.txt"),
    }
    assert shown.measured["files"] == sorted(str(shown.folder / file) for file in files)
    assert (shown.folder / "filters.png").read_bytes().startswith(b"\x89PNG")
    assert "</html>" in (shown.folder / "explain.html").read_text(encoding="utf-8")
    assert np.fromfile(shown.folder / "digits.f32", np.float32).size == 10 * 28 * 28


@needs_compiler
def test_what_it_names_to_try_next_works(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"check": 1, "explain": 0, "export": 0}  # the mistake is one
    commands = re.findall(r"^pullback ((check|explain|export) .*?)  ", shown.text, re.MULTILINE)
    assert [name for _, name in commands] == list(wanted)
    for words, name in commands:
        with contextlib.chdir(shown.folder.parent):
            assert main(words.split()) == wanted[name]
    capsys.readouterr()


def test_without_matplotlib_the_picture_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    demo._draw_filters(tmp_path / "filters.png", np.zeros((8, 5, 5), np.float32))
    assert capsys.readouterr().out == (
        "no picture of the filters: matplotlib is not installed; pip install 'pullback[demo]'\n"
    )
    assert not (tmp_path / "filters.png").exists()


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("digits", ["DataError [E506] digits: scikit-learn", "pip install 'pullback[demo]'"]),
        ("compiler", ["CompilerError [E410] no C compiler", "install gcc or clang, or `pip install ziglang`"]),
    ],
)
def test_a_missing_package_or_compiler_is_named(
    missing: str, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if missing == "digits":
        if compiler_command() is None:
            pytest.skip("no C compiler installed")
        monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    else:
        monkeypatch.setenv("CC", str(tmp_path / "none"))
    assert main(["demo", "--out", str(tmp_path / "out")]) == 1
    out, err = capsys.readouterr()
    assert "[3/6]" in out and "[4/6]" not in out
    assert all(text in err for text in said)


def test_a_place_that_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(["demo", "--out", str(tmp_path / "file")]) == 1
    assert "UsageError [E607]" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


@needs_compiler
def test_ctrl_c_leaves_whole_files(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    process = subprocess.Popen(
        [sys.executable, "-m", "pullback", "demo", "--out", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("[3/6]"):
            break
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert err.endswith("interrupted\n")
    assert "Traceback" not in err
    assert "[4/6]" not in out
    assert {path.name for path in tmp_path.iterdir()} == {"mistake.py", "line.py"}
