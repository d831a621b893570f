"""Exported C with every compiler on this machine: no warning, and the numbers of the interpreter."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.support.targets.toolchains import STRICT, WARNINGS
from tests.unit.codegen.programs import PROGRAMS

ZIG = ("zig", "cc") if shutil.which("zig") else (sys.executable, "-m", "ziglang", "cc")
QUICK = ("-std=gnu99", "-O2", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", *WARNINGS)
SANITISED = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *STRICT)
WAYS: dict[str, tuple[str, ...]] = {
    "gcc -O0": ("gcc", "-O0", *STRICT),
    "gcc native": ("gcc", *QUICK),
    "gcc 32 bits": ("gcc", "-m32", "-O1", *STRICT),
    "gcc sanitised": ("gcc", *SANITISED),
    "gcc without vectors": ("gcc", "-DPB_NO_VECTORS", "-O1", *STRICT),
    "clang": ("clang", "-O1", *STRICT),
    "clang native": ("clang", *QUICK),
    "clang without vectors": ("clang", "-DPB_NO_VECTORS", "-O1", *STRICT),
    "zig": (*ZIG, "-fsanitize=undefined", "-fsanitize-trap=undefined", *STRICT),
    "zig native": (*ZIG, *QUICK),
    "tcc": ("tcc", "-Wall", "-Werror"),
}


@cache
def compiles(way: str) -> bool:
    """Whether there is such a compiler, and libraries for it."""
    command = WAYS[way]
    found = importlib.util.find_spec("ziglang") if command[0] == sys.executable else shutil.which(command[0])
    text = "#include <math.h>\n#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n"
    run = {"input": text, "text": True, "capture_output": True, "check": False}
    if found is None:
        return False
    with tempfile.TemporaryDirectory() as folder:  # some linkers put a file in the place of a device
        built = subprocess.run([*command, "-x", "c", "-", "-o", str(Path(folder, "line"))], **run)
    return built.returncode == 0


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Where the project of each program is."""
    folders = {name: tmp_path_factory.mktemp(name) for name in PROGRAMS}
    for name, (function, dims) in PROGRAMS.items():
        function.export(folders[name], **dims)
    return folders


PARTS = ("lenet", "zhang")  # of what trains them, which is compiled in all ways
CASES = [(way, name) for way in WAYS for name in PROGRAMS if way == "gcc native" or name not in PARTS]


@pytest.mark.parametrize(("way", "name"), CASES)
def test_every_compiler(way: str, name: str, exported: dict[str, Path], tmp_path: Path) -> None:
    if not compiles(way):
        pytest.skip(f"not on this machine: {way}")
    program = tmp_path / "example"
    command = [*WAYS[way], *map(str, sorted(exported[name].glob("*.c"))), "-o", str(program), "-lm"]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    ran = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert "0 numbers differ" in ran.stdout, ran.stdout + ran.stderr
