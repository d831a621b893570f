"""Part of the table of targets, where the compiler is installed; and what the command says of what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.targets import PROGRAMS, TOOLCHAINS, Cell, Toolchain, build, markdown
from tests.support.targets.__main__ import main
from tests.support.targets.table import projects

FEW = ("collatz", "statistics")  # division of 64 bits; vectors


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return projects({name: PROGRAMS[name] for name in FEW}, tmp_path_factory.mktemp("projects"))


@pytest.mark.parametrize("toolchain", TOOLCHAINS, ids=lambda t: t.name)
def test_a28_the_same_program_for_several_targets(toolchain: Toolchain, made: dict[str, Path], tmp_path: Path) -> None:
    absent = toolchain.missing or toolchain.sound()
    if absent:
        pytest.skip(f"not on this machine: {absent}")
    for project in made.values():
        cell = build(toolchain, project, tmp_path)
        assert not cell.fault
        assert cell.ran == (toolchain.links and toolchain.runner() is not None)


def test_names_from_elsewhere_are_a_fault(tmp_path: Path) -> None:
    if TOOLCHAINS[0].missing:
        pytest.skip("no gcc")
    (tmp_path / "f.c").write_text("#include <stdlib.h>\nvoid *f(void);\nvoid *f(void) { return malloc(3); }\n")
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    assert build(TOOLCHAINS[0], tmp_path, tmp_path).fault == "imports malloc"


def test_numbers_that_differ_are_a_fault(made: dict[str, Path], tmp_path: Path) -> None:
    if TOOLCHAINS[0].missing:
        pytest.skip("no gcc")
    project = tmp_path / "statistics"
    project.mkdir()
    for file in made["statistics"].iterdir():  # inputs are a millionth greater
        (project / file.name).write_text(file.read_text().replace("/ 2147483648.0", "/ 2147483648.0 * 1.000001"))
    assert build(TOOLCHAINS[0], project, tmp_path).fault.startswith("numbers: ")


def test_table() -> None:
    here, absent = TOOLCHAINS[0], TOOLCHAINS[-1]
    cells = {"a": Cell(1234, frozenset({"expf"}), True), "b": Cell(7), "c": Cell(fault="link: x | y")}
    text = markdown({here: cells}, {absent: "there is no zig"})
    assert "| 1,234 | (7) | **link: x \\| y** |" in text
    assert "gcc, x86-64 Linux: `expf`" in text
    assert "- zig, wasm32 with SIMD: there is no zig" in text


def test_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "vax"]) == 2
    assert "E610] --only: there is no compiler or target 'vax'" in capsys.readouterr().err
    assert main(["--programs", "tetris"]) == 2
    assert "E610] --programs: there is no program 'tetris'" in capsys.readouterr().err
