"""Dims on the command line, argument types, and finding functions in files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from pullback.cli.main import main
from pullback.cli.options import at_least, dims_of, find_function, import_file, positive
from pullback.errors import UsageError


def dims(*texts: str) -> dict[str, int]:
    return dims_of(argparse.Namespace(dim=list(texts)))


def test_dims() -> None:
    assert dims() == {}
    assert dims("N=500", "M=0") == {"N": 500, "M": 0}


@pytest.mark.parametrize("text", ["N", "N=", "=5", "N=x", "N=-1", "N=1.5", "1N=2", "N=5=6", ""])
def test_malformed_dims(text: str) -> None:
    with pytest.raises(UsageError, match="E603"):
        dims(text)


def test_a_dim_given_twice() -> None:
    with pytest.raises(UsageError, match=r"E603.*N is already 5"):
        dims("N=5", "N=6")


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", ""])
def test_at_least(text: str) -> None:
    assert at_least(1)("1") == 1
    with pytest.raises(argparse.ArgumentTypeError, match="at least 1"):
        at_least(1)(text)


@pytest.mark.parametrize("text", ["0", "-0.5", "nan", "inf", "x", ""])
def test_positive(text: str) -> None:
    assert positive("0.5") == 0.5
    with pytest.raises(argparse.ArgumentTypeError, match="above 0"):
        positive(text)


def test_import_has_its_own_name_and_folder(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("VALUE = 7\n")
    (tmp_path / "mine.py").write_text("import beside_it\nNAME = __name__\nVALUE = beside_it.VALUE\n")
    before = list(sys.path)
    module = import_file(tmp_path / "mine.py")
    assert (module.NAME, module.VALUE) == ("mine", 7)
    assert sys.path == before


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        ("def f(:\n", "SyntaxError"),
        ("x = 1\nraise ValueError('no')\n", "ValueError: no"),
        ("import not_installed_anywhere\n", "ModuleNotFoundError"),
        ("import sys\nsys.exit(3)\n", "SystemExit"),
    ],
)
def test_files_that_fail_to_import(tmp_path: Path, content: str, phrase: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(content)
    with pytest.raises(UsageError, match=f"E602.*{phrase}") as caught:
        import_file(path)
    assert f"python {path}" in str(caught.value)


def test_the_failing_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    1 / 0\n\nf()\n")
    with pytest.raises(UsageError) as caught:
        import_file(path)
    assert caught.value.position is not None
    assert caught.value.position.line == 2


def test_missing_files_and_functions(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text("def f():\n    pass\n")
    for target, code in (
        (str(path), "E604"),
        (f"{path}:f", "E604"),
        (f"{path}:g", "E604"),
        (f"{tmp_path / 'none.py'}:f", "E602"),
    ):
        with pytest.raises(UsageError, match=code):
            find_function(target)


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["train"], ["train", "vgg"], ["train", "zhang", "--epochs", "x"], ["export", "a.py:f"]],
)
def test_a_wrong_command_line_is_an_error_like_others(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("UsageError [E601] pullback")
    assert "--help" in err


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["trian", "zhang"], "pullback: COMMAND trian is not known\n  try: did you mean train?"),
        (["train", "lenet_than"], "network lenet_than is not known\n  try: did you mean lenet_tanh?"),
        (["train", "gpt", "--optimizer", "addam"], "--optimizer addam is not known\n  try: did you mean adam or adamw"),
        (["cache", "lits"], "ACTION lits is not known\n  try: did you mean list?"),
    ],
)
def test_a_misspelled_word(arguments: list[str], found: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    assert found in capsys.readouterr().err


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: pullback")
    assert "train a network and measure it" in out
    assert err == ""


def test_help_has_each_default_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert "initial parameters (default: uniform)" in out
    assert "the size of an update (default: 0.5 for zhang, 0.1 for lenet) --init" in out
    assert "None" not in out and "False" not in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("pullback ")
