"""Dims on the command line, argument types, and finding functions in files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from pullback.cli.main import COMMANDS, main, parser
from pullback.cli.options import at_least, dims_of, find_function, import_file, positive
from pullback.errors import UsageError

NAMES = [command.__name__.rpartition(".")[2].replace("_", "-") for command in COMMANDS]


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


WRONG = {
    "nonsense": ("pullback: COMMAND nonsense is not known", f"one of {', '.join(NAMES)}. `pullback --help` lists all"),
    "trian zhang": ("pullback: COMMAND trian is not known", "did you mean train? `pullback --help` lists all"),
    "train": ("pullback train: NETWORK is missing", "pullback train --help"),
    "train lenet_than": (
        "pullback train: NETWORK lenet_than is not known", "did you mean lenet_tanh? `pullback train --help` lists all",
    ),
    "train gpt --optimizer addam": (
        "pullback train: --optimizer addam is not known",
        "did you mean adam or adamw? `pullback train --help` lists all",
    ),
    "train zhang --epochs x": (
        "pullback train: --epochs x: a whole number of at least 0 is needed", "pullback train --help",
    ),
    "train zhang --epohs=3": (
        "pullback train: there is no option --epohs",
        "did you mean --epochs or --steps? `pullback train --help` lists all",
    ),
    "train zhang --batch 32": ("pullback train: there is no option --batch", "`--batch` is now `--batch-size`"),
    "train zhang --in-order": ("pullback train: there is no option --in-order", "`--in-order` is now `--no-shuffle`"),
    "train zhang --learning 1": (
        "pullback train: there is no option --learning",
        "did you mean --learning-rate? `pullback train --help` lists all",
    ),
    "train zhang --lr 0.1": (
        "pullback train: there is no option --lr", "did you mean --learning-rate? `pullback train --help` lists all",
    ),
    "explain f.py:f --wrt x": (
        "pullback explain: there is no option --wrt", "did you mean --grad? `pullback explain --help` lists all",
    ),
    "train zhang --epochs": ("pullback train: --epochs: a value is missing", "pullback train --help"),
    "train zhang --steps 1 --epochs 1": (
        "pullback train: --epochs and --steps exclude each other", "pullback train --help",
    ),
    "train zhang --quiet=3": ("pullback train: --quiet takes no value", "pullback train --help"),
    "train zhang lenet": ("pullback train: one argument too many: lenet", "`pullback train --help` lists all"),
    "cache lits": ("pullback cache: ACTION lits is not known", "did you mean list? `pullback cache --help` lists all"),
    "completion ksh": (
        "pullback completion: SHELL ksh is not known", "one of bash, zsh, fish. `pullback completion --help` lists all",
    ),
    "--verzion": ("pullback: there is no option --verzion", "did you mean --version? `pullback --help` lists all"),
}  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_line_is_an_error_like_others(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 1
    what, remedy = WRONG[line]
    said = f"UsageError [E601] {what}\n  try: {remedy}      See `pullback explain-error E601`\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("name", [*NAMES, ""])
def test_help_is_plain_and_its_examples_are_accepted(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every argument is explained, no default is None, and no line is wider than the terminal but for examples."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*([name] if name else []), "--help"])
    said, _, examples = capsys.readouterr().out.partition("examples:\n")
    assert "None" not in said and "False" not in said
    assert all(len(line) <= 80 for line in said.splitlines()) or name == "bench"
    for line in examples.splitlines():
        if line.strip().startswith("pullback"):
            parser().parse_args(line.partition(">")[0].split()[1:])
    below = next(action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    assert all(action.help for action in (below.choices[name]._actions if name and name != "bench" else ()))


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: pullback")
    assert "train a network\n" in out
    assert err == ""


def test_help_has_each_default_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert "initial parameters (default: uniform)" in out
    rates = "0.5 for zhang, 0.1 for lenet, less for batches below the default size"
    assert f"the size of an update (default: {rates}) --init" in out
    assert "None" not in out and "False" not in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("pullback ")
