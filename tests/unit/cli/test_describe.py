"""`pullback describe`: the table of a network, its JSON, and what is no network."""

from __future__ import annotations

import json

import pytest

from pullback.cli.main import main
from pullback.nn import models


@pytest.mark.slow
def test_a_network_at_a_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "autoencoder", "--input", "1,4,4", "--batch-size", "3", "--json"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    wanted = models.autoencoder().named("autoencoder").on("N 1 4 4").describe(3)
    assert "\n".join(lines) == str(wanted)
    found = json.loads(last)
    assert (found["takes"], found["parameters"]) == ("f32[3, 1, 4, 4]", wanted.parameters)
    assert found["peaks"] == wanted.peaks
    assert [row["operations"] for row in found["layers"]] == [row.operations for row in wanted.rows]
    assert sum(row["parameters"] for row in found["layers"]) == found["parameters"]


def test_a_limit_shows_what_to_swap_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "autoencoder", "--input", "1,4,4", "--batch-size", "3", "--limit", "2000"]) == 0
    assert "swapping while training, limit 2,000 bytes" in capsys.readouterr().out


def test_classes_and_letters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "policy", "--input", "4", "--classes", "7"]) == 0
    assert "f32[1, 7]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resnet5", "--input", "3,8,8"], "[E605] resnet5: no such network"),
        (["gpt", "--input", "8"], "[E601] gpt: the number of classes, letters or actions is missing"),
        (["generator", "--input", "8", "--classes", "2"], "[E601] generator has no classes"),
        (["lenet", "--input", "1,,28"], "1,,28: sizes with commas between are needed, such as 3,224,224"),
        (["lenet", "--input", "1,2,28"], "[E167] conv: windows that reach over 5 × 5 do not fit [2, 28]"),
    ],
)
def test_what_cannot_be_described(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_unknown_names_are_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "resnet5", "--input", "3,8,8"]) == 1
    said = capsys.readouterr().err
    assert "try: resnet50" in said
    assert "googlenet" in said
