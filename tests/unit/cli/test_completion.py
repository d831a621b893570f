"""`pullback completion`: scripts that shells accept, and what bash makes of its own."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pullback.cli.main import COMMANDS, main
from pullback.nn.models import NAMES

COMPLETE = """
eval "$SCRIPT"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
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
        (["train", "--save", "l"], [""]),  # bash completes files
        (["cache", "c"], ["check", "clear"]),
    ],
)
def test_completion_in_bash(words: list[str], found: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", "pullback", *words],
        env={"SCRIPT": script("bash", capsys)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == found


def test_an_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bahs"]) == 1
    assert "SHELL bahs is not known\n  try: did you mean bash?" in capsys.readouterr().err
