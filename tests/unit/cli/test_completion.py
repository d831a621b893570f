"""`pullback completion`: scripts that shells accept, and what bash makes of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pullback.cli.main import COMMANDS, main
from pullback.nn.models import NAMES

COMPLETE = """
eval "$SCRIPT"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
compopt() { :; }  # which asks for a completion under way
_pullback
printf '%s\\n' "${COMPREPLY[@]}"
"""


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_has_every_command_and_is_of_its_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    for command in COMMANDS:
        assert command.__name__.rpartition(".")[2].replace("_", "-") in text
    assert "resume-newest-intact" in text
    assert "{{" not in text
    program = shutil.which(shell)
    if program is not None:
        done = subprocess.run([program, "-n"], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash installed")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["explain-"], ["explain-error"]),
        (["train", "len"], ["lenet", "lenet_tanh"]),
        (["train", ""], list(NAMES)),
        (["train", "zhang", "--re"], ["--resume", "--resume-newest-intact", "--resume-anyway"]),
        (["train", "zhang", "--optimizer", "ad"], ["adam", "adamw"]),
        (["train", "zhang", "--optimizer", "=", "ad"], ["adam", "adamw"]),  # as bash splits --optimizer=ad
        (["train", "zhang", "--optimizer", "="], ["sgd", "momentum", "rmsprop", "adam", "adamw", "lion"]),
        (["train", "zhang", "le"], [""]),  # there is a network already
        (["train", "--save", "f"], ["folder"]),
        (["train", "--load", "f"], ["file.py", "folder"]),
        (["train", "--epochs", ""], [""]),
        (["explain", "f"], ["file.py", "folder"]),
        (["export", "--binding", "r"], ["rust"]),
        (["explain-error", "E10"], ["E101", "E102", "E103", "E104", "E105", "E106", "E107", "E108", "E109"]),
        (["describe", "resnet1"], ["resnet101", "resnet152", "resnet18"]),
        (["cache", "c"], ["check", "clear"]),
    ],
)
def test_completion_in_bash(
    words: list[str], found: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.py").touch()
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", "pullback", *words],
        env={"SCRIPT": script("bash", capsys)}, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert sorted(done.stdout.splitlines()) == sorted(found)


def test_an_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bahs"]) == 1
    assert "SHELL bahs is not known\n  try: did you mean bash?" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish installed")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("train lenet --optimizer a", ["adam", "adamw"]),
        ("describe resnet1", ["resnet18"]),
        ("train --epochs ", []),
        ("completion ", ["bash", "fish", "zsh"]),
    ],
)
def test_completion_in_fish(line: str, found: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    asked = f"{script('fish', capsys)}\ncomplete -C 'pullback {line}'"
    done = subprocess.run(["fish", "--no-config", "-c", asked], capture_output=True, text=True, check=True)
    assert [row.partition("\t")[0] for row in done.stdout.splitlines()] == found
